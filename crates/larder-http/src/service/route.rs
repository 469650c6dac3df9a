//! The route of a request, by which its hits are counted: few names, where paths are many.
//!
//! axum matches the path inside of its router. A layer there sees the match in each request. One in front of the router sees
//! it in none, so a second layer inside notes it for the stored response.

#[cfg(feature = "axum")]
use axum::extract::MatchedPath;
use http::Extensions;
#[cfg(feature = "axum")]
use {
    crate::policy::ctx::CacheCtx,
    http::Request,
    std::task::{Context, Poll},
    tower_layer::Layer,
    tower_service::Service,
};

use crate::stored::entry::StoredResponse;

/// The label of a response that names its route.
const LABEL: &str = "route";

/// The route of a hit: as axum has matched it for this request or for the stored response, or else by its label.
#[cfg_attr(not(feature = "axum"), expect(unused_variables, reason = "only axum puts routes into requests"))]
pub(crate) fn route_of<'a>(request: &'a Extensions, stored: &'a StoredResponse) -> Option<&'a str> {
    #[cfg(feature = "axum")]
    if let Some(route) = request.get::<MatchedPath>().or(stored.route()) {
        return Some(route.as_str());
    }
    stored.labels().get(LABEL)
}

/// Notes the route of each request that reaches it for the cache in front of the router.
#[cfg(feature = "axum")]
#[derive(Clone, Copy)]
pub(crate) struct NoteRoute;

#[cfg(feature = "axum")]
impl<S> Layer<S> for NoteRoute {
    type Service = RouteNoted<S>;

    fn layer(&self, inner: S) -> RouteNoted<S> {
        RouteNoted(inner)
    }
}

/// A service whose requests tell the cache their route.
#[cfg(feature = "axum")]
#[derive(Clone)]
pub(crate) struct RouteNoted<S>(S);

#[cfg(feature = "axum")]
impl<S: Service<Request<B>>, B> Service<Request<B>> for RouteNoted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let extensions = request.extensions();
        if let (Some(route), Some(ctx)) = (extensions.get::<MatchedPath>(), extensions.get::<CacheCtx>()) {
            ctx.set_route(route.clone());
        }
        self.0.call(request)
    }
}
