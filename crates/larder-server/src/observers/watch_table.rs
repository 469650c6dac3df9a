//! The connections that watch keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_engine::raw::Key;
use parking_lot::Mutex;

/// The connections that watch a key, by the name of the key.
#[derive(Debug, Default)]
pub(super) struct WatchTable {
    pub(super) by_name: Mutex<HashMap<Box<[u8]>, Vec<Watcher>>>,
}

/// A key in one space, and the mark of a connection that watches it.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) space: u8,
    pub(super) mark: Arc<AtomicBool>,
}

impl WatchTable {
    /// Marks those who watch a key.
    pub(super) fn mark(&self, key: Key<'_>) {
        if let Some(watchers) = self.by_name.lock().get(key.name) {
            watchers
                .iter()
                .filter(|watcher| watcher.space == key.space)
                .for_each(|watcher| watcher.mark.store(true, Ordering::Relaxed));
        }
    }
}
