//! What is to be written: bounded, so that a slow disk costs neither memory nor the time of requests.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::key::Key;
use crate::stored::entry::StoredResponse;
use crate::stored::record::VaryRecord;

/// Entries that wait to be written.
const MAX_WRITES: usize = 4_096;
/// Bytes of bodies that wait to be written. One longer body may wait alone.
const MAX_BYTES: usize = 64 << 20;

/// An entry that is to be written.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) generation: u128,
    pub(super) name: u128,
    /// The number of the write in the slot of its name.
    pub(super) number: u32,
    pub(super) key: Key,
    /// Whether the key is not that of a URI alone.
    pub(super) is_other_key: bool,
    /// When the origin replied, in milliseconds since 1970.
    pub(super) created_ms: u64,
    pub(super) tags: Vec<Box<str>>,
    pub(super) content: Content,
}

/// What is written.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Response(Arc<StoredResponse>),
    Record(Arc<VaryRecord>),
}

impl Content {
    fn bytes(&self) -> usize {
        match self {
            Content::Response(stored) => stored.bytes(),
            Content::Record(record) => record.bytes(),
        }
    }
}

/// The entries that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    writes: VecDeque<Write>,
    bytes: usize,
    is_woken: bool,
    is_closed: bool,
    has_ended: bool,
}

impl Queue {
    /// Adds a write. Returns whether there was room for it.
    pub(super) fn push(&self, write: Write) -> bool {
        let mut state = self.state();
        let bytes = write.content.bytes();
        let has_room = state.writes.is_empty()
            || (state.writes.len() < MAX_WRITES && state.bytes.saturating_add(bytes) <= MAX_BYTES);
        if state.is_closed || !has_room {
            return false;
        }
        state.bytes += bytes;
        state.writes.push_back(write);
        self.changed.notify_all();
        true
    }

    /// The next write, if there is one within this time. Returns at once when the queue is closed, or after [`Queue::wake`].
    pub(super) fn pop(&self, timeout: Duration) -> Option<Write> {
        let is_idle = |state: &mut State| state.writes.is_empty() && !state.is_closed && !state.is_woken;
        let waited = self.changed.wait_timeout_while(self.state(), timeout, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_woken = false;
        let write = state.writes.pop_front()?;
        state.bytes -= write.content.bytes().min(state.bytes);
        Some(write)
    }

    /// Wakes the thread that waits for writes.
    pub(super) fn wake(&self) {
        self.state().is_woken = true;
        self.changed.notify_all();
    }

    /// Drops all writes.
    pub(super) fn clear(&self) {
        let mut state = self.state();
        let writes = std::mem::take(&mut state.writes);
        state.bytes = 0;
        drop(state);
        // Bodies are freed without the lock.
        drop(writes);
    }

    /// Waits until the queue is closed, for at most this time. Returns whether it is.
    pub(super) fn wait_closed(&self, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), timeout, |state| !state.is_closed);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Takes no further writes.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// The thread that writes has ended.
    pub(super) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Waits until the thread that writes has ended, for at most this time. Returns whether it has.
    pub(super) fn wait_ended(&self, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), timeout, |state| !state.has_ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::purge::PurgeStamp;

    fn write(number: u32) -> Write {
        let record = VaryRecord::with_id(0, None, Box::default(), PurgeStamp::default());
        let content = Content::Record(Arc::new(record));
        let (generation, name, created_ms) = (0, number.into(), 0);
        Write {
            generation,
            name,
            number,
            key: Key::new(b"k"),
            is_other_key: false,
            created_ms,
            tags: Vec::new(),
            content,
        }
    }

    #[test]
    fn writes_beyond_the_limit_are_refused() {
        let queue = Queue::default();
        assert!((0..MAX_WRITES as u32).all(|number| queue.push(write(number))));
        assert!(!queue.push(write(0)));
        assert_eq!(queue.pop(Duration::ZERO).unwrap().number, 0, "the oldest first");
        assert!(queue.push(write(7)));
        queue.clear();
        assert!(queue.pop(Duration::ZERO).is_none());
        assert_eq!(queue.state().bytes, 0);
    }

    #[test]
    fn closed_queue_gives_what_it_has_and_takes_no_more() {
        let queue = Queue::default();
        queue.push(write(1));
        assert!(!queue.wait_closed(Duration::ZERO));
        queue.close();
        assert!(queue.wait_closed(Duration::MAX) && !queue.push(write(2)));
        assert!(queue.pop(Duration::MAX).is_some());
        assert!(queue.pop(Duration::MAX).is_none());
        assert!(!queue.wait_ended(Duration::ZERO));
        queue.end();
        assert!(queue.wait_ended(Duration::MAX));
    }
}
