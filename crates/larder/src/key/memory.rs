//! Keys of the memory tier: the number of a view and bytes, which need no allocation if they are short.

use larder_engine::Equivalent;
use std::hash::{Hash, Hasher};

/// The longest bytes without an allocation: with the number of the view they are as long as what owns longer ones.
const SHORT_BYTES: usize = 18;

/// A key in the memory tier.
#[derive(Clone, Debug)]
pub(crate) struct MemoryKey(Owned);

#[derive(Clone, Debug)]
enum Owned {
    Short { view: u32, len: u8, bytes: [u8; SHORT_BYTES] },
    Long { view: u32, bytes: Box<[u8]> },
}

const _: () = assert!(size_of::<MemoryKey>() == 24);

/// The same, borrowed, for a lookup without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryKeyRef<'a> {
    pub(crate) view: u32,
    pub(crate) bytes: &'a [u8],
}

impl MemoryKey {
    #[inline]
    pub(crate) fn borrow(&self) -> MemoryKeyRef<'_> {
        match &self.0 {
            Owned::Short { view, len, bytes } => {
                MemoryKeyRef { view: *view, bytes: &bytes[..usize::from(*len)] }
            }
            Owned::Long { view, bytes } => MemoryKeyRef { view: *view, bytes },
        }
    }
}

impl MemoryKeyRef<'_> {
    #[inline]
    pub(crate) fn into_owned(self) -> MemoryKey {
        let MemoryKeyRef { view, bytes } = self;
        let mut short = [0; SHORT_BYTES];
        MemoryKey(match short.get_mut(..bytes.len()) {
            Some(used) => {
                used.copy_from_slice(bytes);
                Owned::Short { view, len: bytes.len() as u8, bytes: short }
            }
            None => Owned::Long { view, bytes: bytes.into() },
        })
    }
}

impl PartialEq for MemoryKey {
    #[inline]
    fn eq(&self, other: &MemoryKey) -> bool {
        self.borrow() == other.borrow()
    }
}

impl Eq for MemoryKey {}

impl Equivalent<MemoryKey> for MemoryKeyRef<'_> {
    #[inline]
    fn equivalent(&self, key: &MemoryKey) -> bool {
        *self == key.borrow()
    }
}

impl Hash for MemoryKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrow().hash(state);
    }
}

impl Hash for MemoryKeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.view);
        state.write(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn keys_of_all_lengths_keep_their_bytes() {
        let hasher = std::hash::RandomState::new();
        for len in 0..2 * SHORT_BYTES {
            let bytes: Vec<u8> = (1..=len as u8).collect();
            let borrowed = MemoryKeyRef { view: 7, bytes: &bytes };
            let key = borrowed.into_owned();
            assert_eq!(key.borrow(), borrowed);
            assert!(borrowed.equivalent(&key) && key == key.clone());
            assert_eq!(hasher.hash_one(&key), hasher.hash_one(borrowed));
            assert_ne!(key, MemoryKeyRef { view: 8, ..borrowed }.into_owned(), "another view");
            let longer = [&bytes[..], &[0]].concat();
            assert_ne!(key, MemoryKeyRef { view: 7, bytes: &longer }.into_owned(), "a zero more");
        }
    }
}
