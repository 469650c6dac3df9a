//! Keys: types that write themselves as bytes, and the keys of both tiers.

pub(crate) mod glob;
mod memory;

pub(crate) use memory::{MemoryKey, MemoryKeyRef};

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// A type that can be the key of a [`crate::View`].
///
/// Two keys are the same entry if they write the same bytes. Implemented for strings, byte strings, integers, `bool`,
/// `char`, options and tuples. Derive it for other types; see [`macro@crate::CacheKey`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a view",
    label = "this type does not implement `CacheKey`",
    note = "derive it for your own types: `#[derive(larder::CacheKey)]`",
    note = "floating-point numbers are no keys, because equal numbers can have different bytes"
)]
pub trait CacheKey {
    /// Writes the bytes of the key. They should be readable text, since they are part of the Redis key.
    fn write_key(&self, out: &mut KeyBuf);
}

/// The longest key without an allocation. With it a [`KeyBuf`] is one cache line.
const INLINE_BYTES: usize = 39;

/// The bytes of a key. A short key needs no allocation. Compared and hashed by its bytes.
#[derive(Clone, Debug)]
pub struct KeyBuf {
    inline: [u8; INLINE_BYTES],
    /// The bytes in use, if none is spilled.
    len: u8,
    spilled: Vec<u8>,
}

impl KeyBuf {
    pub(crate) fn of(key: &(impl CacheKey + ?Sized)) -> Self {
        let mut buf = KeyBuf { inline: [0; INLINE_BYTES], len: 0, spilled: Vec::new() };
        key.write_key(&mut buf);
        buf
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        let (used, free) = self.inline.split_at_mut(usize::from(self.len));
        match free.get_mut(..bytes.len()) {
            Some(free) if self.spilled.is_empty() => {
                free.copy_from_slice(bytes);
                self.len += bytes.len() as u8;
            }
            _ => {
                if self.spilled.is_empty() {
                    self.spilled.extend_from_slice(used);
                }
                self.spilled.extend_from_slice(bytes);
            }
        }
    }

    /// Appends a field of a key after its length, so that two lists of fields never have the same bytes: `:2=en`.
    pub fn push_field(&mut self, field: &(impl CacheKey + ?Sized)) {
        let field = KeyBuf::of(field);
        self.push(b":");
        field.as_bytes().len().write_key(self);
        self.push(b"=");
        self.push(field.as_bytes());
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        if self.spilled.is_empty() { &self.inline[..usize::from(self.len)] } else { &self.spilled }
    }
}

impl PartialEq for KeyBuf {
    fn eq(&self, other: &KeyBuf) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for KeyBuf {}

impl PartialOrd for KeyBuf {
    fn partial_cmp(&self, other: &KeyBuf) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyBuf {
    fn cmp(&self, other: &KeyBuf) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for KeyBuf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl CacheKey for str {
    fn write_key(&self, out: &mut KeyBuf) {
        out.push(self.as_bytes());
    }
}

impl CacheKey for String {
    fn write_key(&self, out: &mut KeyBuf) {
        self.as_str().write_key(out);
    }
}

impl CacheKey for [u8] {
    fn write_key(&self, out: &mut KeyBuf) {
        out.push(self);
    }
}

macro_rules! decimal_keys {
    ($($integer:ty),*) => {$(
        impl CacheKey for $integer {
            fn write_key(&self, out: &mut KeyBuf) {
                out.push(itoa::Buffer::new().format(*self).as_bytes());
            }
        }
    )*};
}

decimal_keys!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

impl CacheKey for bool {
    fn write_key(&self, out: &mut KeyBuf) {
        out.push(if *self { b"true" } else { b"false" });
    }
}

impl CacheKey for char {
    fn write_key(&self, out: &mut KeyBuf) {
        out.push(self.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// `-` for `None`, and `+` before `Some`.
impl<K: CacheKey> CacheKey for Option<K> {
    fn write_key(&self, out: &mut KeyBuf) {
        match self {
            None => out.push(b"-"),
            Some(key) => {
                out.push(b"+");
                key.write_key(out);
            }
        }
    }
}

/// `:` separates the parts. In a part `:` and `\` are escaped, so two tuples never have the same bytes.
macro_rules! tuple_keys {
    ($(($first:ident $(, $part:ident)+))*) => {$(
        impl<$first: CacheKey, $($part: CacheKey),+> CacheKey for ($first, $($part),+) {
            #[allow(non_snake_case, reason = "a part has the name of its type")]
            fn write_key(&self, out: &mut KeyBuf) {
                let ($first, $($part),+) = self;
                push_escaped(&KeyBuf::of($first), out);
                $(
                    out.push(b":");
                    push_escaped(&KeyBuf::of($part), out);
                )+
            }
        }
    )*};
}

tuple_keys!((A, B)(A, B, C)(A, B, C, D)(A, B, C, D, E)(A, B, C, D, E, F)(A, B, C, D, E, F, G)(
    A, B, C, D, E, F, G, H
));

fn push_escaped(part: &KeyBuf, out: &mut KeyBuf) {
    for byte in part.as_bytes() {
        if matches!(byte, b':' | b'\\') {
            out.push(b"\\");
        }
        out.push(&[*byte]);
    }
}

macro_rules! owned_keys {
    ($($owner:ty),*) => {$(
        impl<K: CacheKey + ?Sized> CacheKey for $owner {
            fn write_key(&self, out: &mut KeyBuf) {
                (**self).write_key(out);
            }
        }
    )*};
}

owned_keys!(&K, Box<K>, std::sync::Arc<K>);

impl<K: CacheKey + ToOwned + ?Sized> CacheKey for std::borrow::Cow<'_, K> {
    fn write_key(&self, out: &mut KeyBuf) {
        (**self).write_key(out);
    }
}

/// The same bytes.
impl CacheKey for KeyBuf {
    fn write_key(&self, out: &mut KeyBuf) {
        out.push(self.as_bytes());
    }
}

impl CacheKey for Vec<u8> {
    fn write_key(&self, out: &mut KeyBuf) {
        out.push(self);
    }
}

impl<const N: usize> CacheKey for [u8; N] {
    fn write_key(&self, out: &mut KeyBuf) {
        out.push(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    fn text(key: &(impl CacheKey + ?Sized)) -> String {
        String::from_utf8(KeyBuf::of(key).as_bytes().to_vec()).expect("readable keys")
    }

    #[test]
    fn keys_write_readable_text() {
        assert_eq!(text("apple"), "apple");
        assert_eq!(text(&42u64), "42");
        assert_eq!(text(&i64::MIN), "-9223372036854775808");
        assert_eq!(text(&u128::MAX), u128::MAX.to_string());
        assert_eq!(text(&("user", 7u32)), "user:7");
    }

    #[test]
    fn different_tuples_write_different_bytes() {
        assert_ne!(text(&("a:b", "c")), text(&("a", "b:c")));
        assert_ne!(text(&("a\\", "b")), text(&("a", "\\b")));
        assert_ne!(text(&("a", ("b", "c"))), text(&("a", "b", "c")));
        assert_ne!(text(&Some("")), text(&None::<&str>));
        assert_ne!(text(&Some("-")), text(&None::<&str>));
    }

    #[test]
    fn long_key_keeps_all_bytes() {
        let long = "x".repeat(40);
        let key = (long.as_str(), long.as_str());
        assert_eq!(text(&key), format!("{long}:{long}"));
        for len in 0..2 * INLINE_BYTES {
            let (head, tail) = ("x".repeat(len), "y".repeat(3));
            let mut key = KeyBuf::of(&head[..]);
            key.push(tail.as_bytes());
            assert_eq!(key.as_bytes(), [head.as_bytes(), tail.as_bytes()].concat());
        }
    }

    #[test]
    fn keys_are_compared_by_their_bytes_however_they_were_pushed() {
        let hasher = std::hash::RandomState::new();
        for len in 0..2 * INLINE_BYTES {
            let (head, whole) = ("x".repeat(len), "x".repeat(len + 3));
            let mut key = KeyBuf::of(&head[..]);
            assert!(key < KeyBuf::of(&whole[..]) && KeyBuf::of("y") > key, "{len} bytes");
            key.push(b"xxx");
            assert_eq!(key, KeyBuf::of(&whole[..]));
            assert_eq!(hasher.hash_one(&key), hasher.hash_one(KeyBuf::of(&whole[..])));
        }
    }
}
