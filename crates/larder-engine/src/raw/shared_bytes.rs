//! A long value: bytes whose owners are counted, with room behind them to grow into.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// Bytes whose owners are counted, as those of an `Arc<[u8]>`, and what they may grow into without a copy.
///
/// They do not change as long as there are several owners. Cheap to clone; a clone is another owner.
#[derive(Clone)]
pub struct SharedBytes {
    /// The first `len` are written.
    bytes: Arc<[MaybeUninit<u8>]>,
    len: usize,
}

/// What a record keeps of them.
#[derive(Clone, Copy)]
pub(super) struct RawShared {
    bytes: *const [MaybeUninit<u8>],
    len: usize,
}

impl SharedBytes {
    /// # Safety
    /// The first `len` bytes are written.
    pub(super) unsafe fn new(bytes: Arc<[MaybeUninit<u8>]>, len: usize) -> Self {
        debug_assert!(len <= bytes.len());
        SharedBytes { bytes, len }
    }

    /// The number of bytes that they have and may grow into.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The number of owners.
    #[must_use]
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.bytes)
    }

    /// For a caller that wants to know when the last owner has gone.
    #[must_use]
    pub fn downgrade(&self) -> Weak<[MaybeUninit<u8>]> {
        Arc::downgrade(&self.bytes)
    }

    /// Whether these are the same bytes, and not others with the same content.
    #[must_use]
    pub fn is_same(&self, other: &SharedBytes) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes)
    }

    /// The bytes, for a change, if there is no other owner.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        let len = self.len;
        let bytes = &mut Arc::get_mut(&mut self.bytes)?[..len];
        // SAFETY: they are written.
        Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
    }

    /// As [`SharedBytes::get_mut`]; if there is another owner, these become a copy first, with the same room: what a record
    /// takes does not change without its knowledge.
    pub(super) fn make_mut(&mut self) -> &mut [u8] {
        if self.get_mut().is_none() {
            let mut copy = Arc::<[u8]>::new_uninit_slice(self.capacity());
            let room = Arc::get_mut(&mut copy).expect("it has one owner");
            room[..self.len].copy_from_slice(&self.bytes[..self.len]);
            self.bytes = copy;
        }
        self.get_mut().expect("it is the only owner")
    }

    /// Appends zeros until there are `length` bytes, if there is no other owner and they fit. Returns whether that is so.
    pub(super) fn extend_by_zeros(&mut self, length: usize) -> bool {
        let Some(room) = Arc::get_mut(&mut self.bytes).and_then(|bytes| bytes.get_mut(self.len..length))
        else {
            return false;
        };
        room.fill(MaybeUninit::new(0));
        self.len = length;
        true
    }

    pub(super) fn into_raw(self) -> RawShared {
        RawShared { bytes: Arc::into_raw(self.bytes), len: self.len }
    }

    /// # Safety
    /// `raw` comes from [`SharedBytes::into_raw`], and is the share of one owner, which this one becomes.
    pub(super) unsafe fn from_raw(raw: RawShared) -> Self {
        // SAFETY: the caller guarantees it.
        SharedBytes { bytes: unsafe { Arc::from_raw(raw.bytes) }, len: raw.len }
    }
}

impl RawShared {
    /// # Safety
    /// An owner lives as long as the returned bytes, and nobody changes them meanwhile.
    #[inline]
    pub(super) unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the caller guarantees it, and the first `len` bytes are written.
        unsafe { std::slice::from_raw_parts(self.bytes.cast(), self.len) }
    }

    /// Another owner.
    ///
    /// # Safety
    /// An owner lives meanwhile.
    pub(super) unsafe fn share(self) -> SharedBytes {
        // SAFETY: the caller guarantees it; the new owner has the share that is added here.
        unsafe {
            Arc::increment_strong_count(self.bytes);
            SharedBytes::from_raw(self)
        }
    }

    pub(super) fn capacity(self) -> usize {
        self.bytes.len()
    }
}

impl Default for SharedBytes {
    fn default() -> Self {
        Arc::<[u8]>::default().into()
    }
}

impl From<Arc<[u8]>> for SharedBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        let len = bytes.len();
        // SAFETY: both types have the same layout, and the pointer is the share of the owner that is given up.
        let bytes = unsafe { Arc::from_raw(Arc::into_raw(bytes) as *const [MaybeUninit<u8>]) };
        SharedBytes { bytes, len }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let bytes = &self.bytes[..self.len];
        // SAFETY: they are written.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBytes").field("len", &self.len).field("capacity", &self.capacity()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_grow_into_their_room_unless_they_are_shared() {
        let mut bytes = Arc::<[MaybeUninit<u8>]>::new_uninit_slice(10);
        let room = Arc::get_mut(&mut bytes).expect("one owner");
        room[..3].fill(MaybeUninit::new(MaybeUninit::new(7)));
        // SAFETY: an uninitialised byte is a valid one that may be so.
        let bytes = unsafe { bytes.assume_init() };
        // SAFETY: three bytes are written.
        let mut shared = unsafe { SharedBytes::new(bytes, 3) };
        let reader = shared.clone();
        assert!(!shared.extend_by_zeros(5) && shared.get_mut().is_none(), "it is read");
        assert_eq!((&*reader, reader.owners(), shared.is_same(&reader)), (&[7; 3][..], 2, true));
        drop(reader);
        assert!(shared.extend_by_zeros(5) && !shared.extend_by_zeros(11));
        assert_eq!((&*shared, shared.capacity()), (&[7, 7, 7, 0, 0][..], 10));
        let reader = shared.clone();
        shared.make_mut().fill(1);
        assert_eq!((&*shared, &*reader), (&[1; 5][..], &[7, 7, 7, 0, 0][..]));
        assert_eq!((shared.is_same(&reader), shared.owners(), shared.capacity()), (false, 1, 10));
    }
}
