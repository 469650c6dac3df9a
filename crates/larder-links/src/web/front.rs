//! What [`Links::serve`](crate::Links::serve) puts in front of the router: redirects, without the router's way to them.
//!
//! ```text
//! request ─┬─ GET /{slug}, one host ──► redirect::answer
//!          └─ anything else ──────────► router ──► guard ──► route
//! ```
//!
//! Nearly all requests are redirects. The router would match their path and box a future for each layer, which costs as much as
//! all that a redirect needs. A request is taken here only if the guard had nothing to check but its host: the route is open,
//! and a GET changes nothing. Whatever fails that check goes to the router, so that every rejection is written once.

use crate::model::slug;
use crate::service::hosts::check_single_host;
use crate::service::{Links, Peer};
use crate::web::headers;
use crate::web::routes::redirect;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::Response;
use http::request::Parts;
use http::{Method, Request};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tower_service::Service as _;

/// The service of all connections.
pub(crate) struct Front {
    links: Links,
    router: Router,
}

impl Front {
    pub(crate) fn new(links: Links) -> Arc<Front> {
        let router = links.router();
        Arc::new(Front { links, router })
    }

    /// The service of one connection.
    pub(crate) fn service_of(
        self: Arc<Front>,
        peer: SocketAddr,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response,
        Error = Infallible,
        Future: Future<Output = Result<Response, Infallible>> + Send,
    > {
        let known = self.links.peer(peer.ip());
        // A request counts a reference to its own connection: all threads would change the count of one that they share.
        let connection = Arc::new(Connection { front: self, peer, known });
        service_fn(move |request| {
            let connection = connection.clone();
            async move { Ok(connection.answer(request).await) }
        })
    }

    /// Boxed, because the future of a redirect would be as large otherwise.
    fn route(
        &self,
        mut request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response> + Send + use<> {
        request.extensions_mut().insert(ConnectInfo(peer));
        let routed = self.router.clone().call(request.map(Body::new));
        Box::pin(async move { routed.await.unwrap_or_else(|never| match never {}) })
    }
}

/// One connection, and what is known of its client.
struct Connection {
    front: Arc<Front>,
    peer: SocketAddr,
    known: Peer,
}

impl Connection {
    async fn answer(&self, request: Request<Incoming>) -> Response {
        let (parts, body) = request.into_parts();
        let Front { links, .. } = &*self.front;
        match slug_of(&parts) {
            Some(slug) => {
                let (query, headers) = (parts.uri.query(), &parts.headers);
                let visitor = links.visitor(headers, self.known);
                let mut response = redirect::answer(links, slug, query, Some(&visitor)).await;
                headers::add_common_headers(&mut response, links.are_crawlable());
                response
            }
            None => self.front.route(Request::from_parts(parts, body), self.peer).await,
        }
    }
}

/// The slug of a request that needs no check of the guard.
fn slug_of(request: &Parts) -> Option<&str> {
    let slug = request.uri.path().strip_prefix('/').filter(|_| request.method == Method::GET)?;
    let is_redirect = slug::can_be_slug(slug) && !slug::is_reserved(slug);
    (is_redirect && check_single_host(&request.uri, &request.headers).is_ok()).then_some(slug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_of_a_slug_with_one_host_bypasses_the_router() {
        let slug = |method: Method, target: &str, hosts: &[&str]| {
            let request = Request::builder().method(method).uri(target);
            let request = hosts.iter().fold(request, |request, host| request.header("host", *host));
            slug_of(&request.body(()).unwrap().into_parts().0).map(str::to_owned)
        };
        assert_eq!(slug(Method::GET, "/a-B_9?q=/x", &["h"]).as_deref(), Some("a-B_9"));
        assert_eq!(slug(Method::GET, "http://h/a", &["h"]).as_deref(), Some("a"));
        for method in [Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(slug(method.clone(), "/a", &["h"]), None, "{method}");
        }
        for target in
            ["/", "/?a", "//a", "/a/", "/a/b", "/%61", "/a.b", "/healthz", "/Api", "/static/app.js", "*"]
        {
            assert_eq!(slug(Method::GET, target, &["h"]), None, "{target}");
        }
        assert_eq!(slug(Method::GET, "/a", &["h", "g"]), None);
        assert_eq!(slug(Method::GET, "http://h/a", &["g"]), None);
    }
}
