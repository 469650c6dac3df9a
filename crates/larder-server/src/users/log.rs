//! The log of what was denied: bounded, newest first, and equal events of a minute are one entry.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::system::Moment;

/// Entries that are kept unless `acllog-max-len` says otherwise.
const DEFAULT_MAX_ENTRIES: usize = 128;
/// The time in which an equal event joins an entry.
const JOINED_WITHIN: Duration = Duration::from_secs(60);
/// The longest object of an entry in bytes: a name of a key may have half a gigabyte.
const MAX_OBJECT_BYTES: usize = 1 << 10;

/// What was denied, where, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// `auth`, `command`, `key` or `channel`.
    pub(crate) reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub(crate) context: &'static str,
    /// The name of the command, key or channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

/// Equal events.
#[derive(Debug, Clone)]
pub(crate) struct LogEntry {
    pub(crate) event: Event,
    pub(crate) count: u64,
    pub(crate) last: Moment,
    /// The line of the last connection in `CLIENT LIST`.
    pub(crate) client: String,
}

/// The entries, newest first.
#[derive(Debug)]
pub(crate) struct AccessLog {
    entries: Mutex<VecDeque<LogEntry>>,
    max_entries: AtomicUsize,
}

impl Default for AccessLog {
    fn default() -> Self {
        AccessLog { entries: Mutex::default(), max_entries: AtomicUsize::new(DEFAULT_MAX_ENTRIES) }
    }
}

impl AccessLog {
    pub(crate) fn record(&self, mut event: Event, client: String) {
        event.object.truncate(MAX_OBJECT_BYTES);
        event.user.truncate(MAX_OBJECT_BYTES);
        let now = Moment::now();
        let mut entries = self.entries.lock();
        let is_recent = |entry: &LogEntry| now.since(entry.last) <= JOINED_WITHIN;
        let joined = entries.iter().position(|entry| is_recent(entry) && entry.event == event);
        let before = joined.and_then(|position| entries.remove(position)).map_or(0, |entry| entry.count);
        entries.push_front(LogEntry { event, count: before + 1, last: now, client });
        entries.truncate(self.max_entries());
    }

    /// The newest entries.
    pub(crate) fn newest(&self, count: usize) -> Vec<LogEntry> {
        self.entries.lock().iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.entries.lock().clear();
    }

    pub(crate) fn max_entries(&self) -> usize {
        self.max_entries.load(Ordering::Relaxed)
    }

    /// Sets the most entries; further ones are dropped with the next event.
    pub(crate) fn set_max_entries(&self, count: usize) {
        self.max_entries.store(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(object: &str) -> Event {
        Event { reason: "key", context: "toplevel", object: object.into(), user: b"ada".to_vec() }
    }

    #[test]
    fn equal_events_are_one_entry_and_the_oldest_are_dropped() {
        let log = AccessLog::default();
        log.set_max_entries(2);
        for object in ["a", "b", "a", "c"] {
            log.record(event(object), String::new());
        }
        let entries = log.newest(9);
        let shown = entries.iter().map(|entry| (entry.event.object.as_slice(), entry.count));
        assert_eq!(shown.collect::<Vec<_>>(), [(&b"c"[..], 1), (b"a", 2)]);
        log.record(event(&"k".repeat(5_000)), String::new());
        assert_eq!(log.newest(1)[0].event.object.len(), MAX_OBJECT_BYTES);
        log.clear();
        assert!(log.newest(9).is_empty());
    }
}
