//! Functions that hear at once what other nodes invalidate. Judging by stamps and counts is enough for correctness; a
//! listener frees memory early, or tells others.

use super::ledger::{FLOOR, Invalidation};
use crate::unwind::caught;
use parking_lot::RwLock;
use std::sync::{Arc, Weak};

/// An invalidation that another node has made, or may have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteInvalidation<'a> {
    /// This key.
    Key(&'a [u8]),
    /// All entries with this tag.
    Tag(&'a str, Invalidation),
    /// All entries.
    Everything(Invalidation),
    /// Announcements may have been missed, or concerned keys that match a pattern: every copy must be compared with
    /// Redis before its next use.
    Unknown,
}

impl<'a> RemoteInvalidation<'a> {
    /// What a member of the ledger stands for; `None` for a member that this version does not know.
    pub(crate) fn of(member: &'a [u8]) -> Option<Self> {
        let tag = |tag, how| Some(RemoteInvalidation::Tag(std::str::from_utf8(tag).ok()?, how));
        match member {
            b"clear" => Some(RemoteInvalidation::Everything(Invalidation::Hard)),
            b"expire" => Some(RemoteInvalidation::Everything(Invalidation::Soft)),
            [b'!', name @ ..] => tag(name, Invalidation::Hard),
            [b'~', name @ ..] => tag(name, Invalidation::Soft),
            member if member == FLOOR => Some(RemoteInvalidation::Everything(Invalidation::Hard)),
            _ => None,
        }
    }
}

pub(crate) type Listener = dyn Fn(RemoteInvalidation<'_>) + Send + Sync;

/// The listeners of a node.
#[derive(Default)]
pub(crate) struct Listeners(RwLock<Vec<Weak<Listener>>>);

impl Listeners {
    /// Adds a listener for as long as the returned owner exists.
    pub(crate) fn add(
        &self,
        listener: impl Fn(RemoteInvalidation<'_>) + Send + Sync + 'static,
    ) -> Arc<Listener> {
        let listener: Arc<Listener> = Arc::new(listener);
        let mut listeners = self.0.write();
        listeners.retain(|other| other.strong_count() > 0);
        listeners.push(Arc::downgrade(&listener));
        listener
    }

    pub(crate) fn tell(&self, remote: RemoteInvalidation<'_>) {
        // Called without the lock: a listener may add another one.
        let listeners: Vec<_> = self.0.read().iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            // A panic would end the coherence task, and every fetch and write would wait for it.
            caught("SharedView::listen", || listener(remote));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::member;
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn member_is_told_as_what_it_stands_for() {
        for how in [Invalidation::Hard, Invalidation::Soft] {
            assert_eq!(
                RemoteInvalidation::of(&member(Some("t"), how)),
                Some(RemoteInvalidation::Tag("t", how))
            );
            assert_eq!(RemoteInvalidation::of(&member(None, how)), Some(RemoteInvalidation::Everything(how)));
        }
        assert_eq!(RemoteInvalidation::of(FLOOR), Some(RemoteInvalidation::Everything(Invalidation::Hard)));
        assert_eq!(RemoteInvalidation::of(b"of a later version"), None);
    }

    #[test]
    fn dropped_listener_hears_nothing() {
        let (listeners, heard) = (Listeners::default(), Arc::new(Mutex::new(0)));
        let count = heard.clone();
        let listening = listeners.add(move |_| *count.lock().expect("no panic") += 1);
        listeners.tell(RemoteInvalidation::Unknown);
        drop(listening);
        listeners.tell(RemoteInvalidation::Unknown);
        assert_eq!(*heard.lock().expect("no panic"), 1);
    }
}
