//! The names that `KEYS`, `SCAN` and `CLUSTER GETKEYSINSLOT` collect.

use larder_glob::{Pattern, PatternError};
use larder_resp::Encoder;

use crate::db::{Record, type_name};

/// Which names to collect.
#[derive(Default)]
pub(super) enum Filter {
    #[default]
    All,
    Pattern(Box<Pattern>),
}

impl Filter {
    /// The names that match a glob pattern.
    ///
    /// # Errors
    /// The pattern is too expensive.
    pub(super) fn pattern(pattern: &[u8]) -> Result<Self, PatternError> {
        Ok(if pattern == b"*" { Filter::All } else { Filter::Pattern(Box::new(Pattern::new(pattern)?)) })
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Filter::All => true,
            Filter::Pattern(pattern) => pattern.matches(name),
        }
    }
}

/// Names, concatenated. They are collected because the reply starts with their number.
#[derive(Default)]
pub(crate) struct Names {
    filter: Filter,
    /// The type of the values, if it matters; `None` in it if no value has that type.
    type_name: Option<Option<&'static str>>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    /// No names yet.
    pub(super) fn of(filter: Filter) -> Self {
        Names { filter, ..Names::default() }
    }

    /// The names of values of this type only.
    pub(super) fn of_type(self, name: &[u8]) -> Self {
        let known = ["string", "hash", "list", "set", "zset", "stream"]
            .into_iter()
            .find(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        Names { type_name: Some(known), ..self }
    }

    pub(super) fn has_type(&self, record: &Record) -> bool {
        self.type_name.is_none_or(|name| name == Some(type_name(record)))
    }

    /// The memory that they need, in bytes.
    pub(crate) fn bytes_allocated(&self) -> usize {
        let pattern = if let Filter::Pattern(pattern) = &self.filter { pattern.bytes() } else { 0 };
        pattern + self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// The number of names.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a reply with them, at least.
    pub(crate) fn reply_bytes(&self) -> u64 {
        const FRAME_BYTES: usize = b"$0\r\n\r\n".len();
        (self.bytes.len() + self.ends.len() * FRAME_BYTES) as u64
    }

    pub(crate) fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    /// Drops the names from index `begin` on that do not match.
    pub(super) fn retain_matching(&mut self, begin: usize) {
        if matches!(self.filter, Filter::All) {
            return;
        }
        let mut start = begin.checked_sub(1).map_or(0, |last| self.ends[last]);
        let (mut kept, mut kept_end) = (begin, start);
        for index in begin..self.ends.len() {
            let end = self.ends[index];
            if self.filter.matches(&self.bytes[start..end]) {
                self.bytes.copy_within(start..end, kept_end);
                kept_end += end - start;
                self.ends[kept] = kept_end;
                kept += 1;
            }
            start = end;
        }
        self.ends.truncate(kept);
        self.bytes.truncate(kept_end);
    }

    pub(crate) fn reply(&self, reply: &mut Encoder<'_>) {
        reply.array(self.ends.len());
        let mut start = 0;
        for end in &self.ends {
            reply.bulk(&self.bytes[start..*end]);
            start = *end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_what_matches() {
        let mut names = Names::of(Filter::pattern(b"a*").unwrap());
        for slice in [&[&b"ab"[..], b"b", b"a", b""][..], &[b"ba", b"acc"], &[b"c"]] {
            let begin = names.len();
            slice.iter().for_each(|name| names.push(name));
            names.retain_matching(begin);
        }
        assert_eq!((&names.bytes[..], &names.ends[..]), (&b"abaacc"[..], &[2, 3, 6][..]));
    }
}
