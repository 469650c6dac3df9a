//! The traits of a request that decide whether and how it is answered from the cache.

use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, COOKIE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
    PROXY_AUTHORIZATION, RANGE, TRANSFER_ENCODING, UPGRADE,
};
use http::{Extensions, HeaderMap, HeaderName, Method, Request};

use crate::control::Directives;
use crate::graphql::GraphqlQuery;
use crate::status::Reason;

/// Fields that make some frameworks treat a request as one of another method.
const METHOD_OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
];

/// What identifies a user in a request, besides `Authorization`: its credentials.
#[derive(Debug, Default)]
pub(crate) struct PersonalTraits {
    pub(crate) credential_fields: Vec<HeaderName>,
    /// All other cookies are personal.
    pub(crate) ignored_cookies: Vec<String>,
    pub(crate) extensions: Vec<fn(&Extensions) -> bool>,
}

impl PersonalTraits {
    fn credentials<B>(&self, request: &Request<B>) -> Option<Reason> {
        let headers = request.headers();
        let has = |name: &HeaderName| headers.contains_key(name);
        if has(&AUTHORIZATION) || has(&PROXY_AUTHORIZATION) || self.credential_fields.iter().any(has) {
            Some(Reason::Authorization)
        } else if self.extensions.iter().any(|is_in| is_in(request.extensions())) {
            Some(Reason::PersonalExtension)
        } else {
            self.has_cookie(headers).then_some(Reason::Cookie)
        }
    }

    /// Whether the request has a cookie that is not ignored. A malformed one has no name, so it is not.
    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let is_ignored = |cookie: &[u8]| {
            let name = cookie.iter().position(|b| *b == b'=').map(|end| cookie[..end].trim_ascii());
            name.is_some_and(|name| self.ignored_cookies.iter().any(|ignored| ignored.as_bytes() == name))
        };
        let lines = headers.get_all(COOKIE).iter();
        lines.flat_map(|line| line.as_bytes().split(|b| *b == b';')).any(|cookie| !is_ignored(cookie))
    }
}

/// The traits of an eligible request.
#[derive(Clone, Copy)]
pub(crate) struct RequestTraits {
    pub(crate) head: bool,
    /// The kind of credentials that the request has.
    pub(crate) credentials: Option<Reason>,
    pub(crate) range: bool,
    pub(crate) only_if_cached: bool,
    /// A GraphQL query.
    pub(crate) graphql: bool,
}

impl RequestTraits {
    /// `has_body_rule`: the body will be a part of the key, unless the method is GET or HEAD.
    ///
    /// # Errors
    /// The reason why the request bypasses the cache.
    pub(crate) fn parse<B: http_body::Body>(
        request: &Request<B>,
        personal: &PersonalTraits,
        has_body_rule: bool,
    ) -> Result<RequestTraits, Reason> {
        let headers = request.headers();
        let method = request.method();
        if !has_body_rule && !matches!(*method, Method::GET | Method::HEAD) {
            return Err(Reason::Method);
        }
        let has = |name: &HeaderName| headers.contains_key(name);
        if METHOD_OVERRIDES.iter().any(has) {
            return Err(Reason::MethodOverride);
        }
        if matches!(*method, Method::GET | Method::HEAD) && has_body(request) {
            return Err(Reason::RequestBody);
        }
        if has(&UPGRADE) {
            return Err(Reason::Upgrade);
        }
        // The cache evaluates the other conditions and ranges of GET, HEAD and QUERY; for POST they mean something else.
        let foreign_to_post = [IF_NONE_MATCH, IF_MODIFIED_SINCE, RANGE];
        if has(&IF_MATCH)
            || has(&IF_UNMODIFIED_SINCE)
            || (*method == Method::POST && foreign_to_post.iter().any(has))
        {
            return Err(Reason::Precondition);
        }
        let directives = Directives::parse(headers);
        if directives.no_store {
            return Err(Reason::RequestNoStore);
        }
        Ok(RequestTraits {
            head: *method == Method::HEAD,
            credentials: personal.credentials(request),
            range: has(&RANGE),
            only_if_cached: directives.only_if_cached,
            graphql: false,
        })
    }
}

impl RequestTraits {
    /// Marks a request whose response may be stored only if it is one of GraphQL without errors.
    pub(crate) fn mark<B>(&self, request: &mut Request<B>) {
        if self.graphql {
            request.extensions_mut().insert(GraphqlQuery);
        }
    }
}

/// Whether a request has a body. HTTP/2 has bodies without `Content-Length` and `Transfer-Encoding`.
fn has_body<B: http_body::Body>(request: &Request<B>) -> bool {
    let headers = request.headers();
    headers.get_all(CONTENT_LENGTH).iter().any(|length| length != "0")
        || headers.contains_key(TRANSFER_ENCODING)
        || !(request.body().is_end_stream() || request.body().size_hint().exact() == Some(0))
}
