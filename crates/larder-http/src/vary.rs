//! Variants: which fields a response varies by, and the second key that a request's values of them make
//! (RFC 9111, section 4.1).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use http::header::{ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, VARY};
use http::{HeaderMap, HeaderName};

use crate::control::list_members;
use crate::key::{self, Key};
use crate::purge::Birth;
use crate::status::Reason;

/// Variants kept of one resource; the oldest makes room for the next.
pub(crate) const MAX_VARIANTS: usize = 16;
/// Fields that a response may vary by.
const MAX_FIELDS: usize = 16;

/// The fields that `Vary` names: sorted, each once; empty when the response does not vary.
///
/// # Errors
/// `VaryAny`, `VaryCredentials` or `VaryTooWide`: such a response is not stored.
pub(crate) fn fields(response: &HeaderMap) -> Result<Box<[HeaderName]>, Reason> {
    let mut names = Vec::new();
    for line in response.get_all(VARY) {
        for member in list_members(line.as_bytes()) {
            if member == b"*" {
                return Err(Reason::VaryAny);
            }
            // A name that no request can carry separates nothing, but it was meant to: do not guess.
            let name = HeaderName::from_bytes(member).map_err(|_| Reason::VaryAny)?;
            if [COOKIE, AUTHORIZATION, PROXY_AUTHORIZATION].contains(&name) {
                return Err(Reason::VaryCredentials);
            }
            names.push(name);
        }
    }
    names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    if names.len() > MAX_FIELDS { Err(Reason::VaryTooWide) } else { Ok(names.into()) }
}

/// Stored under a resource's key when its responses vary: the fields, and the variants made so far.
///
/// Each record has a number of its own, which is part of its variants' keys: when the record goes, by purge,
/// eviction or because the fields changed, none of its variants can be reached any more.
#[derive(Debug)]
pub(crate) struct VaryRecord {
    number: u64,
    fields: Box<[HeaderName]>,
    variants: Mutex<Vec<Key>>,
    pub(crate) birth: Birth,
}

impl VaryRecord {
    pub(crate) fn new(fields: Box<[HeaderName]>, birth: Birth) -> VaryRecord {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        VaryRecord { number: NEXT.fetch_add(1, Ordering::Relaxed), fields, variants: Mutex::default(), birth }
    }

    pub(crate) fn fields(&self) -> &[HeaderName] {
        &self.fields
    }

    /// Appends the key of the variant that a request selects.
    pub(crate) fn write_key(&self, key: &mut Vec<u8>, request: &HeaderMap) {
        key::write_variant_head(key, self.number);
        for field in &self.fields {
            write_values(key, field, request);
        }
    }

    /// Notes a variant that is now stored; returns the one that has to leave for it.
    pub(crate) fn admit(&self, variant: &Key) -> Option<Key> {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        variants.retain(|known| known != variant);
        let oldest = (variants.len() == MAX_VARIANTS).then(|| variants.remove(0));
        variants.push(variant.clone());
        oldest
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.fields.len() * size_of::<HeaderName>() + MAX_VARIANTS * size_of::<Key>()
    }
}

/// Appends a field's value: its lines joined, the blanks around commas dropped, and lower-cased where the field's
/// definition says that case means nothing.
fn write_values(key: &mut Vec<u8>, field: &HeaderName, request: &HeaderMap) {
    if !request.contains_key(field) {
        return key::write_part(key, None);
    }
    let at = key.len();
    key.extend_from_slice(&[0; 4]);
    for line in request.get_all(field) {
        for member in list_members(line.as_bytes()) {
            key.extend_from_slice(member);
            key.push(b',');
        }
    }
    if field == ACCEPT_ENCODING || field == ACCEPT_LANGUAGE {
        key[at + 4..].make_ascii_lowercase();
    }
    let len = (key.len() - at - 4) as u32;
    key[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    fn key(record: &VaryRecord, request: &[(&'static str, &'static str)]) -> Vec<u8> {
        let mut key = Vec::new();
        record.write_key(&mut key, &map(request));
        key
    }

    #[test]
    fn fields_are_sorted_and_unique() {
        let names = fields(&map(&[("vary", "X-B, accept,"), ("vary", "x-b")])).unwrap();
        assert_eq!(&names[..], [HeaderName::from_static("accept"), HeaderName::from_static("x-b")]);
        assert!(fields(&HeaderMap::new()).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_keyed_is_refused() {
        assert_eq!(fields(&map(&[("vary", "accept, *")])), Err(Reason::VaryAny));
        assert_eq!(fields(&map(&[("vary", "a b")])), Err(Reason::VaryAny));
        assert_eq!(fields(&map(&[("vary", "Accept, COOKIE")])), Err(Reason::VaryCredentials));
        assert_eq!(fields(&map(&[("vary", "authorization")])), Err(Reason::VaryCredentials));
        assert_eq!(fields(&map(&[("vary", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q")])), Err(Reason::VaryTooWide));
    }

    #[test]
    fn values_join_lines_and_ignore_blanks() {
        let record =
            VaryRecord::new(fields(&map(&[("vary", "accept-encoding, x")])).unwrap(), Birth::default());
        let one = key(&record, &[("accept-encoding", "GZIP, br"), ("x", "A")]);
        assert_eq!(one, key(&record, &[("accept-encoding", "gzip"), ("accept-encoding", " br"), ("x", "A")]));
        assert_ne!(one, key(&record, &[("accept-encoding", "gzip, br"), ("x", "a")]));
        assert_ne!(key(&record, &[]), key(&record, &[("x", "")]));
        assert_ne!(key(&record, &[("x", "a,")]), key(&record, &[("x", "b,")]));
    }

    #[test]
    fn records_do_not_share_variants() {
        let fields = fields(&map(&[("vary", "x")])).unwrap();
        let (one, other) =
            (VaryRecord::new(fields.clone(), Birth::default()), VaryRecord::new(fields, Birth::default()));
        assert_ne!(key(&one, &[("x", "a")]), key(&other, &[("x", "a")]));
    }

    #[test]
    fn the_oldest_variant_makes_room() {
        let record = VaryRecord::new(Box::default(), Birth::default());
        let keys: Vec<_> = (0..=MAX_VARIANTS as u8).map(|n| Key::new(&[n])).collect();
        for key in &keys[..MAX_VARIANTS] {
            assert_eq!(record.admit(key), None);
        }
        assert_eq!(record.admit(&keys[0]), None, "known already, and now the youngest");
        assert_eq!(record.admit(&keys[MAX_VARIANTS]).as_ref(), Some(&keys[1]));
    }
}
