//! Whether the database takes writes, as the writer saw it last.

use super::StoreError;
use parking_lot::Mutex;
use std::time::Instant;

/// Whether the database takes writes now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreHealth {
    /// The last write succeeded, or there was none yet.
    Writes,
    /// Writes have failed since then, the last one with this error: the disk is full, or another program locks the database.
    /// Reads may work.
    Fails {
        /// When the first of them failed.
        since: Instant,
        /// The error of the last one.
        error: StoreError,
    },
    /// The writer has failed since then, and cannot open the database again; or the server of the database does not answer.
    WriterDown {
        /// When it failed.
        since: Instant,
    },
    /// The store was closed.
    Closed,
}

/// What the writer tells of the database.
#[derive(Debug, Default)]
pub(super) struct WriterHealth(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Writes,
    Fails(Instant, StoreError),
    Down(Instant),
}

impl WriterHealth {
    /// A transaction has ended. One that failed because of what its writes asked for tells nothing of the database.
    pub(super) fn record(&self, outcome: &Result<(), StoreError>) {
        use StoreError::{Failed, Full, Locked, ReadOnly};
        let mut state = self.0.lock();
        let since = match &*state {
            State::Fails(since, _) => *since,
            _ => Instant::now(),
        };
        match outcome {
            Ok(()) => *state = State::Writes,
            Err(error @ (Failed(_) | Full(_) | Locked(_) | ReadOnly(_))) => {
                *state = State::Fails(since, error.clone());
            }
            Err(_) => {}
        }
    }

    pub(super) fn set_down(&self) {
        *self.0.lock() = State::Down(Instant::now());
    }

    pub(super) fn set_up(&self) {
        *self.0.lock() = State::Writes;
    }

    pub(super) fn get(&self) -> StoreHealth {
        match &*self.0.lock() {
            State::Writes => StoreHealth::Writes,
            State::Fails(since, error) => StoreHealth::Fails { since: *since, error: error.clone() },
            State::Down(since) => StoreHealth::WriterDown { since: *since },
        }
    }
}
