//! The paths whose origin says which parts of their queries count (No-Vary-Search). The key of a URI below such a path has the
//! canonical form of its query, so that equivalent queries have one entry.
//!
//! Each change of a path's rule has a number, which is in the keys too: an entry is found only by the rule under which it was
//! stored, and one that is out of date is never found again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::{Key, MAX_KEY_BYTES};
use crate::rfc::no_vary_search::NoVarySearch;

/// Paths that may have a rule. A path beyond them has none.
const MAX_PATHS: usize = 4_096;
/// The longest key of a path with a rule, in bytes.
const MAX_PATH_BYTES: usize = 1_024;

/// The rules of all paths.
#[derive(Debug, Default)]
pub(crate) struct QueryRules {
    /// Whether there is any: most caches never see one.
    is_used: AtomicBool,
    paths: Mutex<HashMap<Key, PathRule>>,
}

#[derive(Debug)]
struct PathRule {
    /// `None` if the last response of the path had none: its number is not used again.
    rule: Option<NoVarySearch>,
    number: u64,
}

impl QueryRules {
    /// The query as it stands in a key: canonical if the path has a rule. `path` is the key of a URI up to its query.
    pub(super) fn query_in_key(&self, path: &[u8], query: Option<&str>) -> Option<Vec<u8>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let paths = self.paths();
        let PathRule { rule: Some(rule), number } = paths.get(path)? else { return None };
        // A query of a client has no NUL.
        let mut text = vec![0];
        text.extend_from_slice(&number.to_be_bytes());
        text.extend_from_slice(rule.canonical_query(query.unwrap_or_default()).as_bytes());
        (text.len() <= MAX_KEY_BYTES).then_some(text)
    }

    /// Notes what a response of a path says. `query` is that of the key under which the response would be stored. Returns
    /// whether it may be: not if the key was made by another rule.
    pub(super) fn learn(&self, path: &[u8], query: Option<&[u8]>, rule: Option<NoVarySearch>) -> bool {
        if rule.is_none() && !self.is_used.load(Ordering::Acquire) {
            return true;
        }
        let mut paths = self.paths();
        let has_room = paths.len() < MAX_PATHS && path.len() <= MAX_PATH_BYTES;
        match paths.get_mut(path) {
            Some(known) if known.rule == rule => {
                let number = known.rule.is_some().then_some(known.number);
                return number_of(query) == number;
            }
            Some(known) => *known = PathRule { rule, number: known.number + 1 },
            None if rule.is_none() || !has_room => return number_of(query).is_none(),
            None => _ = paths.insert(Key::new(path), PathRule { rule, number: 1 }),
        }
        self.is_used.store(true, Ordering::Release);
        false
    }

    fn paths(&self) -> MutexGuard<'_, HashMap<Key, PathRule>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the rule by which the query of a key was made.
fn number_of(query: Option<&[u8]>) -> Option<u64> {
    let (number, _) = query?.strip_prefix(&[0])?.split_first_chunk()?;
    Some(u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    fn rule(text: &'static str) -> Option<NoVarySearch> {
        let field = ("no-vary-search".parse().unwrap(), HeaderValue::from_static(text));
        NoVarySearch::parse(&HeaderMap::from_iter([field]))
    }

    #[test]
    fn equivalent_queries_have_one_key_once_the_rule_is_known() {
        let rules = QueryRules::default();
        assert_eq!(rules.query_in_key(b"/a", Some("x=1")), None);
        assert!(!rules.learn(b"/a", Some(b"x=1"), rule("params=(\"x\")")), "the key was made without it");
        let known = rules.query_in_key(b"/a", Some("x=1&y=2")).unwrap();
        assert_eq!(rules.query_in_key(b"/a", Some("y=2&x=3")), Some(known.clone()));
        assert_ne!(rules.query_in_key(b"/a", Some("y=3")), Some(known.clone()));
        assert_eq!(rules.query_in_key(b"/b", Some("x=1")), None);
        assert!(rules.learn(b"/a", Some(&known), rule("params=(\"x\")")));
    }

    #[test]
    fn entry_of_a_former_rule_is_never_found_again() {
        let rules = QueryRules::default();
        rules.learn(b"/a", None, rule("params=(\"x\")"));
        let first = rules.query_in_key(b"/a", Some("x=1")).unwrap();
        assert!(!rules.learn(b"/a", Some(&first), None), "the rule is gone");
        assert_eq!(rules.query_in_key(b"/a", Some("x=1")), None);
        assert!(rules.learn(b"/a", Some(b"x=1"), None));
        assert!(!rules.learn(b"/a", Some(b"x=1"), rule("params=(\"x\")")));
        assert_ne!(rules.query_in_key(b"/a", Some("x=1")).unwrap(), first);
    }

    #[test]
    fn paths_with_rules_are_limited() {
        let rules = QueryRules::default();
        for path in 0..=MAX_PATHS {
            rules.learn(path.to_string().as_bytes(), None, rule("key-order"));
        }
        assert!(rules.query_in_key(b"0", None).is_some());
        assert_eq!(rules.query_in_key(MAX_PATHS.to_string().as_bytes(), None), None);
        let long = vec![b'/'; MAX_PATH_BYTES + 1];
        QueryRules::default().learn(&long, None, rule("key-order"));
        assert_eq!(rules.query_in_key(&long, None), None);
    }
}
