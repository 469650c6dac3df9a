//! The service behind the cache: gets a response from one of the origins.

use crate::config::origin_url::{OriginUrl, Scheme};
use crate::config::{Config, ms};
use crate::error::ProxyError;
use crate::fields::{hop_by_hop, via};
use crate::origin::attempt::{Limits, Origin, RequestHead};
use crate::origin::connect::Connector;
use crate::origin::health::Health;
use crate::origin::lender::Lender;
use crate::origin::origin_error::OriginError;
use crate::origin::request_body::RequestBody;
use crate::origin::response_body::OriginBody;
use crate::origin::tls::OriginTls;
use crate::stats::OriginStats;
use http::header::UPGRADE;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tower_service::Service;

/// An extension of a request that asks the origin to switch to a protocol.
#[derive(Clone, Debug)]
pub(crate) struct AskedUpgrade(pub(crate) HeaderValue);

/// All origins. Cheap to clone. The responses have no fields of their connection, and `Via`.
#[derive(Clone, Debug)]
pub(crate) struct Origins(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    origins: Vec<Origin>,
    health: Health,
    preserve_host: bool,
}

impl Origins {
    /// The origins of a configuration. None is connected to.
    ///
    /// # Errors
    /// A URL is invalid, or the roots for `https` cannot be read.
    pub(crate) fn new(config: &Config) -> Result<Origins, ProxyError> {
        let limits = Limits {
            max_requests: config.max_origin_requests,
            connect: ms(config.connect_timeout_ms),
            response: ms(config.response_timeout_ms),
            body: ms(config.body_timeout_ms),
        };
        let urls = config.origins()?;
        let is_encrypted = |url: &OriginUrl| url.scheme == Scheme::Https;
        let any_encrypted = urls.iter().any(is_encrypted);
        let tls = any_encrypted.then(|| OriginTls::load(config.origin_roots.as_deref())).transpose()?;
        let mut origins = Vec::new();
        for url in urls {
            let tls = tls.clone().filter(|_| is_encrypted(&url));
            let connector = Connector::new(&url, tls, limits.connect, config.max_head_bytes);
            let connector = connector.map_err(|expected| ProxyError::Config {
                field: "origin",
                value: url.to_string(),
                expected: expected.to_owned(),
            })?;
            origins.push(Origin::new(url, connector, limits));
        }
        let health = Health::new(origins.len());
        Ok(Origins(Arc::new(Shared { origins, health, preserve_host: config.preserve_host })))
    }

    /// The host of a request that names none.
    pub(crate) fn default_host(&self) -> &Authority {
        &self.0.origins[0].url.authority
    }

    /// How often each of them failed, and which do not answer.
    pub(crate) fn stats(&self) -> Vec<OriginStats> {
        let figures = self.0.health.figures(Instant::now());
        let stats = |(origin, (failures, down_for)): (&Origin, _)| OriginStats {
            url: origin.url.to_string(),
            failures,
            down_for,
        };
        self.0.origins.iter().zip(figures).map(stats).collect()
    }
}

impl Shared {
    async fn respond(&self, request: Request<RequestBody>) -> Result<Response<OriginBody>, OriginError> {
        let (parts, body) = request.into_parts();
        let root = || PathAndQuery::from_static("/");
        let head = RequestHead {
            method: parts.method,
            path: parts.uri.path_and_query().cloned().unwrap_or_else(root),
            host: parts.uri.authority().cloned().filter(|_| self.preserve_host),
            headers: parts.headers,
            upgrade: parts.extensions.get::<AskedUpgrade>().map(|AskedUpgrade(protocol)| protocol.clone()),
        };
        let lender = Lender::new(body);
        let mut failed = None;
        for index in self.health.order(Instant::now()) {
            let origin = &self.origins[index];
            let connection = match origin.connection(&head).await {
                Ok(connection) => connection,
                Err(error) => {
                    self.note_failure(index, &error);
                    // Nothing was sent: another origin can have the request, whatever its method.
                    failed = Some(error);
                    continue;
                }
            };
            let response = origin.exchange(connection, head, &lender).await;
            match &response {
                Ok(_) if self.health.succeeded(index) => {
                    tracing::info!(origin = %origin.url, "the origin answers again")
                }
                Ok(_) => {}
                Err(error) => self.note_failure(index, error),
            }
            return response.map(cleaned);
        }
        Err(failed.expect("there is an origin to try"))
    }

    fn note_failure(&self, index: usize, error: &OriginError) {
        let origin = &self.origins[index].url;
        if !error.is_of_origin() {
            tracing::debug!(%origin, %error, "a request failed");
            return;
        }
        // What follows the first failure in a row says nothing new.
        match self.health.failed(index, Instant::now()) {
            (1, _) => tracing::warn!(%origin, %error, "the origin does not answer"),
            (_, Some(pause)) if self.origins.len() > 1 => {
                tracing::warn!(%origin, %error, pause_ms = pause.as_millis() as u64, "the origin is left out");
            }
            _ => tracing::debug!(%origin, %error, "the origin does not answer"),
        }
    }
}

/// The response without what belongs to the connection of the origin.
fn cleaned(mut response: Response<OriginBody>) -> Response<OriginBody> {
    let version = std::mem::replace(response.version_mut(), Version::HTTP_11);
    let is_switch = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let protocol = response.headers().get(UPGRADE).filter(|_| is_switch).cloned();
    let headers = response.headers_mut();
    hop_by_hop::remove_from_response(headers);
    via::add_to_response(headers, version);
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
    response
}

impl Service<Request<RequestBody>> for Origins {
    type Response = Response<OriginBody>;
    type Error = OriginError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<OriginBody>, OriginError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move { shared.respond(request).await })
    }
}
