//! Which hashes have fields that expire, by their first deadlines, so that expired fields are removed although nobody asks
//! for them.
//!
//! A hash owns its [`Alarm`], which is cancelled when the hash is dropped, however that happens. One that was due is not
//! cancelled: whoever took it edits the hash, which sets the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// About what an alarm needs beside the name of its key.
const ALARM_BYTES: usize = 64;

/// The space of a key, and its name.
type KeyName = (u8, Box<[u8]>);

/// The alarms of a keyspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarms {
    /// Keys by deadline, in milliseconds of Unix time, and a number that no other one has.
    due: Arc<Mutex<Due>>,
}

#[derive(Debug, Default)]
struct Due {
    keys: BTreeMap<(i64, u64), KeyName>,
    /// The number of the next one.
    next: u64,
}

/// A set alarm.
#[derive(Debug)]
pub(super) struct Alarm {
    due: Arc<Mutex<Due>>,
    pub(super) deadline: i64,
    number: u64,
    name_bytes: usize,
}

impl Alarms {
    /// Takes out the key of the earliest alarm, if it is due: its space and name.
    pub(crate) fn take_due(&self, now: i64) -> Option<KeyName> {
        let mut due = self.due.lock();
        let first = due.keys.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// The number of alarms.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.due.lock().keys.len()
    }

    pub(super) fn set(&self, deadline: i64, space: u8, name: &[u8]) -> Alarm {
        let mut due = self.due.lock();
        let number = due.next;
        due.next += 1;
        due.keys.insert((deadline, number), (space, name.into()));
        Alarm { due: Arc::clone(&self.due), deadline, number, name_bytes: name.len() }
    }
}

impl Alarm {
    /// The memory that it needs, about.
    pub(super) fn bytes(&self) -> usize {
        ALARM_BYTES + self.name_bytes
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // Freed after the lock is released.
        let _key = self.due.lock().keys.remove(&(self.deadline, self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_alarms_are_taken_in_order_and_dropped_ones_are_cancelled() {
        let alarms = Alarms::default();
        let [late, early, cancelled] = [30, 10, 20].map(|deadline| alarms.set(deadline, 3, b"key"));
        drop(cancelled);
        assert_eq!(alarms.len(), 2);
        assert_eq!(alarms.take_due(9), None);
        assert_eq!(alarms.take_due(30), Some((3, b"key"[..].into())));
        drop(early);
        assert_eq!((alarms.take_due(29), alarms.len()), (None, 1));
        drop(late);
        assert_eq!((alarms.take_due(i64::MAX), alarms.len()), (None, 0));
    }
}
