//! The read of an entry: off the threads of the runtime, and with memory that is charged before it is used.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};

use crate::disk::file::{self, Frame, MAX_HEAD_BYTES};
use crate::disk::folder;
use crate::disk::tier::Tier;
use crate::key::Key;
use crate::policy::labels::Labels;
use crate::policy::scope::Scope;
use crate::shared::codec::{SharedEntry, SharedResponse};
use crate::stored::memory::BodyMemory;

/// An entry that was found.
#[derive(Debug)]
pub(crate) struct DiskEntry {
    pub(crate) frame: Frame,
    /// Tells the file from others that its name has had or will have.
    pub(crate) version: u32,
    pub(crate) kind: DiskEntryKind,
}

/// What an entry is.
#[derive(Debug)]
pub(crate) enum DiskEntryKind {
    Response(DiskResponse),
    Record { id: u128, scope: Option<Scope>, fields: Box<[HeaderName]> },
}

/// A response that was found.
#[derive(Debug)]
pub(crate) struct DiskResponse {
    pub(crate) status: StatusCode,
    pub(crate) scope: Option<Scope>,
    /// The age that it had when the origin replied, in milliseconds.
    pub(crate) age_ms: u64,
    pub(crate) labels: Labels,
    pub(crate) headers: HeaderMap,
    /// Charged to the memory of bodies, with the rest of the file.
    pub(crate) body: Bytes,
}

/// Reads the entry of a key, if its body has at most so many bytes and there is memory for it. A file that is not the entry as it
/// was written is removed.
pub(super) fn read(
    tier: &Tier,
    key: &Key,
    name: u128,
    max_body_bytes: usize,
    memory: &Arc<BodyMemory>,
) -> Option<DiskEntry> {
    let known = tier.index.slot(name).file();
    let version = match known {
        Some(file) => file.version,
        None if tier.index.is_listing() => tier.adopt(name)?.version,
        None => return None,
    };
    let file = match File::open(tier.folder.entry(name)) {
        Ok(file) => file,
        Err(error) => {
            if error.kind() == ErrorKind::NotFound {
                remove(tier, name, version);
            }
            return None;
        }
    };
    let len = file.metadata().ok()?.len();
    if len > MAX_HEAD_BYTES.saturating_add(max_body_bytes as u64) {
        return None;
    }
    let len = usize::try_from(len).ok()?;
    // Reads no more than it has found room for.
    let bytes = memory.read(len, |buffer| file.take(len as u64).read_to_end(buffer))?.ok()?;
    let generation = tier.generation();
    match file::decode(&bytes, generation, key) {
        Some((frame, entry)) => {
            let kind = into_kind(&bytes, entry, max_body_bytes)?;
            Some(DiskEntry { frame, version, kind })
        }
        None => {
            remove(tier, name, version);
            None
        }
    }
}

fn into_kind(file: &Bytes, entry: SharedEntry<'_>, max_body_bytes: usize) -> Option<DiskEntryKind> {
    match entry {
        SharedEntry::Record { id, scope, fields } => Some(DiskEntryKind::Record { id, scope, fields }),
        SharedEntry::Response(SharedResponse { status, scope, age_ms, labels, headers, body }) => {
            if body.len() > max_body_bytes {
                return None;
            }
            let body = file.slice_ref(body);
            Some(DiskEntryKind::Response(DiskResponse { status, scope, age_ms, labels, headers, body }))
        }
    }
}

/// Removes a file, unless another one has its name by now.
pub(super) fn remove(tier: &Tier, name: u128, version: u32) {
    let mut slot = tier.index.slot(name);
    if slot.file().is_none_or(|file| file.version != version) {
        return;
    }
    slot.forget();
    if folder::remove(&tier.folder.entry(name)).is_err() {
        drop(slot);
        tier.fail();
    }
}
