//! The tags of a response in its own fields, by which other caches know them too. They are for the caches in front of the service
//! and not for its clients.

use crate::rules::config::{TagConfig, TagField};
use http::HeaderMap;

/// The fields with tags, and the byte between the tags of each.
const FIELDS: [(TagField, &str, u8); 3] = [
    (TagField::SurrogateKey, "surrogate-key", b' '),
    (TagField::CacheTag, "cache-tag", b','),
    (TagField::Xkey, "xkey", b' '),
];

/// Which of the fields have tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TagFields([bool; FIELDS.len()]);

impl TagFields {
    /// Those of a request without a rule.
    pub(crate) const ALL: TagFields = TagFields([true; FIELDS.len()]);

    pub(super) fn new(config: &TagConfig) -> TagFields {
        TagFields(FIELDS.map(|(field, ..)| match config {
            TagConfig::All(is_all) => *is_all,
            TagConfig::Fields(fields) => fields.contains(&field),
        }))
    }

    /// Removes the fields, and passes their tags on.
    pub(crate) fn take(self, headers: &mut HeaderMap, mut note: impl FnMut(&str)) {
        for ((_, name, separator), is_used) in FIELDS.into_iter().zip(self.0) {
            if !is_used {
                continue;
            }
            for line in headers.get_all(name) {
                let tags = line.as_bytes().split(|byte| *byte == separator).map(<[u8]>::trim_ascii);
                tags.filter(|tag| !tag.is_empty()).for_each(|tag| note(&String::from_utf8_lossy(tag)));
            }
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn taken(config: &TagConfig) -> (Vec<String>, Vec<String>) {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("surrogate-key", "a  b"),
            ("surrogate-key", "c"),
            ("cache-tag", "d e, f,,"),
            ("xkey", " g\th "),
            ("etag", "\"x\""),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut tags = Vec::new();
        TagFields::new(config).take(&mut headers, |tag| tags.push(tag.to_owned()));
        let mut left: Vec<_> = headers.keys().map(HeaderName::to_string).collect();
        left.sort_unstable();
        (tags, left)
    }

    #[test]
    fn tags_of_all_fields_are_taken() {
        assert_eq!(TagFields::new(&TagConfig::default()), TagFields::ALL);
        let (tags, left) = taken(&TagConfig::All(true));
        assert_eq!(tags, ["a", "b", "c", "d e", "f", "g\th"]);
        assert_eq!(left, ["etag"]);
    }

    #[test]
    fn fields_that_are_not_named_stay() {
        let (tags, left) = taken(&TagConfig::Fields(vec![TagField::CacheTag]));
        assert_eq!(tags, ["d e", "f"]);
        assert_eq!(left, ["etag", "surrogate-key", "xkey"]);
        let (tags, left) = taken(&TagConfig::All(false));
        assert_eq!((tags.len(), left.len()), (0, 4));
    }
}
