//! The keys and values of a shard, by slot, without a word of overhead.
//!
//! This array does not store whether a slot holds a record: that would cost a word for many types, and [`crate::layout::table`]
//! stores it already. The invariant: a record is initialized from `write` to `take`, and only the shard calls these, in
//! step with its table.

use crate::layout::array::Array;
use crate::layout::prefetch::{prefetch_element, prefetch_lines};
use std::mem::MaybeUninit;

#[derive(Debug)]
pub(crate) struct Record<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

pub(crate) struct Records<K, V>(Array<MaybeUninit<Record<K, V>>>);

impl<K, V> Records<K, V> {
    /// Memory for this many records, all uninitialized.
    pub(crate) fn new(slots: u32) -> Self {
        Records(Array::uninit(slots as usize))
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Puts a record into a slot that holds none.
    ///
    /// # Panics
    /// If there is no such slot.
    pub(crate) fn write(&mut self, slot: u32, record: Record<K, V>) {
        // Overwrites without dropping: the slot holds no record.
        self.0[slot as usize] = MaybeUninit::new(record);
    }

    /// # Safety
    /// The slot holds a record.
    #[inline]
    pub(crate) unsafe fn get(&self, slot: u32) -> &Record<K, V> {
        // SAFETY: the caller guarantees a record here, so the slot exists and `write` initialized it.
        unsafe { self.0.get_unchecked(slot as usize).assume_init_ref() }
    }

    /// # Safety
    /// The slot holds a record.
    #[inline]
    pub(crate) unsafe fn get_mut(&mut self, slot: u32) -> &mut Record<K, V> {
        // SAFETY: as in `get`.
        unsafe { self.0.get_unchecked_mut(slot as usize).assume_init_mut() }
    }

    /// Takes the record out; the slot holds none afterwards.
    ///
    /// # Safety
    /// The slot holds a record.
    pub(crate) unsafe fn take(&mut self, slot: u32) -> Record<K, V> {
        // SAFETY: the caller guarantees a record here; the bytes that stay behind are never read again.
        unsafe { self.0[slot as usize].assume_init_read() }
    }

    /// Prefetches so many lines of memory from a slot on.
    #[inline]
    pub(crate) fn prefetch_lines(&self, slot: u32, lines: usize) {
        prefetch_lines(self.0.as_ptr().wrapping_add(slot as usize).cast(), lines);
    }

    /// Prefetches the memory of a slot, initialized or not.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch_element(&self.0, slot as usize);
    }
}

impl<K, V> std::fmt::Debug for Records<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("slots", &self.0.len()).finish()
    }
}
