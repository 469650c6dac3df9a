//! What an operation has removed, until the listener has been told of it.

use super::Cache;
use crate::entry::Cause;
use crate::shard::RemovedEntries;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The entries that an operation has removed. When this is dropped, also by a panic, the listener is called for each and
/// the entries are dropped. No lock may be held then: it is made before they are acquired.
#[derive(Debug)]
pub(crate) struct Removals<'a, K, V> {
    cache: &'a Cache<K, V>,
    entries: RemovedEntries<K, V>,
}

impl<'a, K, V> Removals<'a, K, V> {
    /// None yet.
    pub(crate) fn new(cache: &'a Cache<K, V>) -> Self {
        Removals { cache, entries: RemovedEntries::new() }
    }

    fn tell_all(&mut self) {
        let entries = std::mem::replace(&mut self.entries, RemovedEntries::new());
        tell_each(entries.into_iter(), |(key, value, cause)| self.cache.notify(&key, &value, cause));
    }
}

impl<K, V> Deref for Removals<'_, K, V> {
    type Target = RemovedEntries<K, V>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl<K, V> DerefMut for Removals<'_, K, V> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.entries
    }
}

impl<K, V> Drop for Removals<'_, K, V> {
    #[inline]
    fn drop(&mut self) {
        // A single entry that nobody is told of is dropped with this.
        if self.entries.are_several() || !self.entries.is_empty() && self.cache.has_listener() {
            self.tell_all();
        }
    }
}

/// What `drain` has removed so far and will return. If a panic ends it, the listener is told of these too.
pub(super) struct Drained<'a, K, V> {
    pub(super) cache: &'a Cache<K, V>,
    pub(super) entries: Vec<(K, V)>,
}

impl<K, V> Drained<'_, K, V> {
    /// Tells the listener of all entries, and returns them.
    pub(super) fn tell(&mut self) -> Vec<(K, V)> {
        let entries = std::mem::take(&mut self.entries);
        tell_each(entries.iter(), |(key, value)| self.cache.notify(key, value, Cause::Purged));
        entries
    }
}

impl<K, V> Drop for Drained<'_, K, V> {
    fn drop(&mut self) {
        drop(self.tell());
    }
}

/// Calls `tell` for each item, also after it has panicked. Its first panic is resumed at the end, unless this thread
/// unwinds already.
fn tell_each<T>(mut items: impl Iterator<Item = T>, mut tell: impl FnMut(T)) {
    let mut first_panic = None;
    let mut tell_rest = || items.by_ref().for_each(&mut tell);
    while let Err(panic) = catch_unwind(AssertUnwindSafe(&mut tell_rest)) {
        first_panic.get_or_insert(panic);
    }
    if let Some(panic) = first_panic
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}
