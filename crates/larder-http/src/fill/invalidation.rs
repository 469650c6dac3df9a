//! What a request with an unsafe method invalidates: its URI, and under the profile `rfc` the URIs and groups of the same origin
//! that its response names (RFC 9111, 4.4; RFC 9875).

use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use crate::key::{self, Key};
use crate::policy::handler_purges::PurgeTag;
use crate::policy::home_runtime::HomeRuntime;
use crate::policy::profile::Profile;
use crate::rfc::groups;
use crate::store::HttpCache;

/// The invalidation by one request. If the handler was called and is dropped before its reply, or fails, it may have changed
/// the resource nevertheless.
pub(crate) struct Invalidation {
    cache: HttpCache,
    method: Method,
    /// The field by which a path in the response becomes a URI.
    host: Option<HeaderValue>,
    /// The keys under which responses to GET may be stored for what it changes; that of its own URI is the first.
    uris: Vec<Key>,
    /// Responses to requests with a body may be stored for the URI, under other keys.
    has_body_keys: bool,
    pub(super) is_due: bool,
    runtime: HomeRuntime,
}

impl Invalidation {
    /// `None` if the request has no URI that a key can have.
    pub(crate) fn new<B>(
        cache: HttpCache,
        request: &Request<B>,
        has_body_keys: bool,
    ) -> Option<Invalidation> {
        let mut uris = Vec::new();
        let space = &cache.core().key_space;
        key::for_each_uri(key::target(request), request.headers(), space, |key| uris.push(Key::new(key)))
            .ok()?;
        Some(Invalidation {
            method: request.method().clone(),
            host: request.headers().get(http::header::HOST).cloned(),
            runtime: cache.core().store.home_runtime(),
            uris,
            has_body_keys,
            is_due: false,
            cache,
        })
    }

    /// Adds what the response to a successful request names.
    pub(super) fn add_named(&mut self, response: &HeaderMap) {
        if self.cache.core().rules.profile != Profile::Rfc {
            return;
        }
        for name in [LOCATION, CONTENT_LOCATION] {
            self.add_uri(response, &name);
        }
        for group in groups::invalidated_groups(&self.method, response) {
            let tag = key::group_tag(self.uris[0].as_bytes(), &group);
            self.cache.core().purge_tag(&tag);
        }
    }

    /// Adds the URI of a field: an absolute one of the same origin, or a path. Other relative forms are rare there.
    fn add_uri(&mut self, response: &HeaderMap, field: &HeaderName) {
        let Some(uri) = response.get(field).and_then(|line| Uri::try_from(line.as_bytes()).ok()) else {
            return;
        };
        let headers = match (&self.host, uri.authority()) {
            (Some(host), None) => HeaderMap::from_iter([(http::header::HOST, host.clone())]),
            _ => HeaderMap::new(),
        };
        let Invalidation { cache, uris, .. } = self;
        let origin = key::origin_of(uris[0].as_bytes()).to_vec();
        let add = |key: &[u8]| {
            if key::origin_of(key) == origin {
                uris.push(Key::new(key));
            }
        };
        // A URI that no key can have is stored nowhere.
        _ = key::for_each_uri(&uri, &headers, &cache.core().key_space, add);
    }
}

impl Drop for Invalidation {
    fn drop(&mut self) {
        if self.is_due {
            let _entered = self.runtime.enter();
            self.uris.iter().for_each(|uri| self.cache.invalidate(uri.as_bytes(), self.has_body_keys));
        }
    }
}
