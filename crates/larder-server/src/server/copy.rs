//! The copy of a running Redis into a server: what the one who reads the Redis does here.

use std::fmt;
use std::sync::Arc;

use larder_engine::raw::Key;

use super::Server;
use crate::db::{DATABASE_COUNT, EntryOp, Expiry, OutOfMemory};
use crate::observers::take_ready;
use crate::state::{CopySource, CopyState, ServerState};
use crate::system::Moment;
use crate::values::rdb::RdbError;

/// Entries that are visited at a time to remove all.
const CLEARED_AT_A_TIME: usize = 1_000;

impl Server {
    /// Removes all keys and begins a copy of a running Redis: until [`CopyHandle::end`], commands that write are refused as by
    /// a replica, and what is stored comes through the handle. Call it before [`run`](Server::run), at most once.
    #[must_use = "without the handle the copy never ends"]
    pub fn begin_copy(&self, source: CopySource) -> CopyHandle {
        self.state.copying.begin(source);
        self.state.store.begin_copying();
        let handle = CopyHandle { state: Arc::clone(&self.state) };
        handle.clear();
        handle
    }
}

/// Writes the copy of a running Redis. Its functions may block for as long as other threads use the same keys; call them on a
/// thread of your own.
pub struct CopyHandle {
    state: Arc<ServerState>,
}

/// Why a value was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// There is no memory for it, and no key may be evicted; or it is longer than all memory.
    #[error("no memory")]
    OutOfMemory,
    /// Its serialized form is damaged, or of a version or type that this server does not read.
    #[error("a form that is not known here")]
    Form,
    /// It is a stream with consumer groups.
    #[error("a stream with consumer groups")]
    Groups,
    /// The number of its database is not below [`CopyHandle::DATABASES`].
    #[error("a database that does not exist here")]
    Database,
}

impl From<OutOfMemory> for CopyError {
    fn from(_: OutOfMemory) -> Self {
        CopyError::OutOfMemory
    }
}

impl From<RdbError> for CopyError {
    fn from(error: RdbError) -> Self {
        match error {
            RdbError::TooLong => CopyError::OutOfMemory,
            RdbError::Groups => CopyError::Groups,
            RdbError::Checksum | RdbError::Format => CopyError::Form,
        }
    }
}

impl CopyHandle {
    /// The number of databases.
    pub const DATABASES: u8 = DATABASE_COUNT as u8;

    /// Stores what `DUMP` returns for a key, in place of what is there. `deadline` is in milliseconds of Unix time; a value
    /// whose deadline is over is removed.
    ///
    /// # Errors
    ///
    /// [`CopyError`]; then the key has no value here.
    pub fn store(
        &self,
        database: u8,
        name: &[u8],
        payload: &[u8],
        deadline: Option<i64>,
    ) -> Result<(), CopyError> {
        if database >= Self::DATABASES {
            return Err(CopyError::Database);
        }
        self.state.store.advance_to(Moment::now());
        let stored = self.replace(Key { space: database, name }, payload, deadline);
        if stored.is_err() {
            self.state.store.database(database).remove(name);
        }
        // Only a command can serve the clients that wait for this key: the next one that writes to it does.
        while take_ready().is_some() {}
        stored
    }

    fn replace(&self, key: Key<'_>, payload: &[u8], deadline: Option<i64>) -> Result<(), CopyError> {
        let store = &self.state.store;
        let database = store.database(key.space);
        if deadline.is_some_and(|deadline| deadline <= store.now_ms()) {
            database.remove(key.name);
            return Ok(());
        }
        let record = store.restored(key, payload)?;
        let expiry = deadline.map_or(Expiry::Never, Expiry::At);
        database.update(key.name, |_| (EntryOp::Put(record, expiry), ()))?;
        Ok(())
    }

    /// Removes a key, if it is there.
    pub fn remove(&self, database: u8, name: &[u8]) {
        if database < Self::DATABASES {
            self.state.store.advance_to(Moment::now());
            self.state.store.database(database).remove(name);
        }
    }

    /// Removes the keys of all databases.
    pub fn clear(&self) {
        let database = self.state.store.database(0);
        let mut cursor = 0;
        loop {
            cursor = database.clear_from(cursor, CLEARED_AT_A_TIME, true);
            if cursor == 0 {
                return;
            }
        }
    }

    /// The entries in all databases.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.state.store.len()
    }

    /// Entries that were evicted since the start of the server.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.state.store.engine_stats().evicted
    }

    /// Says how far the copy is, for `INFO` and `ROLE`.
    pub fn set_state(&self, state: CopyState) {
        self.state.copying.set_state(state);
    }

    /// Whether a client has sent `REPLICAOF NO ONE`: what has changed so far is to be copied, and then the copy ends.
    #[must_use]
    pub fn shall_end(&self) -> bool {
        self.state.copying.shall_end()
    }

    /// Whether the server ends: there is nothing left to copy for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.is_draining()
    }

    /// Ends the copy: from now on the server takes writes.
    pub fn end(self) {
        self.state.store.end_copying();
    }
}

impl fmt::Debug for CopyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyHandle").field("source", &self.state.copying.source()).finish_non_exhaustive()
    }
}
