//! One server: its address and the connections over which it is asked.

use super::address::Address;
use super::connect::Connector;
use crate::tier::{ServerId, TierError};
use redis::{Cmd, Pipeline, Value};
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// The connection of a server that a request takes. The key is the one that the request is about, or one of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane<'k> {
    /// One of a few, by the hash of the key: for lookups and compare-and-sets.
    Read(&'k [u8]),
    /// A single one: mutations of a key keep their order.
    Write(&'k [u8]),
}

impl<'k> Lane<'k> {
    pub(super) fn key(self) -> &'k [u8] {
        let (Lane::Read(key) | Lane::Write(key)) = self;
        key
    }
}

/// Whether a request is sent once more if its connection is closed before the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// No: it may have been executed.
    Once,
    /// Yes: it may be executed twice.
    Repeatably,
}

pub(super) struct Server {
    pub(super) address: Arc<Address>,
    readers: Box<[Connector]>,
    writer: Connector,
}

impl Server {
    pub(super) fn new(address: Address, connections: usize) -> Self {
        Server {
            address: Arc::new(address),
            readers: (0..connections).map(|_| Connector::default()).collect(),
            writer: Connector::default(),
        }
    }

    fn connector(&self, lane: Lane<'_>) -> &Connector {
        match lane {
            Lane::Read(key) => &self.readers[XxHash3_64::oneshot(key) as usize % self.readers.len()],
            Lane::Write(_) => &self.writer,
        }
    }

    /// Sends a pipeline. Returns one value for each command; errors of the server are values.
    pub(super) async fn send(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        let connector = self.connector(lane);
        match sent {
            Sent::Once => connector.send(&self.address, pipeline).await,
            Sent::Repeatably => connector.send_repeatable(&self.address, pipeline).await,
        }
    }

    /// Sends one command that may be executed twice: cheaper than a pipeline of one.
    pub(super) async fn send_command(&self, lane: Lane<'_>, command: &Cmd) -> Result<Value, TierError> {
        self.connector(lane).send_repeatable_command(&self.address, command).await
    }

    /// Accepts the server that has this identity. Connections to another one are closed.
    pub(super) fn accept(&self, server: &ServerId) {
        self.address.accept(server);
        self.readers.iter().chain([&self.writer]).for_each(|connector| connector.keep_only(server));
    }

    /// Accepts no server. Connections are closed.
    pub(super) fn reject(&self) {
        self.address.reject();
        let nobody = ServerId(String::new());
        self.readers.iter().chain([&self.writer]).for_each(|connector| connector.keep_only(&nobody));
    }
}
