//! `WATCH`: connections whose transactions depend on keys.
//!
//! A write marks those who watch its key. Removals that are no write, by expiry or eviction, are not marked: the
//! transaction compares under its locks which keys exist. So both are exact, and evictions cost nothing more.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_engine::raw::Key;

use super::all::Observers;
use super::watch_table::Watcher;

/// Bytes that a watched key needs beside its name, about.
const KEY_OVERHEAD_BYTES: usize = 160;
/// Keys that are unwatched each time the table is locked: all writes to watched keys need it.
const UNWATCHED_PER_LOCK: usize = 128;

/// The keys that one connection watches. Dropping this unwatches them.
#[derive(Debug)]
pub(crate) struct Watches {
    observers: Arc<Observers>,
    /// Set by a write to one of the keys. It is read under their locks.
    mark: Arc<AtomicBool>,
    /// Space and name of each key, and whether it had an entry at first.
    keys: HashMap<(u8, Box<[u8]>), bool>,
    /// The memory that they need, which each turn asks for.
    bytes: usize,
}

impl Watches {
    pub(crate) fn new(observers: Arc<Observers>) -> Self {
        Watches { observers, mark: Arc::default(), keys: HashMap::new(), bytes: 0 }
    }

    /// Watches a key from now on. Then `exists` reads, under its lock, whether it has an entry.
    pub(crate) fn add(&mut self, key: Key<'_>, exists: impl FnOnce() -> bool) {
        let Entry::Vacant(vacant) = self.keys.entry((key.space, key.name.into())) else { return };
        self.bytes += 2 * key.name.len() + KEY_OVERHEAD_BYTES;
        self.observers.add(1);
        let watcher = Watcher { space: key.space, mark: Arc::clone(&self.mark) };
        self.observers.watches.by_name.lock().entry(key.name.into()).or_default().push(watcher);
        vacant.insert(exists());
    }

    /// The keys, and whether each had an entry when it was watched.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (Key<'_>, bool)> {
        self.keys.iter().map(|((space, name), existed)| (Key { space: *space, name }, *existed))
    }

    /// Whether one of the keys was written. Their locks must be held.
    pub(crate) fn is_marked(&self) -> bool {
        self.mark.load(Ordering::Relaxed)
    }

    /// The memory that it needs, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let mut names = self.keys.keys().map(|(_, name)| name);
        while names.len() > 0 {
            let mut by_name = self.observers.watches.by_name.lock();
            for name in names.by_ref().take(UNWATCHED_PER_LOCK) {
                if let Some(watchers) = by_name.get_mut(name) {
                    watchers.retain(|watcher| !Arc::ptr_eq(&watcher.mark, &self.mark));
                    if watchers.is_empty() {
                        by_name.remove(name);
                    }
                }
            }
        }
        self.observers.remove(self.keys.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_count_each_key_once_and_leave_nothing() {
        const KEYS: usize = 2 * UNWATCHED_PER_LOCK + 1;
        let observers = Arc::<Observers>::default();
        let names: Vec<_> = (0..KEYS).map(|number| format!("{number:04}")).collect();
        let mut watches = Watches::new(Arc::clone(&observers));
        for name in names.iter().chain(&names) {
            watches.add(Key { space: 0, name: name.as_bytes() }, || true);
        }
        assert_eq!(watches.bytes(), KEYS * (2 * 4 + KEY_OVERHEAD_BYTES));
        assert_eq!(observers.watches.by_name.lock().len(), KEYS);
        drop(watches);
        assert!(observers.watches.by_name.lock().is_empty() && !observers.is_active());
    }
}
