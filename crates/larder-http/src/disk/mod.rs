//! The disk tier: responses that have left memory, or were stored before a restart, as files below one folder.
//!
//! ```text
//! store ──► slot of the key: remove the former file ──► memory ──► queue ──► thread: x.part, then rename to x
//! miss  ──► ticket ──► index ──► file ──► checksum, generation, key ──► purges, times ──► store in memory, answer all
//! purge ──► journal ──► memory
//!
//! folder/  lock         held as long as a cache uses the folder
//!          generation   its random id, and the start of the machine in which it is written
//!          purges       the journal: seed, number, and every purge that an entry may have to be checked against
//!          other-keys   there may be entries whose key is not that of a URI alone
//!          clean        all of it is on the disk; only while nobody uses the folder
//!          entries/xx/  files, each named by the hash of its key
//! ```
//!
//! What was purged, invalidated or replaced never returns, whatever ends the process:
//!
//! - A purge is in the journal before it takes effect. An entry has the number of the last purge that it was checked against, so
//!   one rule judges what is in memory and what is in a file.
//! - A file is removed before another response of its key is visible. What happens with one key happens under one lock.
//! - If the journal cannot be written, or a file not be removed, the generation is over: its `generation` file is removed, which
//!   needs no room, and nothing of it is read again. The tier is off for some seconds, then a new generation begins.
//! - Nothing is synchronised with the disk while the cache runs. A process that is killed leaves all its writes to the system; a
//!   machine that stops does not. So a generation is continued only in the same start of the machine, or after a clean end.
//!
//! Modules: `folder` what lies where; `journal`; `file` an entry as bytes; `index` the files that there are; `queue` and `writer`
//! what is to be written, and the thread that does it; `tier` what they share; `read`; `handle` what the rest of the crate uses, or
//! `alone` without the feature `disk`.

#[cfg(not(feature = "disk"))]
mod alone;
#[cfg(feature = "disk")]
pub(crate) mod file;
#[cfg(feature = "disk")]
pub(crate) mod folder;
#[cfg(feature = "disk")]
mod handle;
#[cfg(feature = "disk")]
mod index;
#[cfg(feature = "disk")]
mod journal;
#[cfg(feature = "disk")]
pub(crate) mod queue;
#[cfg(feature = "disk")]
pub(crate) mod read;
#[cfg(feature = "disk")]
mod tier;
#[cfg(feature = "disk")]
mod writer;

#[cfg(not(feature = "disk"))]
pub(crate) use alone::{Disk, DiskWrite};
#[cfg(feature = "disk")]
pub(crate) use handle::{Disk, DiskWrite};
#[cfg(feature = "disk")]
pub(crate) use tier::wall_ms;
