//! The keyspace: sixteen databases of strings, hashes, lists, sets, sorted sets and streams with deadlines, bounded by bytes.
//!
//! This is the only module that uses the engine's cache. Commands see keys and values as bytes, and deadlines as
//! milliseconds of Unix time.
//!
//! - `store`: the keyspace as a whole; `database`: one of the sixteen, which commands use; `clock`: its times.
//! - `record`, `object`, `collections`, `hashes`: an entry and its value as the engine keeps them; `entry`: as a command sees
//!   it.
//! - `locked`, `held`: several keys at once, and operations on keys whose shards are locked; `undo`: locks whose changes can be
//!   undone, for scripts.
//! - `policy`: which keys may be evicted; `room`: writes that may find nothing to evict, and are refused then.
//! - `memory`, `memory_limit`: how much memory the keyspace takes, and may take.
//! - `serialized`: values in the form of `DUMP`; `snapshot`, `loading`: the keyspace as a file, and while it is read back.
//! - `changes`: tells observers what has changed; `inspect`: tells tools what a name has.

mod changes;
mod clock;
pub(crate) mod collections;
mod database;
mod entry;
mod hashes;
mod held;
mod inspect;
mod loading;
mod locked;
mod memory;
mod memory_limit;
mod object;
mod policy;
mod record;
mod room;
mod serialized;
pub(crate) mod snapshot;
mod store;
#[cfg(feature = "scripts")]
mod undo;

pub(crate) use clock::Expiry;
pub(crate) use database::{Database, Found};
pub(crate) use entry::{Entry, EntryOp, OutOfMemory, StringEntry, UpdateError};
pub(crate) use held::{HeldLocks, KeyLocks};
pub use inspect::KeyInspection;
pub(crate) use larder_engine::raw::{Key, PrefetchBatch};
pub(crate) use locked::LockedKeys;
pub(crate) use object::{WrongType, encoding, type_name};
pub use policy::{MemoryPolicy, MemoryPolicyError};
pub(crate) use record::{DATABASE_COUNT, Record, is_value_of};
pub use store::Store;
pub(crate) use store::{MAX_MEMORY_BYTES, MIN_MEMORY_BYTES, default_memory_bytes};
#[cfg(feature = "scripts")]
pub(crate) use undo::UndoableLocks;
