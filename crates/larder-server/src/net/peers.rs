//! A thread as the others see it: how busy it is, and where they pass connections to it.

use std::sync::Arc;

use super::connection::Connection;
use super::load::PublishedLoad;
use crate::client::Inbox;

/// One thread.
#[derive(Default)]
pub(crate) struct Peer {
    pub(crate) load: PublishedLoad,
    /// Connections that it serves from now on: new ones, and those of a thread that has too much to do.
    pub(crate) arrivals: Inbox<Box<Connection>>,
}

/// All threads of a server.
pub(crate) type Peers = Arc<[Peer]>;

/// So many threads, which have no connections yet.
pub(crate) fn peers(threads: usize) -> Peers {
    (0..threads).map(|_| Peer::default()).collect()
}
