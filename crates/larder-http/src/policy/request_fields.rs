//! The fields of a request, for a handler that wants to be told if its response depends on one that is not in the key: such a
//! response is not stored, so that no client chooses the response of all.

use http::header::GetAll;
use http::{HeaderMap, HeaderName, HeaderValue, Request};

use crate::policy::ctx::CacheCtx;

/// The fields of a request. Read the fields that change the response through this value. If `Vary` does not name one of
/// them, the response is not stored, for the reason [`UnkeyedField`](crate::Reason::UnkeyedField). Its extension
/// [`UnkeyedField`] names the field.
///
/// Always allowed are `Host`, the content fields of a request with a body, which are in the key, and credentials, which
/// need a scope. Read a field that only a log needs directly from the request. With the feature `axum`, this is an
/// extractor. Without a cache in front of the handler it does nothing. It does not notice fields that are read after the
/// head of the response was returned. Cost: a copy of the fields.
///
/// ```
/// use http::header::{ACCEPT_LANGUAGE, VARY};
/// use http::{Request, Response};
/// use larder_http::{Cached, RequestFields};
/// use std::time::Duration;
///
/// fn greet(request: &Request<String>) -> Response<&'static str> {
///     let fields = RequestFields::of(request);
///     let is_german = fields.get(&ACCEPT_LANGUAGE).is_some_and(|languages| languages == "de");
///     let mut response = Response::new(if is_german { "Hallo" } else { "Hello" });
///     response.headers_mut().insert(VARY, ACCEPT_LANGUAGE.into());
///     response.extensions_mut().insert(Cached::ttl(Duration::from_secs(60)));
///     response
/// }
/// ```
#[derive(Clone, Debug)]
pub struct RequestFields {
    headers: HeaderMap,
    ctx: CacheCtx,
}

impl RequestFields {
    /// The fields of a request that came through the cache.
    pub fn of<B>(request: &Request<B>) -> RequestFields {
        let ctx = request.extensions().get::<CacheCtx>().cloned();
        RequestFields::new(request.headers().clone(), ctx.unwrap_or_default())
    }

    pub(crate) fn new(headers: HeaderMap, ctx: CacheCtx) -> RequestFields {
        RequestFields { headers, ctx }
    }

    /// The first line of a field. The response depends on it, whether the request has the field or not.
    pub fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.ctx.note_read(name);
        self.headers.get(name)
    }

    /// All lines of a field. The response depends on them, whether the request has the field or not.
    pub fn get_all(&self, name: &HeaderName) -> GetAll<'_, HeaderValue> {
        self.ctx.note_read(name);
        self.headers.get_all(name)
    }
}

/// The first field that a handler has read through [`RequestFields`] and that is not in the key, in the extensions of the
/// response that was not stored for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnkeyedField(pub HeaderName);
