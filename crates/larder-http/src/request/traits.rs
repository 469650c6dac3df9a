//! The traits of a request that decide whether and how it is answered from the cache.

use http::header::{CONTENT_LENGTH, COOKIE, TRANSFER_ENCODING};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request};

use crate::graphql::GraphqlQuery;
use crate::headers::control::Directives;
use crate::headers::fields::FieldSet;
use crate::status::Reason;

/// What identifies a user in a request, besides `Authorization`: its credentials.
#[derive(Debug, Default)]
pub(crate) struct PersonalTraits {
    pub(crate) credential_fields: Vec<HeaderName>,
    /// Cookies make no request personal.
    pub(crate) ignores_all_cookies: bool,
    /// All other cookies are personal.
    pub(crate) ignored_cookies: Vec<String>,
    pub(crate) extensions: Vec<PersonalExtension>,
}

/// A type of extensions that identifies a user.
#[derive(Debug)]
pub(crate) struct PersonalExtension {
    is_in: fn(&Extensions) -> bool,
    remove: fn(&mut Extensions),
}

impl PersonalExtension {
    pub(crate) fn of<T: Clone + Send + Sync + 'static>() -> PersonalExtension {
        PersonalExtension {
            is_in: |extensions| extensions.get::<T>().is_some(),
            remove: |extensions| drop(extensions.remove::<T>()),
        }
    }
}

impl PersonalTraits {
    /// The kind of credentials that a request has.
    pub(crate) fn credentials<B>(&self, request: &Request<B>, fields: FieldSet) -> Option<Reason> {
        let headers = request.headers();
        let has = |name: &HeaderName| headers.contains_key(name);
        if fields.has(FieldSet::AUTHORIZATION) || self.credential_fields.iter().any(has) {
            Some(Reason::Authorization)
        } else if self.extensions.iter().any(|personal| (personal.is_in)(request.extensions())) {
            Some(Reason::PersonalExtension)
        } else {
            let has_cookie =
                || !self.ignores_all_cookies && fields.has(FieldSet::COOKIE) && self.has_cookie(headers);
            has_cookie().then_some(Reason::Cookie)
        }
    }

    /// Removes what identifies a user from the extensions of a request.
    pub(crate) fn remove_extensions(&self, extensions: &mut Extensions) {
        self.extensions.iter().for_each(|personal| (personal.remove)(extensions));
    }

    /// Whether the request has a cookie that is not ignored. A malformed one has no name, so it is not ignored; nothing between
    /// two semicolons, or after the last one, is no cookie.
    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        headers.get_all(COOKIE).iter().any(|line| self.cookies(line).next().is_some())
    }

    /// The cookies of a line that are not ignored.
    pub(crate) fn cookies<'a>(&'a self, line: &'a HeaderValue) -> impl Iterator<Item = &'a [u8]> {
        let is_ignored = |cookie: &&[u8]| {
            let name = cookie.iter().position(|b| *b == b'=').map(|end| cookie[..end].trim_ascii());
            name.is_some_and(|name| self.ignored_cookies.iter().any(|ignored| ignored.as_bytes() == name))
        };
        let cookies = line.as_bytes().split(|b| *b == b';').map(<[u8]>::trim_ascii);
        cookies.filter(move |cookie| !cookie.is_empty() && !is_ignored(cookie))
    }
}

/// The traits of an eligible request.
#[derive(Clone, Copy)]
pub(crate) struct RequestTraits {
    pub(crate) head: bool,
    /// The kind of credentials that the request has.
    pub(crate) credentials: Option<Reason>,
    pub(crate) fields: FieldSet,
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
        let fields = FieldSet::of(headers);
        if fields.has(FieldSet::METHOD_OVERRIDE) {
            return Err(Reason::MethodOverride);
        }
        if matches!(*method, Method::GET | Method::HEAD) && has_body(request, fields) {
            return Err(Reason::RequestBody);
        }
        if fields.has(FieldSet::UPGRADE) {
            return Err(Reason::Upgrade);
        }
        // The cache evaluates the other conditions and ranges of GET, HEAD and QUERY; for POST they mean something else.
        let foreign_to_post = FieldSet::VALIDATOR | FieldSet::RANGE;
        if fields.has(FieldSet::PRECONDITION) || (*method == Method::POST && fields.has(foreign_to_post)) {
            return Err(Reason::Precondition);
        }
        let directives = match fields.has(FieldSet::CACHE_CONTROL) {
            true => Directives::parse(headers),
            false => Directives::default(),
        };
        if directives.no_store {
            return Err(Reason::RequestNoStore);
        }
        Ok(RequestTraits {
            head: *method == Method::HEAD,
            credentials: personal.credentials(request, fields),
            fields,
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
fn has_body<B: http_body::Body>(request: &Request<B>, fields: FieldSet) -> bool {
    let declares_body = || {
        let headers = request.headers();
        headers.get_all(CONTENT_LENGTH).iter().any(|length| length != "0")
            || headers.contains_key(TRANSFER_ENCODING)
    };
    (fields.has(FieldSet::BODY) && declares_body())
        || !(request.body().is_end_stream() || request.body().size_hint().exact() == Some(0))
}
