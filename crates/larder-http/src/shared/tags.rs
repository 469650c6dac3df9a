//! The tags of shared entries. Beside those of the handler each entry has one for its URI, which all variants and all
//! request bodies have, one for each prefix of its path that ends with a slash, and one that all entries have.
//!
//! A replica does not know the rules that others have learnt for the queries of a path. So what was stored by such a rule has the
//! tag of its path too, and a purge of any URI of the path reaches it.
//!
//! URIs and prefixes may be longer than a tag, so their tags are hashes: if two are equal, a purge removes too much.

use std::time::Duration;

use larder::{Policy, WriteOptions};
use twox_hash::XxHash3_128;

use crate::key;
use crate::policy::plan::Plan;
use crate::policy::scope::Scope;

/// The prefixes of one path that have tags.
pub(crate) const MAX_PREFIXES: usize = 8;
/// How long an expired response is kept at least, if it can be validated.
const MIN_KEPT: Duration = Duration::from_secs(60);
/// How long a record is kept at least.
const MIN_RECORD_TTL: Duration = Duration::from_secs(3600);
/// How the tags begin that are hashes.
const HASHED: &str = "http-";
/// The longest tag that is stored as it is.
const MAX_TAG_BYTES: usize = 255;

/// The tag of all entries of a URI, which is a part of their keys.
pub(crate) fn of_uri(uri: &[u8]) -> Box<str> {
    hashed("uri", uri)
}

/// The tag of the entries of a path, given with its origin, whose queries were made by a rule of that path.
pub(crate) fn of_ruled_path(path: &[u8]) -> Box<str> {
    hashed("ruled", path)
}

/// The tags by which a URI is purged. `has_query_rules`: replicas may have rules for its path.
pub(crate) fn of_purged_uri(uri: &[u8], has_query_rules: bool) -> impl Iterator<Item = Box<str>> {
    let ruled = has_query_rules.then(|| of_ruled_path(key::path_of(uri)));
    std::iter::once(of_uri(uri)).chain(ruled)
}

/// The tag of all entries.
pub(crate) fn of_all() -> Box<str> {
    hashed("all", b"")
}

/// The tag of all entries of an origin whose path starts with this prefix.
pub(crate) fn of_prefix(origin: &[u8], path: &[u8]) -> Box<str> {
    hashed("prefix", &[origin, path].concat())
}

/// The tag by which a handler's tag is stored.
pub(crate) fn of_tag(tag: &str) -> Box<str> {
    if tag.len() <= MAX_TAG_BYTES { tag.into() } else { hashed("tag", tag.as_bytes()) }
}

/// The tag of all responses that are private to a principal.
pub(crate) fn of_principal(principal: &str) -> Box<str> {
    hashed("principal", principal.as_bytes())
}

/// Whether a tag stands for one that is too long to be stored as it is.
pub(crate) fn is_hashed_tag(tag: &str) -> bool {
    tag.strip_prefix(HASHED).is_some_and(|kind| kind.starts_with("tag:")) && !is_named(tag)
}

/// Whether a tag of an entry was named, and is not a hash.
pub(crate) fn is_named(tag: &str) -> bool {
    let hash = tag.strip_prefix(HASHED).and_then(|kind| Some(kind.split_once(':')?.1));
    hash.is_none_or(|hash| hash.len() != 32)
}

/// How long after its time to live a response stays in Redis. For its validation it stays as long as it was fresh, and at least for
/// a minute: most of what nobody asks for must not fill Redis.
pub(crate) fn kept(plan: &Plan) -> Duration {
    let later = plan.later.as_deref().copied().unwrap_or_default();
    later.kept.min(plan.ttl.max(MIN_KEPT)).max(later.on_error).max(plan.grace)
}

/// The times and tags of an entry of this resource. A private one has its principal.
pub(crate) fn options(plan: &Plan, resource: &[u8], principal: Option<&str>) -> WriteOptions {
    let policy = Policy::new().ttl(plan.ttl).grace(kept(plan));
    let own = plan.tags.iter().map(|tag| of_tag(tag));
    let principal = principal.filter(|_| plan.scope == Some(Scope::Private)).map(of_principal);
    let tags = own.chain(principal).chain(of_resource(resource));
    tags.fold(WriteOptions::new().policy(policy), WriteOptions::tag)
}

/// The times and tags of the record of a resource. It is kept for longer than most variants: without it replicas that
/// know the record and those that make a new one would not find each other's variants.
pub(crate) fn record_options(plan: &Plan, resource: &[u8]) -> WriteOptions {
    let policy = Policy::new().ttl(MIN_RECORD_TTL.max(plan.record_ttl())).grace(Duration::ZERO);
    of_resource(resource).fold(WriteOptions::new().policy(policy), WriteOptions::tag)
}

/// The tags that every entry of a resource has.
fn of_resource(resource: &[u8]) -> impl Iterator<Item = Box<str>> {
    let uri = key::uri_of(resource);
    let (origin, path) = key::origin_and_path(uri);
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
    let of_uri = std::iter::once(of_uri(uri)).chain(key::ruled_path(uri).map(of_ruled_path));
    of_uri.chain([of_all()]).chain(ends.take(MAX_PREFIXES).map(move |end| of_prefix(origin, &path[..end])))
}

fn hashed(kind: &str, bytes: &[u8]) -> Box<str> {
    format!("{HASHED}{kind}:{:032x}", XxHash3_128::oneshot(bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeySpace;
    use http::{HeaderMap, Uri};

    fn tags(uri: &str) -> Vec<Box<str>> {
        let (mut key, uri) = (Vec::new(), uri.parse::<Uri>().unwrap());
        key::write_uri(&mut key, &uri, &HeaderMap::new(), &KeySpace::default()).unwrap();
        of_resource(&key).collect()
    }

    fn prefix(path: &str) -> Box<str> {
        let mut origin = Vec::new();
        key::write_origin(&mut origin, &KeySpace::default(), "http", "h").unwrap();
        of_prefix(&origin, path.as_bytes())
    }

    #[test]
    fn resource_has_tags_of_its_uri_and_its_prefixes() {
        let shop = tags("http://h/shop/1?q=/x/");
        assert_eq!(shop[1..], [of_all(), prefix("/"), prefix("/shop/")]);
        let other = tags("http://h/shop/1");
        assert_ne!(shop[0], other[0], "another query");
        assert_eq!(shop[1..], other[1..]);
        assert_ne!(tags("http://g/shop/1")[3], shop[3], "another origin");
    }

    #[test]
    fn deep_path_has_tags_of_its_first_prefixes() {
        let deep = tags("http://h/1/2/3/4/5/6/7/8/9/10");
        assert_eq!(deep.len(), 2 + MAX_PREFIXES);
        assert_eq!(deep.last(), Some(&prefix("/1/2/3/4/5/6/7/")));
    }

    #[test]
    fn long_tag_is_hashed() {
        let (longest, long) = ("x".repeat(255), "x".repeat(256));
        assert_eq!(*of_tag(&longest), longest);
        assert_eq!(of_tag(&long).len(), "http-tag:".len() + 32);
        assert!(is_hashed_tag(&of_tag(&long)) && !is_hashed_tag(&of_all()) && !is_hashed_tag("http-tag:x"));
        assert_eq!(of_tag(&of_tag(&long)), of_tag(&long), "it stands for itself");
    }

    /// The replica that purges does not know the rule of the one that has stored the response.
    #[test]
    fn purge_of_a_uri_reaches_what_a_rule_has_stored() {
        let mut ruled = Vec::new();
        let uri = "http://h/a?x=1&y=2".parse::<Uri>().unwrap();
        key::write_uri(&mut ruled, &uri, &HeaderMap::new(), &KeySpace::default()).unwrap();
        ruled.truncate(key::path_of(&ruled).len());
        key::write_part(&mut ruled, Some(b"\0the rule, and y=2"));
        let stored: Vec<_> = of_resource(&ruled).collect();
        let mut exact = Vec::new();
        key::write_uri(&mut exact, &uri, &HeaderMap::new(), &KeySpace::default()).unwrap();
        assert!(of_purged_uri(&exact, true).any(|tag| stored.contains(&tag)));
        assert!(!of_purged_uri(&exact, false).any(|tag| stored.contains(&tag)), "nobody has rules");
        assert_eq!(of_resource(&exact).filter(|tag| stored.contains(tag)).count(), 2, "both are of the root");
    }

    #[test]
    fn expired_response_is_kept_as_long_as_it_was_fresh() {
        use crate::policy::plan::LaterUse;
        let seconds = Duration::from_secs;
        let kept = |ttl, grace, kept: u64, on_error: u64| {
            let later = LaterUse { kept: seconds(kept), on_error: seconds(on_error), ..LaterUse::default() };
            let later = (kept > 0).then(|| Box::new(later));
            super::kept(&Plan { ttl: seconds(ttl), grace: seconds(grace), later, ..Plan::default() })
        };
        assert_eq!(kept(600, 30, 0, 0), seconds(30), "only its grace period");
        assert_eq!(kept(600, 30, 86_400, 0), seconds(600));
        assert_eq!(kept(5, 0, 86_400, 0), seconds(60));
        assert_eq!(kept(5, 0, 20, 0), seconds(20));
        assert_eq!(kept(5, 90, 86_400, 120), seconds(120));
    }
}
