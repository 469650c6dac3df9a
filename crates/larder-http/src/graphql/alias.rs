//! The fast path: the keys of requests that were parsed before, by their complete content. A key depends on the format
//! and the content alone, so an alias stays right for ever; everything else that an entry depends on, such as the URI and
//! the content type, is a part of the entry's own key.

use std::hash::{Hash, Hasher};

use bytes::Bytes;
use larder_engine::{Cache, Equivalent};

use super::request::Format;

/// A format and a content, compared in full.
#[derive(Debug)]
struct Alias {
    format: Format,
    content: Box<[u8]>,
}

/// The same, borrowed: a lookup copies nothing.
struct AliasRef<'a> {
    format: Format,
    content: &'a [u8],
}

impl Alias {
    fn borrowed(&self) -> AliasRef<'_> {
        AliasRef { format: self.format, content: &self.content }
    }
}

impl PartialEq for Alias {
    fn eq(&self, other: &Alias) -> bool {
        self.borrowed().equivalent(other)
    }
}

impl Eq for Alias {}

impl Hash for Alias {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrowed().hash(state);
    }
}

impl Hash for AliasRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.format.hash(state);
        self.content.hash(state);
    }
}

impl Equivalent<Alias> for AliasRef<'_> {
    fn equivalent(&self, alias: &Alias) -> bool {
        self.format == alias.format && *self.content == *alias.content
    }
}

/// The keys of contents that were parsed before, in bounded memory.
#[derive(Debug)]
pub(super) struct Aliases(Cache<Alias, Bytes>);

impl Aliases {
    /// `bytes`: for all contents and keys together.
    pub(super) fn new(bytes: u64) -> Aliases {
        let weigh =
            |alias: &Alias, key: &Bytes| (size_of::<Alias>() + alias.content.len() + key.len()) as u64;
        let aliases = Cache::builder().weight(bytes.clamp(1, 1 << 62), weigh).build();
        Aliases(aliases.expect("a capacity and a weigher are valid options"))
    }

    pub(super) fn key(&self, format: Format, content: &[u8]) -> Option<Bytes> {
        self.0.get(&AliasRef { format, content })
    }

    pub(super) fn insert(&self, format: Format, content: &[u8], key: Bytes) {
        self.0.insert(Alias { format, content: content.into() }, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_and_content_are_compared_in_full() {
        let aliases = Aliases::new(1 << 16);
        aliases.insert(Format::Json, b"content", Bytes::from("key"));
        assert_eq!(aliases.key(Format::Json, b"content").unwrap(), "key");
        assert_eq!(aliases.key(Format::Document, b"content"), None);
        assert_eq!(aliases.key(Format::Json, b"content "), None);
        assert_eq!(aliases.key(Format::Json, b""), None);
    }

    #[test]
    fn memory_is_bounded() {
        let aliases = Aliases::new(8192);
        for n in 0..1000 {
            aliases.insert(Format::Json, format!("{n}{}", " ".repeat(100)).as_bytes(), Bytes::from("key"));
            assert!(aliases.0.weight() <= 8192);
        }
    }
}
