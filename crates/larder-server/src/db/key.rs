//! Keys as the engine stores them: the database's number, then the name.

use std::hash::{Hash, Hasher};

use larder_engine::Equivalent;

/// A stored key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key(Box<[u8]>);

impl Key {
    pub(super) fn new(database: u8, name: &[u8]) -> Key {
        let mut bytes = Vec::with_capacity(1 + name.len());
        bytes.push(database);
        bytes.extend_from_slice(name);
        Key(bytes.into_boxed_slice())
    }

    pub(super) fn database(&self) -> u8 {
        self.0[0]
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.0[1..]
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        KeyRef { database: self.database(), name: self.name() }.hash(state);
    }
}

/// A key to look for, without an allocation.
pub(super) struct KeyRef<'a> {
    database: u8,
    name: &'a [u8],
}

impl<'a> KeyRef<'a> {
    pub(super) fn new(database: u8, name: &'a [u8]) -> Self {
        KeyRef { database, name }
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.name);
        // Behind the name: it also keeps hashers that only see bytes from mixing up lengths.
        state.write_u8(self.database);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        key.name() == self.name && key.database() == self.database
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    #[test]
    fn a_borrowed_key_finds_the_stored_one() {
        let hasher = RandomState::new();
        let stored = Key::new(3, b"name");
        assert_eq!(hasher.hash_one(&stored), hasher.hash_one(KeyRef::new(3, b"name")));
        assert!(KeyRef::new(3, b"name").equivalent(&stored));
        assert!(!KeyRef::new(0, b"name").equivalent(&stored));
        assert!(!KeyRef::new(3, b"nam").equivalent(&stored));
    }
}
