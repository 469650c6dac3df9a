//! A proxy before a PostgreSQL that closes connections at a COMMIT: its client cannot tell whether it is stored.

use crate::proxy::{Connection, Direction, Interceptor, Proxy};
use larder_process::{POSTGRES_USER, PostgresServer};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// When a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitCut {
    /// Before the server gets the COMMIT.
    Before,
    /// When the server has answered it, instead of its answer.
    After,
}

/// A TCP port before a [`PostgresServer`]. It forwards everything at first.
#[derive(Debug)]
pub struct PostgresProxy {
    proxy: Proxy,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is done at the next commits.
    cuts: Mutex<VecDeque<CommitCut>>,
    done: AtomicU64,
}

impl PostgresProxy {
    /// Listens before a server.
    pub fn before(server: &PostgresServer) -> Self {
        let state = Arc::new(State::default());
        PostgresProxy { proxy: Proxy::start(server.socket(), state.clone()), state }
    }

    /// The URL of a database for clients, without TLS.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{POSTGRES_USER}@127.0.0.1:{}/{database}", self.proxy.port())
    }

    /// Closes the connections of the next commits.
    pub fn cut_next_commits(&self, cuts: impl IntoIterator<Item = CommitCut>) {
        self.state.cuts().extend(cuts);
    }

    /// How many connections were closed at a commit.
    pub fn cuts_done(&self) -> u64 {
        self.state.done.load(SeqCst)
    }

    /// Closes every open connection now.
    pub fn cut(&self) {
        self.proxy.connections().iter().for_each(|connection| connection.cut());
    }
}

impl State {
    fn cuts(&self) -> MutexGuard<'_, VecDeque<CommitCut>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the answer of a connection's server is to be swallowed, for both of its directions.
type Swallows = Arc<AtomicBool>;

impl Interceptor for State {
    type Side = Swallows;

    fn connected(&self, _: usize) -> Option<[Swallows; 2]> {
        let swallows = Swallows::default();
        Some([swallows.clone(), swallows])
    }

    fn arrived(
        &self,
        connection: &Connection,
        direction: Direction,
        swallows: &mut Swallows,
        bytes: &[u8],
    ) -> io::Result<()> {
        let is_commit = direction == Direction::ToServer && bytes.windows(7).any(|part| part == b"COMMIT\0");
        if is_commit {
            let cut = self.cuts().pop_front();
            if cut == Some(CommitCut::After) {
                swallows.store(true, SeqCst);
            }
            if cut == Some(CommitCut::Before) {
                self.done.fetch_add(1, SeqCst);
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        if direction == Direction::ToClient && swallows.load(SeqCst) {
            self.done.fetch_add(1, SeqCst);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        connection.send(direction, bytes)
    }
}
