//! Automatic persisted queries: documents by their SHA-256 hash, in bounded memory. A document is inserted only if it
//! came with its own hash, so a hash names one document for ever.

use std::sync::Arc;

use larder_engine::Cache;
use sha2::{Digest, Sha256};

/// The SHA-256 hash of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hash([u8; 32]);

impl Hash {
    pub(super) fn of(document: &str) -> Hash {
        Hash(Sha256::digest(document.as_bytes()).into())
    }

    pub(super) fn is_of(&self, document: &str) -> bool {
        *self == Hash::of(document)
    }

    /// Parses 64 hexadecimal digits in lower case, as clients write them.
    pub(super) fn from_hex(text: &str) -> Option<Hash> {
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() {
            return None;
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Some(Hash(hash))
    }

    #[cfg(test)]
    pub(super) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The documents of the hashes that were seen with them.
#[derive(Debug)]
pub(super) struct PersistedQueries(Cache<Hash, Arc<str>>);

impl PersistedQueries {
    /// `bytes`: for all documents and their hashes together.
    pub(super) fn new(bytes: u64) -> PersistedQueries {
        let weigh = |hash: &Hash, document: &Arc<str>| (size_of_val(hash) + document.len()) as u64;
        let documents = Cache::builder().weight(bytes.clamp(1, 1 << 62), weigh).build();
        PersistedQueries(documents.expect("a capacity and a weigher are valid options"))
    }

    pub(super) fn document(&self, hash: &Hash) -> Option<Arc<str>> {
        self.0.get(hash)
    }

    /// Inserts a document, whose hash the caller has verified.
    pub(super) fn insert(&self, hash: Hash, document: &str) {
        if !self.0.contains(&hash) {
            self.0.insert(hash, document.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_sha256_in_lower_case_hex() {
        let hex = "ecf4edb46db40b5132295c0291d62fb65d6759a9eedfa4d5d612dd5ec54a6b38";
        let hash = Hash::from_hex(hex).unwrap();
        assert!(hash.is_of("{__typename}") && !hash.is_of("{ __typename}"));
        assert_eq!(hash.to_hex(), hex);
        for text in ["", &hex[1..], &hex.to_uppercase(), &hex.replace('e', "g"), &"é".repeat(32)] {
            assert_eq!(Hash::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let queries = PersistedQueries::new(4096);
        for n in 0..1000 {
            let document = format!("{{a{n}}}{}", " ".repeat(100));
            queries.insert(Hash::of(&document), &document);
            assert!(queries.0.weight() <= 4096);
        }
        let long = " ".repeat(5000);
        queries.insert(Hash::of(&long), &long);
        assert_eq!(queries.document(&Hash::of(&long)), None);
    }
}
