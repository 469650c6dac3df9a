//! The middleware in front of every route.
//!
//! A route is closed unless [`rule_for`] lists it as open. A route that is added later is therefore closed by default, and
//! so are nested services and fallbacks. Redirects that `front.rs` answers do not come here: it makes the one check that they
//! need.

use crate::model::token::Scope;
use crate::service::Links;
use crate::service::access::{Grant, Kind};
use crate::service::api_error::ApiError;
use crate::service::hosts::check_single_host;
use crate::web::graphql::GRAPHQL_PATH;
use crate::web::input::check_json_type;
use crate::web::routes::events::EVENT_STREAM;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, MatchedPath, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request};
use http_body::{Body as _, Frame, SizeHint};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Everyone: redirects, the files of the page, the health check.
    Open,
    /// Everyone, from our own page or from no page: this route exchanges a token for a session.
    SignIn,
    /// Clients with a token or a session, and local clients.
    Closed,
}

fn rule_for(route: Option<&str>) -> Rule {
    match route {
        Some("/" | "/static/{name}" | "/healthz" | "/robots.txt" | "/{slug}") => Rule::Open,
        Some("/api/session") => Rule::SignIn,
        _ => Rule::Closed,
    }
}

/// Whether no request of a route changes anything, so that the scope read suffices for all its methods.
fn is_read_only(route: Option<&str>) -> bool {
    route == Some(GRAPHQL_PATH)
}

/// Checks a request, then passes it on or rejects it.
pub(crate) async fn guard(State(links): State<Links>, request: Request<Body>, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match check(&links, &parts).await {
        Err(error) => error.into_response(),
        Ok(None) => next.run(Request::from_parts(parts, body)).await,
        Ok(Some(grant)) => {
            parts.extensions.insert(grant);
            private(links, grant, next.run(Request::from_parts(parts, body)).await)
        }
    }
}

/// The grant for a closed route, or `None` if the request needs none.
async fn check(links: &Links, request: &Parts) -> Result<Option<Grant>, ApiError> {
    let (headers, hosts) = (&request.headers, links.hosts());
    let route = request.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    let rule = rule_for(route);
    // An open route has no other methods: the router refuses them, whatever they contain.
    let is_safe = matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let has_content = !is_safe && rule != Rule::Open;
    let is_change = has_content && !is_read_only(route);
    check_single_host(&request.uri, headers)?;
    if rule != Rule::Open || has_content {
        hosts.check_host(headers)?;
    }
    if has_content {
        hosts.check_origin(headers)?;
    }
    let grant = match rule {
        Rule::Closed => authenticate(links, peer_of(&request.extensions), headers, is_change).await?,
        Rule::Open | Rule::SignIn => None,
    };
    if has_content {
        // A foreign page can send this type only after a CORS preflight, which this service never allows.
        check_json_type(headers)?;
    }
    Ok(grant)
}

async fn authenticate(
    links: &Links,
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    is_change: bool,
) -> Result<Option<Grant>, ApiError> {
    if is_local(links, peer, headers) {
        return Ok(None);
    }
    let access = links.access();
    let client = access.client(peer, headers);
    let grant = access.authenticate(headers, client).await?;
    if is_change && grant.scope < Scope::Write {
        return Err(ApiError::insufficient_scope(Scope::Write));
    }
    access.take(client, if is_change { Kind::Change } else { Kind::Listing })?;
    Ok(Some(grant))
}

/// Whether a request needs no token: client, listener and `Host` are on loopback, and no option names a proxy or public host.
pub(crate) fn is_local(links: &Links, peer: Option<IpAddr>, headers: &HeaderMap) -> bool {
    links.access().is_local_client(peer, headers) && links.hosts().is_local(headers)
}

/// The peer address of the connection, which the accept loop sets.
pub(crate) fn peer_of(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip())
}

/// Keeps a response out of other caches, and ends a stream when its grant is revoked.
fn private(links: Links, grant: Grant, mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.append(VARY, HeaderValue::from_static("authorization, cookie"));
    // A body of known size is complete already; any other body may last for hours.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    // A stream of events has no end that a client could miss.
    let may_end = response.headers().get(CONTENT_TYPE).is_some_and(|value| value == EVENT_STREAM);
    let revoked = Some(Box::pin(async move { links.access().revoked(grant).await }));
    response.map(|inner| Body::new(RevocableBody { inner, revoked, may_end }))
}

/// A body that ends as soon as its grant is revoked: with an error, so that no client takes a part for the whole.
struct RevocableBody<F> {
    inner: Body,
    /// Whether it ends without an error instead.
    may_end: bool,
    /// `None` after its completion: the body has ended.
    revoked: Option<Pin<Box<F>>>,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
#[error("the token or session of this stream was removed")]
struct Revoked;

impl<F: Future<Output = ()>> http_body::Body for RevocableBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(revoked) = &mut self.revoked else { return Poll::Ready(None) };
        if revoked.as_mut().poll(cx).is_ready() {
            self.revoked = None;
            return Poll::Ready((!self.may_end).then(|| Err(axum::Error::new(Revoked))));
        }
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests;
