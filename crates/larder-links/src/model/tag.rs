//! Tags: short texts by which an owner groups links.

use std::fmt;

/// The longest tag, in bytes.
pub const MAX_TAG_BYTES: usize = 48;

/// The most tags of one link.
pub const MAX_TAGS: usize = 16;

/// A valid tag: lower case, without white space around it, commas and control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(String);

impl Tag {
    /// Checks a tag. Upper case becomes lower case, so that `News` and `news` are one tag.
    ///
    /// # Errors
    /// The rule that the text violates; see [`TagError`].
    pub fn parse(text: &str) -> Result<Tag, TagError> {
        let tag = text.trim().to_lowercase();
        if tag.is_empty() || tag.len() > MAX_TAG_BYTES {
            return Err(TagError::Length(tag.len()));
        }
        match tag.chars().find(|&c| c == ',' || c.is_control()) {
            Some(other) => Err(TagError::Character(other)),
            None => Ok(Tag(tag)),
        }
    }

    /// Checks all tags of a link, in any order and with duplicates.
    ///
    /// # Errors
    /// The first error of a tag, or [`TagError::TooMany`].
    pub fn parse_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Tag>, TagError> {
        let mut tags = Vec::new();
        for text in texts {
            tags.push(Tag::parse(text)?);
            // Before duplicates are removed: the check bounds the memory too.
            if tags.len() > MAX_TAGS {
                return Err(TagError::TooMany);
            }
        }
        tags.sort();
        tags.dedup();
        Ok(tags)
    }

    /// A tag that the database contains, so it was checked before.
    pub(crate) fn stored(text: &str) -> Tag {
        Tag(text.to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a tag is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// Empty, or longer than [`MAX_TAG_BYTES`].
    #[error("must be 1 to 48 bytes long, this has {0}")]
    Length(usize),
    /// A comma or a control character.
    #[error("must not contain {0:?}")]
    Character(char),
    /// More than [`MAX_TAGS`].
    #[error("may be 16 at most")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_is_checked_and_folded() {
        assert_eq!(Tag::parse(" Frühling 2027 ").unwrap().as_str(), "frühling 2027");
        assert_eq!(Tag::parse(" "), Err(TagError::Length(0)));
        assert_eq!(Tag::parse(&"x".repeat(49)), Err(TagError::Length(49)));
        assert_eq!(Tag::parse("a,b"), Err(TagError::Character(',')));
        assert_eq!(Tag::parse("a\u{1b}b"), Err(TagError::Character('\u{1b}')));
    }

    #[test]
    fn tags_are_sorted_without_duplicates_and_bounded() {
        let tags = Tag::parse_all(["b", "A", "a"]).unwrap();
        assert_eq!(tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(Tag::parse_all(["x"; 17]), Err(TagError::TooMany));
    }
}
