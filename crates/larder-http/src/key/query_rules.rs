//! The paths whose origin says which parts of their queries count (No-Vary-Search). The key of a URI below such a path has the
//! canonical form of its query, so that equivalent queries have one entry.
//!
//! A hash of the rule is in the keys too: an entry is found only by the rule under which it was stored. Replicas that know the same
//! rule have the same keys.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use twox_hash::XxHash3_128;

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
    /// Written only when an origin says another thing than before.
    paths: RwLock<HashMap<Key, PathRule>>,
}

#[derive(Debug)]
struct PathRule {
    rule: NoVarySearch,
    hash: u128,
}

impl QueryRules {
    /// The query as it stands in a key: canonical if the path has a rule. `path` is the key of a URI up to its query.
    pub(super) fn query_in_key(&self, path: &[u8], query: Option<&str>) -> Option<Vec<u8>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        let PathRule { rule, hash } = paths.get(path)?;
        let mut text = vec![RULED];
        text.extend_from_slice(&hash.to_be_bytes());
        text.extend_from_slice(rule.canonical_query(query.unwrap_or_default()).as_bytes());
        (text.len() <= MAX_KEY_BYTES).then_some(text)
    }

    /// Notes what a response of a path says. `query` is that of the key under which the response would be stored.
    pub(super) fn learn(&self, path: &[u8], query: Option<&[u8]>, rule: Option<NoVarySearch>) -> Learnt {
        if rule.is_none() && !self.is_used.load(Ordering::Acquire) {
            return Learnt { is_storable: true, replaces_rule: false };
        }
        let hash = rule.as_ref().map(hash_of);
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        let known = paths.get(path).map(|known| known.hash);
        let is_kept = known.is_some() || (paths.len() < MAX_PATHS && path.len() <= MAX_PATH_BYTES);
        drop(paths);
        if known == hash || !is_kept {
            return Learnt { is_storable: hash_in(query) == known, replaces_rule: false };
        }
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        match rule {
            Some(rule) => _ = paths.insert(Key::new(path), PathRule { hash: hash_of(&rule), rule }),
            None => _ = paths.remove(path),
        }
        self.is_used.store(true, Ordering::Release);
        Learnt { is_storable: false, replaces_rule: known.is_some() }
    }
}

/// What the response of a path tells of its queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learnt {
    /// The response may be stored under its key: that was made by the same rule.
    pub(crate) is_storable: bool,
    /// Another rule applied before. What was stored by that must not be found again should it return: purges of a URI do not reach
    /// it meanwhile.
    pub(crate) replaces_rule: bool,
}

/// Whether a rule has made the query of a key.
pub(super) fn is_ruled(query: Option<&[u8]>) -> bool {
    query.is_some_and(|query| query.first() == Some(&RULED))
}

/// The first byte of a query in a key that a rule has made. A query of a client has no NUL.
const RULED: u8 = 0;

/// The hash of what a rule says.
fn hash_of(rule: &NoVarySearch) -> u128 {
    XxHash3_128::oneshot(rule.to_bytes().as_slice())
}

/// The hash of the rule by which the query of a key was made.
fn hash_in(query: Option<&[u8]>) -> Option<u128> {
    let (hash, _) = query?.strip_prefix(&[RULED])?.split_first_chunk()?;
    Some(u128::from_be_bytes(*hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    const STORABLE: Learnt = Learnt { is_storable: true, replaces_rule: false };
    const FIRST: Learnt = Learnt { is_storable: false, replaces_rule: false };
    const CHANGED: Learnt = Learnt { is_storable: false, replaces_rule: true };

    fn rule(text: &'static str) -> Option<NoVarySearch> {
        let field = ("no-vary-search".parse().unwrap(), HeaderValue::from_static(text));
        NoVarySearch::parse(&HeaderMap::from_iter([field]))
    }

    #[test]
    fn equivalent_queries_have_one_key_once_the_rule_is_known() {
        let rules = QueryRules::default();
        assert_eq!(rules.query_in_key(b"/a", Some("x=1")), None);
        assert_eq!(
            rules.learn(b"/a", Some(b"x=1"), rule("params=(\"x\")")),
            FIRST,
            "the key was made without it"
        );
        let known = rules.query_in_key(b"/a", Some("x=1&y=2")).unwrap();
        assert_eq!(rules.query_in_key(b"/a", Some("y=2&x=3")), Some(known.clone()));
        assert_ne!(rules.query_in_key(b"/a", Some("y=3")), Some(known.clone()));
        assert_eq!(rules.query_in_key(b"/b", Some("x=1")), None);
        assert_eq!(rules.learn(b"/a", Some(&known), rule("params=(\"x\")")), STORABLE);
        assert_eq!(rules.learn(b"/a", Some(b"x=1"), rule("params=(\"x\")")), FIRST, "begun before the rule");
    }

    #[test]
    fn entry_of_another_rule_is_not_found() {
        let rules = QueryRules::default();
        rules.learn(b"/a", None, rule("params=(\"x\")"));
        let first = rules.query_in_key(b"/a", Some("x=1")).unwrap();
        assert_eq!(rules.learn(b"/a", Some(&first), None), CHANGED, "the rule is gone");
        assert_eq!(rules.query_in_key(b"/a", Some("x=1")), None);
        assert_eq!(rules.learn(b"/a", Some(b"x=1"), None), STORABLE);
        assert_eq!(rules.learn(b"/a", Some(b"x=1"), rule("params=(\"x\" \"y\")")), FIRST);
        assert_ne!(rules.query_in_key(b"/a", Some("x=1")).unwrap(), first);
    }

    /// What one replica stores, another one finds.
    #[test]
    fn keys_of_one_rule_are_the_same_everywhere() {
        let [first, second] = ["params=(\"x\" \"y\")", "params=(\"y\" \"x\")"].map(|text| {
            let rules = QueryRules::default();
            rules.learn(b"/a", None, rule(text));
            rules.query_in_key(b"/a", Some("x=1&z=2"))
        });
        assert!(first.is_some() && first == second);
        for other in ["params=(\"xy\")", "except=(\"x\" \"y\")", "params=(\"x\" \"y\"), key-order"] {
            let rules = QueryRules::default();
            rules.learn(b"/a", None, rule(other));
            assert_ne!(rules.query_in_key(b"/a", Some("x=1&z=2")), first, "{other}");
        }
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
