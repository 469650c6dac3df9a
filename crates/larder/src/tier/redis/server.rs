//! One server: its address and the connections over which it is asked.

use super::RedisOptions;
use super::address::Address;
use super::confirmer::Confirmer;
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
    /// One of those of lookups: for what the server tells of itself, also if nobody confirms it.
    Ask(&'k [u8]),
}

impl<'k> Lane<'k> {
    pub(super) fn key(self) -> &'k [u8] {
        let (Lane::Read(key) | Lane::Write(key) | Lane::Ask(key)) = self;
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
    /// If replicas must acknowledge mutations.
    confirmer: Option<Confirmer>,
}

impl Server {
    pub(super) fn new(address: Address, options: &RedisOptions) -> Self {
        Server {
            confirmer: address.replica_fence.map(Confirmer::new),
            address: Arc::new(address),
            readers: (0..options.connections).map(|_| Connector::default()).collect(),
            writer: Connector::default(),
        }
    }

    fn connectors(&self) -> impl Iterator<Item = &Connector> {
        let confirmer = self.confirmer.iter().map(|confirmer| &confirmer.connector);
        self.readers.iter().chain([&self.writer]).chain(confirmer)
    }

    fn connector(&self, lane: Lane<'_>) -> &Connector {
        match lane {
            Lane::Read(key) | Lane::Ask(key) => {
                &self.readers[XxHash3_64::oneshot(key) as usize % self.readers.len()]
            }
            Lane::Write(_) => &self.writer,
        }
    }

    /// What a server has that nobody confirms may be old. Mutations there are queued, and what it announces may help.
    ///
    /// # Errors
    /// If the lane is for lookups, and somebody must confirm the server and has not done so lately.
    pub(super) fn check_readable(&self, lane: Lane<'_>) -> Result<(), TierError> {
        match lane {
            Lane::Read(_) => self.address.check_confirmed(),
            Lane::Write(_) | Lane::Ask(_) => Ok(()),
        }
    }

    /// Sends a pipeline. Returns one value for each command; errors of the server are values.
    pub(super) async fn send(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        self.check_readable(lane)?;
        let connector = self.connector(lane);
        match sent {
            Sent::Once => connector.send(&self.address, pipeline).await,
            Sent::Repeatably => connector.send_repeatable(&self.address, pipeline).await,
        }
    }

    /// Sends one command that may be executed twice: cheaper than a pipeline of one.
    pub(super) async fn send_command(&self, lane: Lane<'_>, command: &Cmd) -> Result<Value, TierError> {
        self.check_readable(lane)?;
        self.connector(lane).send_repeatable_command(&self.address, command).await
    }

    /// Returns once a mutation that the server has executed is confirmed: by the sentinels, and by replicas that acknowledge
    /// a write to this key. At once if nobody must confirm it.
    ///
    /// # Errors
    /// If it is not confirmed: another server may have taken the place of this one before it.
    pub(super) async fn confirm(&self, key: impl FnOnce() -> Vec<u8>) -> Result<(), TierError> {
        self.address.confirm_accepted().await?;
        match &self.confirmer {
            Some(confirmer) => confirmer.confirm(&self.address, key()).await,
            None => Ok(()),
        }
    }

    /// Accepts the server that has this identity. Connections to another one are closed.
    pub(super) fn accept(&self, server: &ServerId) {
        self.address.accept(server);
        self.connectors().for_each(|connector| connector.keep_only(server));
    }

    /// Accepts no server. Connections are closed.
    pub(super) fn reject(&self) {
        self.address.reject();
        let nobody = ServerId(String::new());
        self.connectors().for_each(|connector| connector.keep_only(&nobody));
    }
}
