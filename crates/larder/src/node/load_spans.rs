//! The spans of loads that run, by which the trace of a caller that waits leads to the load that it waits for.

use crate::key::{MemoryKey, MemoryKeyRef};
use parking_lot::Mutex;
use std::collections::HashMap;
use tracing::Span;

/// Empty unless somebody collects spans. Of loads of one key that run at the same time, the last one
/// counts, until the first of them ends.
#[derive(Debug, Default)]
pub(crate) struct LoadSpans(Mutex<HashMap<MemoryKey, Span>>);

impl LoadSpans {
    pub(crate) fn begin(&self, key: MemoryKey, span: Span) {
        self.0.lock().insert(key, span);
    }

    pub(crate) fn end(&self, key: &MemoryKey) {
        self.0.lock().remove(key);
    }

    pub(crate) fn of(&self, key: MemoryKeyRef<'_>) -> Option<Span> {
        self.0.lock().get(&key.into_owned()).cloned()
    }
}
