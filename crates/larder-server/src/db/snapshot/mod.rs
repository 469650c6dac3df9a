//! Snapshots of the keyspace: written when a server ends, and read back while the next one serves.
//!
//! ```text
//! block │ block │ … │ directory │ index │ footer                                         numbers are little-endian
//!
//! block      records, about 16 KiB of them, or one long record
//! directory  for each block its place, length, number of records and checksum; what was used most comes first
//! index      for each record 40 bits of the hash of its key and 24 bits of the number of its block, in order
//! footer     what it is, when it was written, how much there is, and the checksum of directory and index
//! ```
//!
//! A key is loaded before a command reads or changes it: the index says which block has it, so at most that block is read, by
//! the thread of the command. All other blocks are loaded in their order by a thread of their own. So no command finds less
//! than the snapshot has, and what is written or removed meanwhile cannot come back. Commands on all keys get an error until
//! the end.
//!
//! The file is removed as soon as it is open: a server that ends in any other way than by itself leaves no snapshot behind,
//! and none is read twice.

mod block;
mod layout;
mod loading;
mod open;
mod record;
#[cfg(test)]
mod tests;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use block::BLOCK_BYTES;
pub(super) use loading::Destination;
pub(crate) use loading::Loading;
pub(crate) use open::{check_writable, open};
pub(super) use record::StoredEntry;
pub(crate) use write::{Written, write};

/// The time for a snapshot at the end of a server, with what is left to load of the former one.
pub const WRITE_LIMIT: Duration = Duration::from_secs(60);

/// The file that is written, until it is complete.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
