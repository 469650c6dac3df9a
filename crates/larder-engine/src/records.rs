//! The records of a shard: a key and a value for each slot in use, side by side, and nothing for the others.
//!
//! Whether a slot holds a record is not written here: it costs a word for many types, and [`crate::slots`] knows. This
//! file has a single rule: a record is initialized from `write` to `take`, and only the
//! shard calls either, in step with its slots.

use crate::slots::{next_capacity, reserve};
use std::mem::MaybeUninit;

#[derive(Debug)]
pub(crate) struct Record<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

pub(crate) struct Records<K, V>(Vec<MaybeUninit<Record<K, V>>>);

impl<K, V> Records<K, V> {
    pub(crate) fn new() -> Self {
        Records(Vec::new())
    }

    /// Puts a record into a slot that holds none. The vector grows as that of the slots does.
    ///
    /// # Panics
    /// If the slot is further away than the next new one.
    pub(crate) fn write(&mut self, id: u32, record: Record<K, V>, expected: usize) {
        let at = id as usize;
        if at == self.0.len() {
            let more = next_capacity(at, expected) - at;
            reserve(&mut self.0, more);
            self.0.push(MaybeUninit::new(record));
        } else {
            // Overwrites without dropping: the slot holds no record.
            self.0[at] = MaybeUninit::new(record);
        }
    }

    /// # Safety
    /// The slot holds a record.
    #[inline]
    pub(crate) unsafe fn get(&self, id: u32) -> &Record<K, V> {
        // SAFETY: the caller says that a record is here, and `write` initialized it.
        unsafe { self.0[id as usize].assume_init_ref() }
    }

    /// # Safety
    /// The slot holds a record.
    #[inline]
    pub(crate) unsafe fn get_mut(&mut self, id: u32) -> &mut Record<K, V> {
        // SAFETY: as in `get`.
        unsafe { self.0[id as usize].assume_init_mut() }
    }

    /// Takes the record out; the slot holds none afterwards.
    ///
    /// # Safety
    /// The slot holds a record.
    pub(crate) unsafe fn take(&mut self, id: u32) -> Record<K, V> {
        // SAFETY: the caller says that a record is here; leaving its bytes behind is fine, for they are never read again.
        unsafe { self.0[id as usize].assume_init_read() }
    }
}

impl<K, V> std::fmt::Debug for Records<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("slots", &self.0.len()).finish()
    }
}
