//! `If-None-Match` against the entity tags that each field was made from.

use http::header::{ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};

use super::{ITERATIONS, pick, text};
use crate::headers::conditional::not_modified;

/// Opaque tags: a comma, a space, a star or a backslash in one has no meaning.
const TAGS: &[&str] =
    &["\"a\"", "\"b\"", "\"\"", "\"a,b\"", "\"a, \"", "\" a\"", "\"*\"", "\"\\\"", "\"W/\"", "\"A\""];
const SEPARATORS: &[&str] = &[",", ", ", " , ", "\t,", ",,", ", ,"];

fn matches(lines: &[String], etag: &str) -> bool {
    let value = |text: &str| HeaderValue::try_from(text).unwrap();
    let request = lines.iter().map(|line| (IF_NONE_MATCH, value(line)));
    not_modified(&request.collect(), &HeaderMap::from_iter([(ETAG, value(etag))]))
}

#[test]
fn validator_matches_exactly_if_its_list_has_the_tag() {
    /// Of each member: the tag, whether it is weak, the separator behind it, and whether a line ends there.
    type Members = Vec<(u8, bool, u8, bool)>;
    bolero::check!().with_type::<(Members, u8, bool)>().with_iterations(ITERATIONS).for_each(
        |(members, etag, is_weak)| {
            let tag = |choice: u8, is_weak: bool| {
                format!("{}{}", if is_weak { "W/" } else { "" }, pick(TAGS, choice))
            };
            let mut lines = vec![String::new()];
            for (choice, is_weak, separator, ends) in members {
                let line = lines.last_mut().expect("never empty");
                *line += &tag(*choice, *is_weak);
                if *ends {
                    lines.push(String::new());
                } else {
                    *line += pick(SEPARATORS, *separator);
                }
            }
            let expected = members.iter().any(|(choice, ..)| pick(TAGS, *choice) == pick(TAGS, *etag));
            assert_eq!(matches(&lines, &tag(*etag, *is_weak)), expected, "{lines:?}");
        },
    );
}

#[test]
fn malformed_validator_matches_no_tag_that_it_does_not_contain() {
    const TOKENS: &[&str] = &["\"", "\"", "a", "b", ",", " ", "W/", "\\"];
    bolero::check!().with_type::<(Vec<u8>, u8)>().with_iterations(ITERATIONS).for_each(|(choices, etag)| {
        let (line, etag) = (text(TOKENS, choices), pick(TAGS, *etag));
        assert!(!matches(std::slice::from_ref(&line), etag) || line.contains(etag), "{line:?} {etag}");
    });
}
