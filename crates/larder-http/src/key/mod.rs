//! The cache key: view, scheme, authority, raw path and raw query; with a body rule, the body too. Each part is prefixed
//! with its length, so that different requests never have the same key. Keys are compared in full, and nothing is decoded.
//!
//! ```text
//! URI        'R' | len view | len scheme | len authority | len path | len query (or ABSENT)
//! resource   URI
//!            if it was rewritten:  … | ABSENT | len path | len query
//!            with a body rule:     … | len method | content fields, as in a variant | len body
//! variant    'V' | id of its record | if private: len principal | per field that Vary names, in order: number of lines | len line …
//! ```

pub(crate) mod query_rules;

use std::borrow::Borrow;
use std::cell::Cell;
use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use crate::headers::fields::FieldSet;
use crate::key::query_rules::{Learnt, QueryRules};
use crate::rfc::no_vary_search::NoVarySearch;
use crate::status::Reason;

/// The longest key of a URI or of a variant; requests with longer ones bypass. Most servers reject them anyway.
pub(crate) const MAX_KEY_BYTES: usize = 16 * 1024;

/// The fields that say what the bytes of a request body mean.
pub(crate) const CONTENT_FIELDS: [HeaderName; 3] = [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE];

/// The length of an absent part: `/a` has no query, `/a?` has an empty one.
const ABSENT: u32 = u32::MAX;

/// The key of an entry in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(Box<[u8]>);

impl Key {
    pub(crate) fn new(bytes: &[u8]) -> Key {
        Key(bytes.into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Lookups borrow the bytes, so they need no allocation. The derived `Hash` is that of the slice.
impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

thread_local! {
    static KEY_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with the empty key buffer of this thread.
pub(crate) fn with_key_buffer<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = KEY_BUFFER.take();
    buffer.clear();
    let result = f(&mut buffer);
    KEY_BUFFER.set(buffer);
    result
}

/// What a cache adds to the keys of its requests.
#[derive(Debug, Default)]
pub(crate) struct KeySpace {
    /// Separates the caches that share a store.
    pub(crate) view: String,
    /// The scheme of a target that has none.
    pub(crate) scheme: String,
    /// What origins say of their queries, if they are asked.
    pub(crate) query_rules: Option<Arc<QueryRules>>,
}

impl KeySpace {
    /// Notes what a response says of the queries of its path.
    pub(crate) fn learn_query_rule(&self, resource: &Key, response: &HeaderMap) -> Learnt {
        let Some(rules) = &self.query_rules else {
            return Learnt { is_storable: true, replaces_rule: false };
        };
        let (path, query) = split_query(uri_of(resource.as_bytes()));
        rules.learn(path, query, NoVarySearch::parse(response))
    }
}

/// The parts of a request that its key is made from.
#[derive(Clone, Copy)]
pub(crate) struct RequestKey<'a> {
    pub(crate) uri: &'a Uri,
    /// The target of the request, if it is not what a nested router leaves of the URI.
    rewritten: Option<&'a Uri>,
    pub(crate) headers: &'a HeaderMap,
    /// With a body rule: the method, and the key of the body.
    body: Option<(&'a Method, &'a [u8])>,
    /// Which of the content fields it has, if that is known.
    fields: Option<FieldSet>,
}

impl<'a> RequestKey<'a> {
    pub(crate) fn new<B>(request: &'a Request<B>, body_key: &'a Option<bytes::Bytes>) -> RequestKey<'a> {
        let uri = target(request);
        RequestKey {
            uri,
            rewritten: rewritten(request, uri),
            headers: request.headers(),
            body: body_key.as_ref().map(|body| (request.method(), &**body)),
            fields: None,
        }
    }

    /// `fields`: those that the request has. They save lookups of the others.
    pub(crate) fn with_fields(self, fields: FieldSet) -> RequestKey<'a> {
        debug_assert_eq!(fields, FieldSet::of(self.headers));
        RequestKey { fields: Some(fields), ..self }
    }

    /// Whether a middleware has changed the target, so that the key is not that of the URI alone.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.rewritten.is_some()
    }

    fn is_absent(&self, content_field: &HeaderName) -> bool {
        let is_known = |fields: FieldSet| !fields.has(FieldSet::CONTENT_CODING_OR_LANGUAGE);
        *content_field != CONTENT_TYPE && self.fields.is_some_and(is_known)
    }

    /// Appends the key of the resource.
    ///
    /// # Errors
    /// Those of [`write_uri`], and `TargetTooLong` if the content fields are longer than 16 KiB.
    pub(crate) fn write(&self, key: &mut Vec<u8>, space: &KeySpace) -> Result<(), Reason> {
        write_uri(key, self.uri, self.headers, space)?;
        if let Some(uri) = self.rewritten {
            // No method has such a length.
            write_part(key, None);
            write_part(key, Some(uri.path().as_bytes()));
            write_part(key, uri.query().map(str::as_bytes));
        }
        let Some((method, body)) = self.body else { return Ok(()) };
        let start = key.len();
        write_part(key, Some(method.as_str().as_bytes()));
        for field in &CONTENT_FIELDS {
            match self.is_absent(field) {
                true => write_lines(key, std::iter::empty(), |_, _| {}),
                false => {
                    write_lines(key, self.headers.get_all(field), |key, line| key.extend_from_slice(line))
                }
            }
        }
        if key.len() - start > MAX_KEY_BYTES {
            return Err(Reason::TargetTooLong);
        }
        write_part(key, Some(body));
        Ok(())
    }
}

/// The URI that the client sent. A router that is nested in another one sees only a part of it, and several of them may share
/// a cache.
pub(crate) fn target<B>(request: &Request<B>) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = request.extensions().get() {
        return uri;
    }
    request.uri()
}

/// The path at which the router of a request is nested in others.
#[cfg(feature = "axum")]
fn nested_path<B>(request: &Request<B>) -> Option<&str> {
    request.extensions().get().map(axum::extract::NestedPath::as_str)
}

#[cfg(not(feature = "axum"))]
fn nested_path<B>(_: &Request<B>) -> Option<&str> {
    None
}

/// The target of a request for `uri`, if it is not what a nested router leaves of the URI.
fn rewritten<'a, B>(request: &'a Request<B>, uri: &Uri) -> Option<&'a Uri> {
    let inner = request.uri();
    // Outside of a router of axum they are one, and nothing has to be looked up.
    (!std::ptr::eq(uri, inner) && is_rewritten(uri, inner, nested_path(request))).then_some(inner)
}

/// Whether a request for `uri` has another target than the rest of it that a router gets which is nested at a path.
fn is_rewritten(uri: &Uri, inner: &Uri, nested_path: Option<&str>) -> bool {
    // A parameter of the path stands for one segment.
    let nested_segments =
        nested_path.map_or(0, |path| path.split('/').filter(|part| !part.is_empty()).count());
    let mut starts = uri.path().match_indices('/').map(|(start, _)| start);
    let rest = starts.nth(nested_segments).map_or("/", |start| &uri.path()[start..]);
    rest != inner.path() || uri.query() != inner.query()
}

/// Appends the key of a URI, with the canonical form of its query if its path has a rule.
///
/// # Errors
/// As [`write_exact_uri`].
pub(crate) fn write_uri(
    key: &mut Vec<u8>,
    uri: &Uri,
    headers: &HeaderMap,
    space: &KeySpace,
) -> Result<(), Reason> {
    let start = key.len();
    write_exact_uri(key, uri, headers, space)?;
    if let Some(rules) = &space.query_rules {
        let path_end = start + split_query(&key[start..]).0.len();
        if let Some(query) = rules.query_in_key(&key[start..path_end], uri.query()) {
            key.truncate(path_end);
            write_part(key, Some(&query));
        }
    }
    Ok(())
}

/// Calls `f` with each key under which a response to the URI may be stored: with the canonical form of its query, and with the
/// query as it is, if that is another one.
///
/// # Errors
/// As [`write_exact_uri`].
pub(crate) fn for_each_uri(
    uri: &Uri,
    headers: &HeaderMap,
    space: &KeySpace,
    mut f: impl FnMut(&[u8]),
) -> Result<(), Reason> {
    with_key_buffer(|key| {
        write_uri(key, uri, headers, space)?;
        f(key);
        if space.query_rules.is_some() {
            let mut exact = Vec::with_capacity(key.len());
            write_exact_uri(&mut exact, uri, headers, space)?;
            if exact != *key {
                f(&exact);
            }
        }
        Ok(())
    })
}

/// Appends the key of a URI, with its query as it is.
///
/// # Errors
/// `Authority` if the request does not name exactly one valid authority, `TargetTooLong` above 16 KiB.
fn write_exact_uri(
    key: &mut Vec<u8>,
    uri: &Uri,
    headers: &HeaderMap,
    space: &KeySpace,
) -> Result<(), Reason> {
    let path = uri.path();
    let query = uri.query();
    let authority = request_authority(uri, headers)?;
    if path.len() + query.map_or(0, str::len) + authority.len() > MAX_KEY_BYTES {
        return Err(Reason::TargetTooLong);
    }
    let scheme = uri.scheme_str().unwrap_or(&space.scheme);
    write_origin(key, space, scheme, authority)?;
    write_part(key, Some(path.as_bytes()));
    write_part(key, query.map(str::as_bytes));
    Ok(())
}

/// The part of a resource's key that [`write_uri`] has written: what a purge of the URI names.
pub(crate) fn uri_of(resource: &[u8]) -> &[u8] {
    &resource[..parts_end(resource, 5)]
}

/// Where the first parts of a resource's key end.
fn parts_end(resource: &[u8], parts: usize) -> usize {
    (0..parts).fold(1, |end, _| {
        let len = u32::from_be_bytes(resource[end..end + 4].try_into().expect("four bytes"));
        end + 4 + if len == ABSENT { 0 } else { len as usize }
    })
}

/// The key of a URI up to its query, and the query in it.
fn split_query(uri: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (path, query) = uri.split_at(parts_end(uri, 4));
    (path, (query[..4] != ABSENT.to_be_bytes()).then(|| &query[4..]))
}

/// The path of a URI's key whose query was made by a rule of that path.
pub(crate) fn ruled_path(uri: &[u8]) -> Option<&[u8]> {
    let (path, query) = split_query(uri);
    query_rules::is_ruled(query).then_some(path)
}

/// The path in a URI's key, with all that is before it.
pub(crate) fn path_of(uri: &[u8]) -> &[u8] {
    split_query(uri).0
}

/// Whether the key of a resource is that of its URI, and no more.
#[cfg(feature = "disk")]
pub(crate) fn is_of_uri_alone(resource: &[u8]) -> bool {
    uri_of(resource).len() == resource.len()
}

/// The origin in a URI's key (see [`write_origin`]).
pub(crate) fn origin_of(uri: &[u8]) -> &[u8] {
    &uri[..parts_end(uri, 3)]
}

/// The tag of a group of responses of the origin of a resource (RFC 9875).
pub(crate) fn group_tag(resource: &[u8], group: &str) -> String {
    let part = |number| {
        String::from_utf8_lossy(&resource[parts_end(resource, number - 1) + 4..parts_end(resource, number)])
    };
    format!("cache-group:{}://{}:{group}", part(2), part(3))
}

/// The origin and the path in a URI's key.
#[cfg(feature = "shared")]
pub(crate) fn origin_and_path(uri: &[u8]) -> (&[u8], &[u8]) {
    let (origin, (path, _)) = (origin_of(uri), split_query(uri));
    (origin, &path[origin.len() + 4..])
}

/// Appends the prefix that all keys of one origin share.
pub(crate) fn write_origin(
    key: &mut Vec<u8>,
    space: &KeySpace,
    scheme: &str,
    authority: &str,
) -> Result<(), Reason> {
    key.push(b'R');
    write_part(key, Some(space.view.as_bytes()));
    write_part(key, Some(scheme.as_bytes()));
    write_prefixed(key, |key| write_authority(key, scheme, authority))
}

/// Whether the lines of a request fit the key of a variant, whatever fields the response varies by.
pub(crate) fn fits_variant(headers: &HeaderMap) -> bool {
    // More than the key has besides the lines, and for each line.
    const REST: usize = 128;
    const PER_LINE: usize = 8;
    let lines: usize = headers.values().map(|line| line.len() + PER_LINE).sum();
    lines + REST <= MAX_KEY_BYTES
}

/// Appends the key of a variant, without the values of its fields.
pub(crate) fn write_variant_prefix(key: &mut Vec<u8>, record: u128) {
    key.push(b'V');
    key.extend_from_slice(&record.to_be_bytes());
}

pub(crate) fn write_part(key: &mut Vec<u8>, part: Option<&[u8]>) {
    let len = part.map_or(ABSENT, |part| part.len() as u32);
    key.extend_from_slice(&len.to_be_bytes());
    key.extend_from_slice(part.unwrap_or_default());
}

/// Appends what `write` appends, prefixed with its length.
pub(crate) fn write_prefixed<R>(key: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let length_offset = key.len();
    key.extend_from_slice(&[0; 4]);
    let result = write(key);
    let len = (key.len() - length_offset - 4) as u32;
    key[length_offset..length_offset + 4].copy_from_slice(&len.to_be_bytes());
    result
}

/// Appends the lines of a field, each as `write_line` writes it: their number, and each with its length.
///
/// Lines are neither joined nor dropped, although RFC 9111 allows it for equal meanings (4.1): a handler that reads only
/// the first line would reply to another request.
pub(crate) fn write_lines<'a>(
    key: &mut Vec<u8>,
    lines: impl IntoIterator<Item = &'a HeaderValue>,
    write_line: impl Fn(&mut Vec<u8>, &[u8]),
) {
    let (count_offset, mut count) = (key.len(), 0u32);
    key.extend_from_slice(&count.to_be_bytes());
    for line in lines {
        write_prefixed(key, |key| write_line(key, line.as_bytes()));
        count += 1;
    }
    key[count_offset..count_offset + 4].copy_from_slice(&count.to_be_bytes());
}

/// Whether a resource's key has this origin (see [`write_origin`]) and path prefix.
pub(crate) fn has_prefix(key: &[u8], origin: &[u8], path: &[u8]) -> bool {
    let Some(rest) = key.strip_prefix(origin) else { return false };
    let Some((len, rest)) = rest.split_at_checked(4) else { return false };
    let len = u32::from_be_bytes(len.try_into().expect("four bytes")) as usize;
    rest.get(..len).is_some_and(|key_path| key_path.starts_with(path))
}

/// The authority of a request: that of the target, which must equal `Host`, else `Host`, else empty.
fn request_authority<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, Reason> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match hosts.next() {
        Some(host) => Some(host.to_str().map_err(|_| Reason::Authority)?),
        None => None,
    };
    if hosts.next().is_some() {
        return Err(Reason::Authority);
    }
    match (uri.authority(), host) {
        (Some(target), Some(host)) if !target.as_str().eq_ignore_ascii_case(host) => Err(Reason::Authority),
        (Some(target), _) => Ok(target.as_str()),
        (None, host) => Ok(host.unwrap_or_default()),
    }
}

/// Appends the authority in lower case and without an empty port or the default one of the scheme; rejects one that is not a
/// host, or a host with a port.
fn write_authority(key: &mut Vec<u8>, scheme: &str, authority: &str) -> Result<(), Reason> {
    let start = key.len();
    key.extend_from_slice(authority.as_bytes());
    key[start..].make_ascii_lowercase();
    let host_len = host_len(&key[start..]).ok_or(Reason::Authority)?;
    let port = &authority[host_len..];
    if matches!((scheme, port), (_, ":") | ("http", ":80") | ("https", ":443")) {
        key.truncate(start + host_len);
    }
    Ok(())
}

/// The length of the host in an authority; `None` if the host or the port behind it is not well-formed: two malformed
/// authorities must not become equal by the removal of a port.
fn host_len(authority: &[u8]) -> Option<usize> {
    let position = |wanted: u8| authority.iter().position(|b| *b == wanted);
    let is_literal = authority.starts_with(b"[");
    let host_len = match is_literal {
        true => position(b']')? + 1,
        false => position(b':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_len);
    let name = if is_literal { &host[1..host_len - 1] } else { host };
    let is_port = match port.split_first() {
        Some((b':', digits)) => !host.is_empty() && digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
        None => true,
    };
    (name.iter().all(|b| IS_NAME_BYTE[usize::from(*b)]) && is_port).then_some(host_len)
}

/// Whether a byte may be in the name of a host: a table, because each lookup reads all bytes of one.
const IS_NAME_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = (b as u8).is_ascii_alphanumeric() || matches!(b as u8, b'-' | b'.' | b'_' | b'~' | b':');
        b += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> KeySpace {
        KeySpace { scheme: "http".to_owned(), ..KeySpace::default() }
    }

    fn key(uri: &'static str, hosts: &[&'static str]) -> Result<Vec<u8>, Reason> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        let mut key = Vec::new();
        write_uri(&mut key, &Uri::from_static(uri), &headers, &space()).map(|()| key)
    }

    #[test]
    fn nested_router_gets_the_rest_of_its_path() {
        for (uri, inner, nested, expected) in [
            ("/a/x?q", "/x?q", Some("/a"), false),
            ("/a", "/", Some("/a"), false),
            ("/a/", "/", Some("/a"), false),
            ("/a/7/x", "/x", Some("/a/{id}"), false),
            ("/x", "/x", Some("/"), false),
            ("/x", "/x", None, false),
            ("/a/x", "/x", None, true),
            ("/a/b/x", "/x", Some("/a"), true),
            ("/a/x", "/", Some("/a"), true),
            ("/a/x?q", "/x", Some("/a"), true),
        ] {
            let (uri, inner) = (uri.parse().unwrap(), inner.parse().unwrap());
            assert_eq!(is_rewritten(&uri, &inner, nested), expected, "{uri} {inner} {nested:?}");
        }
    }

    #[test]
    fn targets_with_any_different_part_have_different_keys() {
        let targets = ["/a", "/a?", "/a?b", "/a/b", "/A", "/%61", "/a?b&c", "/a?c&b", "/a;b", "//a"];
        for (i, one) in targets.iter().enumerate() {
            for other in &targets[i + 1..] {
                assert_ne!(key(one, &["h"]), key(other, &["h"]), "{one} {other}");
            }
        }
        assert_ne!(key("/a", &["h"]), key("/a", &["g"]));
        assert_ne!(key("http://h/a", &[]), key("https://h/a", &[]));
        let api = KeySpace { view: "api".to_owned(), ..space() };
        let mut of_view = Vec::new();
        write_uri(&mut of_view, &Uri::from_static("http://h/a"), &HeaderMap::new(), &api).unwrap();
        assert_ne!(key("http://h/a", &[]), Ok(of_view));
    }

    #[test]
    fn equivalent_authorities_have_same_key() {
        for (uri, hosts) in [
            ("/a", &["EXAMPLE.com"][..]),
            ("/a", &["example.com:80"]),
            ("/a", &["example.com:"]),
            ("http://Example.com/a", &["example.COM"]),
        ] {
            assert_eq!(key(uri, hosts), key("http://example.com/a", &[]), "{uri} {hosts:?}");
        }
        assert_ne!(key("/a", &["example.com:443"]), key("/a", &["example.com"]));
    }

    #[test]
    fn ambiguous_authority_is_rejected() {
        for (uri, hosts) in [
            ("/a", &["h", "h"][..]),
            ("http://h/a", &["other"]),
            ("/a", &["h/x"]),
            ("/a", &["user@h"]),
            ("/a", &["h, g"]),
            ("/a", &[":80"]),
            ("/a", &["h::80"]),
            ("/a", &["h:80:80"]),
            ("/a", &["h:8x"]),
            ("/a", &["::1:80"]),
            ("/a", &["[::1"]),
            ("/a", &["[::1]80"]),
            ("/a", &["h\u{e9}"]),
        ] {
            assert_eq!(key(uri, hosts), Err(Reason::Authority), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn too_long_target_is_rejected() {
        let uri: Uri = format!("/{}", "a".repeat(MAX_KEY_BYTES)).parse().unwrap();
        let outcome = write_uri(&mut Vec::new(), &uri, &HeaderMap::new(), &space());
        assert_eq!(outcome, Err(Reason::TargetTooLong));
    }

    #[test]
    fn uri_is_a_prefix_of_the_key_with_a_body() {
        for target in ["http://h/a", "http://h/a?", "http://h/a?q"] {
            let request = Request::post(target).header("content-type", "x/y").body(()).unwrap();
            let (mut uri, mut resource) = (Vec::new(), Vec::new());
            write_uri(&mut uri, request.uri(), request.headers(), &space()).unwrap();
            let body = Some(bytes::Bytes::from("body"));
            RequestKey::new(&request, &body).write(&mut resource, &space()).unwrap();
            assert!(resource.len() > uri.len());
            assert_eq!((uri_of(&resource), uri_of(&uri)), (&uri[..], &uri[..]), "{target}");
        }
    }

    #[test]
    fn path_prefix_excludes_query() {
        let mut origin = Vec::new();
        write_origin(&mut origin, &space(), "http", "h").unwrap();
        let key = key("/shop/1?q", &["h"]).unwrap();
        assert!(has_prefix(&key, &origin, b"/shop/"));
        assert!(has_prefix(&key, &origin, b"/shop/1"));
        assert!(!has_prefix(&key, &origin, b"/shop/1?q"));
        assert!(!has_prefix(&key, &origin, b"/shop/2"));
        let mut other = Vec::new();
        write_origin(&mut other, &space(), "http", "hh").unwrap();
        assert!(!has_prefix(&key, &other, b"/"));
    }
}
