//! The tags of shared entries. Beside those of the handler each entry has one for its URI, which all variants and all
//! request bodies have, and one for each prefix of its path that ends with a slash.
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

/// Whether a tag of an entry was named, and is not a hash.
pub(crate) fn is_named(tag: &str) -> bool {
    let hash = tag.strip_prefix(HASHED).and_then(|kind| Some(kind.split_once(':')?.1));
    hash.is_none_or(|hash| hash.len() != 32)
}

/// The times and tags of an entry of this resource. A private one has its principal.
pub(crate) fn options(plan: &Plan, resource: &[u8], principal: Option<&str>) -> WriteOptions {
    let policy = Policy::new().ttl(plan.ttl).grace(plan.grace);
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
    std::iter::once(of_uri(uri))
        .chain(ends.take(MAX_PREFIXES).map(move |end| of_prefix(origin, &path[..end])))
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
        assert_eq!(shop[1..], [prefix("/"), prefix("/shop/")]);
        let other = tags("http://h/shop/1");
        assert_ne!(shop[0], other[0], "another query");
        assert_eq!(shop[1..], other[1..]);
        assert_ne!(tags("http://g/shop/1")[2], shop[2], "another origin");
    }

    #[test]
    fn deep_path_has_tags_of_its_first_prefixes() {
        let deep = tags("http://h/1/2/3/4/5/6/7/8/9/10");
        assert_eq!(deep.len(), 1 + MAX_PREFIXES);
        assert_eq!(deep.last(), Some(&prefix("/1/2/3/4/5/6/7/")));
    }

    #[test]
    fn long_tag_is_hashed() {
        let (longest, long) = ("x".repeat(255), "x".repeat(256));
        assert_eq!(*of_tag(&longest), longest);
        assert_eq!(of_tag(&long).len(), "http-tag:".len() + 32);
    }
}
