//! The memory tier: values as they are, behind an `Arc`, in the engine.

use crate::key::MemoryKey;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type Memory = larder_engine::Cache<MemoryKey, MemoryEntry>;

/// What an entry costs beside its key and its encoded value: the entry, its slot, index and deadline, and the `Arc`.
const ENTRY_OVERHEAD_BYTES: u64 = 160;

#[derive(Clone)]
pub(crate) struct MemoryEntry {
    pub(crate) value: Arc<dyn Any + Send + Sync>,
    /// The length of the encoded value, by which the entry is weighed.
    pub(crate) encoded_bytes: u32,
    /// When the value came into memory, on the engine's clock.
    pub(crate) since: Duration,
}

pub(crate) fn weigh(key: &MemoryKey, entry: &MemoryEntry) -> u64 {
    key.bytes.len() as u64 + u64::from(entry.encoded_bytes) + ENTRY_OVERHEAD_BYTES
}

impl std::fmt::Debug for MemoryEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryEntry").field("encoded_bytes", &self.encoded_bytes).finish_non_exhaustive()
    }
}
