//! What the proxy does with a request: it refuses it, answers it itself, tunnels it, or asks the cache.

mod body;
mod error_response;
mod own_response;
mod ruled_origins;
mod tunnel;

pub(crate) use body::ProxyBody;
pub(crate) use tunnel::ClientConnection;

use crate::fields::arrival::Arrival;
use crate::fields::forwarded::Peer;
use crate::fields::max_forwards::{self, Forwarding};
use crate::fields::refusal::Refusal;
use crate::fields::via::Pseudonym;
use crate::fields::{cookies, framing, hop_by_hop, target, websocket};
use crate::gate::GateProgress;
use crate::origin::Origins;
use crate::origin::origin_error::OriginError;
use crate::origin::request_body::RequestBody;
use crate::replicas::ProxyCache;
use crate::rules::{Rule, Rules};
use crate::service::ruled_origins::RuledOrigins;
use crate::stats::OriginStats;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use larder_engine::stats::Counter;
use larder_http::{BodyRule, BodyRules, HttpCacheService};
use std::sync::Arc;
use tower_layer::Layer;
use tower_service::Service;

/// Answers the requests of all connections. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ProxyService(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cached: HttpCacheService<RuledOrigins>,
    /// For rules of GraphQL endpoints.
    graphql: HttpCacheService<RuledOrigins, BodyRules>,
    origins: RuledOrigins,
    rules: Rules,
    responses: Counter,
    /// Those whose status is 500 or above.
    server_errors: Counter,
}

/// Where a request goes.
enum Route {
    /// To the cache, and from there to an origin.
    Cache,
    /// To an origin, which is asked to switch to a protocol.
    Upgrade(HeaderValue),
    /// The same for a client of HTTP/2, which has asked for WebSocket.
    WebSocket,
    /// The proxy is its last recipient.
    Here,
}

impl ProxyService {
    pub(crate) fn new(
        cache: &ProxyCache,
        origins: Origins,
        rules: Rules,
        pseudonym: Pseudonym,
    ) -> ProxyService {
        let origins = RuledOrigins { unruled: origins, pseudonym };
        let cached = cache.layer().layer(origins.clone());
        let body_rules = rules
            .graphql_paths()
            .fold(BodyRules::new(), |body_rules, path| body_rules.route(path, BodyRule::graphql()));
        let graphql = cache.layer().body_rules(body_rules).layer(origins.clone());
        let (responses, server_errors) = (Counter::new(), Counter::new());
        ProxyService(Arc::new(Shared { cached, graphql, origins, rules, responses, server_errors }))
    }

    /// The response to a request, which is counted.
    ///
    /// # Cancel safety
    /// A dropped call leaves what the cache does for other clients.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &ClientConnection,
    ) -> Response<ProxyBody> {
        let response = self.response(request, connection).await;
        self.0.responses.add(1);
        if response.status().is_server_error() {
            self.0.server_errors.add(1);
        }
        response
    }

    /// The responses that clients got, and those of them that are server errors.
    pub(crate) fn response_counts(&self) -> (u64, u64) {
        (self.0.responses.get(), self.0.server_errors.get())
    }

    /// How often each origin failed, and which do not answer.
    pub(crate) fn origin_stats(&self) -> Vec<OriginStats> {
        self.0.origins.unruled.stats()
    }

    async fn response(
        &self,
        request: Request<Incoming>,
        connection: &ClientConnection,
    ) -> Response<ProxyBody> {
        let (mut head, body) = request.into_parts();
        let (method, version, has_body) = (head.method.clone(), head.version, !body.is_end_stream());
        let (route, arrival) = match self.prepare(&mut head, has_body, &connection.peer) {
            Ok(prepared) => prepared,
            Err(refusal) => return error_response::of_refusal(refusal, version),
        };
        head.extensions.insert(arrival);
        let mut request = Request::from_parts(head, RequestBody::of_client(body));
        let rule = self.0.rules.find(request.uri());
        if let Some(rule) = rule {
            self.attach(rule, &mut request);
        }
        match route {
            Route::Here => own_response::of(&request),
            Route::Upgrade(protocol) => {
                let response = tunnel::open(self.0.origins.clone(), request, protocol, connection).await;
                response.unwrap_or_else(|error| error_response::of_origin(&method, &error))
            }
            Route::WebSocket => {
                let response = tunnel::open_websocket(self.0.origins.clone(), request, connection).await;
                response.unwrap_or_else(|error| error_response::of_origin(&method, &error))
            }
            Route::Cache => {
                let response = self.forward(request, rule.map(|rule| &**rule)).await;
                response.unwrap_or_else(|error| error_response::of_origin(&method, &error))
            }
        }
    }

    /// The response of the cache or, if its rule says so, of an origin.
    async fn forward(
        &self,
        request: Request<RequestBody>,
        rule: Option<&Rule>,
    ) -> Result<Response<ProxyBody>, OriginError> {
        let Shared { cached, graphql, .. } = &*self.0;
        match rule {
            // What an unsafe method invalidates may be beyond the rule.
            Some(rule) if rule.is_bypass && request.method().is_safe() => {
                Ok(cached.bypass(request).await?.map(ProxyBody::cached))
            }
            Some(rule) if rule.graphql_path.is_some() => {
                Ok(graphql.clone().call(request).await?.map(ProxyBody::cached))
            }
            _ => Ok(cached.clone().call(request).await?.map(ProxyBody::cached)),
        }
    }

    /// Checks a request, and makes of its head what an origin gets, but for how it has arrived.
    fn prepare(&self, head: &mut Parts, has_body: bool, peer: &Peer) -> Result<(Route, Arrival), Refusal> {
        let Shared { origins, .. } = &*self.0;
        let is_websocket = websocket::is_connect(head);
        if is_websocket {
            // From here on it is the request of HTTP/1.1 that an origin gets.
            head.method = Method::GET;
        }
        if head.method == Method::CONNECT {
            return Err(Refusal {
                status: StatusCode::METHOD_NOT_ALLOWED,
                reason: "this is no proxy for tunnels to other hosts",
                proxy_error: "http_request_denied",
            });
        }
        if head.method.as_str() == "PURGE" {
            return Err(Refusal {
                status: StatusCode::METHOD_NOT_ALLOWED,
                reason: "purges are for the admin port",
                proxy_error: "http_request_denied",
            });
        }
        if origins.pseudonym.is_loop(&head.headers) {
            return Err(Refusal {
                status: StatusCode::LOOP_DETECTED,
                reason: "the request came back to this proxy: the origin is the proxy itself, or sends requests to it",
                proxy_error: "proxy_loop_detected",
            });
        }
        framing::check(&mut head.headers, head.version)?;
        let scheme = peer.scheme(&head.headers);
        target::make_absolute(
            &mut head.uri,
            &mut head.headers,
            head.version,
            scheme.clone(),
            origins.unruled.default_host(),
        )?;
        let may_upgrade = head.version == Version::HTTP_11 && head.method == Method::GET && !has_body;
        let upgrade = hop_by_hop::upgrade_of(&head.headers).filter(|_| may_upgrade);
        hop_by_hop::remove_from_request(&mut head.headers);
        peer.remove_claims(&mut head.headers);
        cookies::join(&mut head.headers);
        let arrival = Arrival { peer: *peer, scheme, version: head.version };
        let route = match max_forwards::count(&head.method, &mut head.headers) {
            Forwarding::Here => Route::Here,
            Forwarding::Origin if is_websocket => Route::WebSocket,
            Forwarding::Origin => upgrade.map_or(Route::Cache, Route::Upgrade),
        };
        Ok((route, arrival))
    }

    /// Gives a request its rule, for the cache's gate and for its response.
    fn attach(&self, rule: &Arc<Rule>, request: &mut Request<RequestBody>) {
        if rule.is_gated() && rule.credentials.are_in(request.headers()) {
            request.extensions_mut().insert(GateProgress::default());
            // The gate is told too.
            if let Some(arrival) = request.extensions_mut().remove::<Arrival>() {
                arrival.add_to(request.headers_mut(), &self.0.origins.pseudonym);
            }
        }
        request.extensions_mut().insert(rule.clone());
    }
}
