//! The record of a resource that varies or is guarded: what its variants differ in, and the key of a variant, which is made
//! from a request's values of these fields (RFC 9111, section 4.1).

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};

use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE};
use http::{HeaderMap, HeaderName};

use crate::headers::control::split_list;
use crate::key::{self, Key};
use crate::policy::scope::Scope;
use crate::status::Reason;
use crate::stored::purge::PurgeStamp;

/// Variants that are kept of one resource; the next one replaces the oldest.
pub(crate) const MAX_VARIANTS: usize = 16;

/// The value under the key of a resource that varies or is guarded: the fields, the scope, and the keys of the stored
/// variants.
///
/// Each record has its own id, which is part of the keys of its variants. When the record is purged, evicted or
/// replaced because the fields or the scope changed, lookups no longer find its variants.
#[derive(Debug)]
pub(crate) struct VaryRecord {
    id: u128,
    scope: Option<Scope>,
    fields: Box<[HeaderName]>,
    variants: Mutex<Vec<Key>>,
    pub(crate) stamp: PurgeStamp,
    /// What tells whether other replicas still have the record, once it is shared.
    #[cfg(feature = "shared")]
    pub(crate) copy: std::sync::OnceLock<larder::SharedCopy>,
}

impl VaryRecord {
    pub(crate) fn new(scope: Option<Scope>, fields: Box<[HeaderName]>, stamp: PurgeStamp) -> VaryRecord {
        VaryRecord::with_id(new_id(), scope, fields, stamp)
    }

    /// A record that may be that of another replica.
    pub(crate) fn with_id(
        id: u128,
        scope: Option<Scope>,
        fields: Box<[HeaderName]>,
        stamp: PurgeStamp,
    ) -> VaryRecord {
        VaryRecord {
            id,
            scope,
            fields,
            variants: Mutex::default(),
            stamp,
            #[cfg(feature = "shared")]
            copy: std::sync::OnceLock::new(),
        }
    }

    #[cfg(any(feature = "disk", feature = "shared"))]
    pub(crate) fn id(&self) -> u128 {
        self.id
    }

    pub(crate) fn scope(&self) -> Option<Scope> {
        self.scope
    }

    /// Whether the gate is asked before each lookup of a variant.
    pub(crate) fn is_guarded(&self) -> bool {
        self.scope >= Some(Scope::Gated)
    }

    pub(crate) fn fields(&self) -> &[HeaderName] {
        &self.fields
    }

    /// Appends the key of the variant that a request selects. If the scope is private, it has the principal.
    ///
    /// # Errors
    /// `VariantTooLong` if the request's values are longer than the longest key.
    pub(crate) fn write_key(
        &self,
        key: &mut Vec<u8>,
        principal: Option<&str>,
        request: &HeaderMap,
    ) -> Result<(), Reason> {
        let start = key.len();
        key::write_variant_prefix(key, self.id);
        if self.scope == Some(Scope::Private) {
            key::write_part(key, principal.map(str::as_bytes));
        }
        for field in &self.fields {
            write_values(key, field, request);
        }
        if key.len() - start > key::MAX_KEY_BYTES { Err(Reason::VariantTooLong) } else { Ok(()) }
    }

    /// Adds a stored variant. Returns the oldest one if it must be removed for it. Private ones are not counted: their
    /// principals have shares.
    pub(crate) fn add_variant(&self, variant: &Key) -> Option<Key> {
        if self.scope == Some(Scope::Private) {
            return None;
        }
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        variants.retain(|other| other != variant);
        let oldest = (variants.len() == MAX_VARIANTS).then(|| variants.remove(0));
        variants.push(variant.clone());
        oldest
    }

    /// The size in bytes. It changes with each added variant, so the record is stored again then.
    pub(crate) fn bytes(&self) -> usize {
        let variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let in_keys: usize = variants.iter().map(|key| size_of::<Key>() + key.as_bytes().len()).sum();
        size_of::<Self>() + self.fields.len() * size_of::<HeaderName>() + in_keys
    }
}

/// A random number, so that the records of several replicas have different ids too. Two records with one id would mix
/// their variants, so it is long.
pub(crate) fn new_id() -> u128 {
    let random = || u128::from(RandomState::new().hash_one(0u8));
    random() << 64 | random()
}

/// Appends the lines of a field.
fn write_values(key: &mut Vec<u8>, field: &HeaderName, request: &HeaderMap) {
    let lines = request.get_all(field);
    match ListField::of(field) {
        Some(list) => key::write_lines(key, lines, |key, line| list.write_line(key, line)),
        None => key::write_lines(key, lines, |key, line| key.extend_from_slice(line)),
    }
}

/// A field whose lines are known to be lists. The lines of every other field are compared by bytes: in
/// `https://good.test,` or `(KHTML, like Gecko)` the comma is a part of the value.
#[derive(Clone, Copy)]
enum ListField {
    CaseSensitive,
    CaseInsensitive,
}

impl ListField {
    fn of(field: &HeaderName) -> Option<ListField> {
        match *field {
            ACCEPT => Some(ListField::CaseSensitive),
            ACCEPT_ENCODING | ACCEPT_LANGUAGE => Some(ListField::CaseInsensitive),
            _ => None,
        }
    }

    /// Appends one line without the spaces around its commas. Empty members stay, for handlers that do not skip them.
    fn write_line(self, key: &mut Vec<u8>, line: &[u8]) {
        let start = key.len();
        for member in split_list(line) {
            key.extend_from_slice(member);
            key.push(b',');
        }
        if let ListField::CaseInsensitive = self {
            key[start..].make_ascii_lowercase();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::vary::parse_vary;
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
        record.write_key(&mut key, None, &map(request)).unwrap();
        key
    }

    #[test]
    fn variant_key_ignores_case_and_spaces_of_known_lists() {
        let record = VaryRecord::new(
            None,
            parse_vary(&map(&[("vary", "accept, accept-encoding, x")])).unwrap(),
            PurgeStamp::default(),
        );
        let one = key(&record, &[("accept", "a, b"), ("accept-encoding", "GZIP, br"), ("x", "A")]);
        let equal = [("accept", "a,b"), ("accept-encoding", " gzip ,br "), ("x", "A")];
        assert_eq!(one, key(&record, &equal));
        for other in [
            [("accept", "A, b"), ("accept-encoding", "gzip, br"), ("x", "A")],
            [("accept", "a, b"), ("accept-encoding", "gzip, br"), ("x", "a")],
            [("accept", "a, b"), ("accept-encoding", ",gzip, br"), ("x", "A")],
            [("accept", "\"a, b\""), ("accept-encoding", "gzip, br"), ("x", "A")],
        ] {
            assert_ne!(one, key(&record, &other), "{other:?}");
        }
    }

    #[test]
    fn variant_keys_of_different_lines_differ() {
        let record =
            VaryRecord::new(None, parse_vary(&map(&[("vary", "x, y")])).unwrap(), PurgeStamp::default());
        let requests = [
            &[][..],
            &[("x", "")],
            &[("x", ""), ("x", "")],
            &[("y", "")],
            &[("x", "a")],
            &[("x", "a,")],
            &[("x", "a"), ("x", "b")],
            &[("x", "a,b")],
            &[("x", "a, b")],
            &[("x", "a"), ("y", "b")],
        ];
        for (i, one) in requests.iter().enumerate() {
            for other in &requests[i + 1..] {
                assert_ne!(key(&record, one), key(&record, other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn equal_records_have_distinct_variant_keys() {
        let fields = parse_vary(&map(&[("vary", "x")])).unwrap();
        let (one, other) = (
            VaryRecord::new(None, fields.clone(), PurgeStamp::default()),
            VaryRecord::new(None, fields, PurgeStamp::default()),
        );
        assert_ne!(key(&one, &[("x", "a")]), key(&other, &[("x", "a")]));
    }

    #[test]
    fn variant_above_limit_evicts_oldest() {
        let record = VaryRecord::new(None, Box::default(), PurgeStamp::default());
        let keys: Vec<_> = (0..=MAX_VARIANTS as u8).map(|n| Key::new(&[n])).collect();
        for key in &keys[..MAX_VARIANTS] {
            assert_eq!(record.add_variant(key), None);
        }
        assert_eq!(record.add_variant(&keys[0]), None, "already added, and now the newest");
        assert_eq!(record.add_variant(&keys[MAX_VARIANTS]).as_ref(), Some(&keys[1]));
    }
}
