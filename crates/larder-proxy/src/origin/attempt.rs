//! One origin, and one attempt to get a response from it.

use crate::config::origin_url::{self, OriginUrl};
use crate::origin::connect::{Connected, Connector, Protocols};
use crate::origin::lender::{Lender, LentBody, Progress};
use crate::origin::origin_error::OriginError;
use crate::origin::pool::Pool;
use crate::origin::response_body::{Lease, OriginBody};
use http::header::{CONNECTION, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use hyper::body::Incoming;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The bytes that a client has to send of a body in each second, on average. It would hold a place among the requests of the
/// origin for as long as it likes otherwise, by a byte from time to time.
const MIN_BYTES_PER_SECOND: u64 = 500;

/// The limits of each request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_requests: usize,
    /// For a connection, and for a place among the requests.
    pub(super) connect: Duration,
    /// For the head of the response.
    pub(super) response: Duration,
    /// For each frame of its body.
    pub(super) body: Duration,
}

/// One origin.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) url: OriginUrl,
    connector: Connector,
    pool: Arc<Pool>,
    permits: Arc<Semaphore>,
    limits: Limits,
}

/// The head of a request, for as many attempts as it needs.
#[derive(Clone, Debug)]
pub(super) struct RequestHead {
    pub(super) method: Method,
    pub(super) path: PathAndQuery,
    /// The host to ask for; `None` for that of the origin.
    pub(super) host: Option<Authority>,
    pub(super) headers: HeaderMap,
    /// The protocol to switch to.
    pub(super) upgrade: Option<HeaderValue>,
}

/// A connection for one request.
pub(super) struct Connection {
    permit: OwnedSemaphorePermit,
    connected: Connected,
    /// Whether other requests had it before: the origin may have closed it meanwhile.
    is_reused: bool,
}

/// A failed attempt.
struct Failure {
    error: OriginError,
    /// The origin has sent nothing on a connection that others had before.
    is_repeatable: bool,
}

impl Origin {
    pub(super) fn new(url: OriginUrl, connector: Connector, limits: Limits) -> Origin {
        let permits = Arc::new(Semaphore::new(limits.max_requests));
        Origin { url, connector, pool: Arc::default(), permits, limits }
    }

    /// A connection for a request: an open one, or a new one.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing open.
    pub(super) async fn connection(&self, head: &RequestHead) -> Result<Connection, OriginError> {
        let permit = timeout(self.limits.connect, self.permits.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(OriginError::Busy(self.limits.max_requests)) };
        while let Some(mut connected) = self.pool.take(protocols(head)) {
            // It was returned when its response had ended; hyper needs a moment more.
            let is_ready = match &mut connected {
                Connected::Http1(sender) => timeout(self.limits.connect, sender.requests.ready()).await,
                Connected::Http2(sender) => timeout(self.limits.connect, sender.ready()).await,
            };
            if matches!(is_ready, Ok(Ok(()))) {
                return Ok(Connection { permit, connected, is_reused: true });
            }
        }
        self.connect(head, permit).await
    }

    async fn connect(
        &self,
        head: &RequestHead,
        permit: OwnedSemaphorePermit,
    ) -> Result<Connection, OriginError> {
        let connected = self.connector.connect(protocols(head)).await?;
        if let Connected::Http2(sender) = &connected {
            self.pool.share(sender);
        }
        Ok(Connection { permit, connected, is_reused: false })
    }

    /// Sends the request. If an open connection was closed before any byte of a response, a request without a body whose
    /// method is idempotent is sent once more, on a new connection (RFC 9110, section 9.2.2).
    ///
    /// # Cancel safety
    /// A dropped call closes the connection of HTTP/1.1, or resets the stream of HTTP/2.
    pub(super) async fn exchange(
        &self,
        connection: Connection,
        head: RequestHead,
        lender: &Lender,
    ) -> Result<Response<OriginBody>, OriginError> {
        let may_repeat = connection.is_reused && head.method.is_idempotent() && lender.is_empty();
        let again = may_repeat.then(|| head.clone());
        match (self.attempt(connection, head, lender).await, again) {
            (Ok(response), _) => Ok(response),
            (Err(Failure { is_repeatable: true, error }), Some(head)) => {
                tracing::debug!(origin = %self.url, %error, "an open connection was closed, the request is repeated");
                let permit = timeout(self.limits.connect, self.permits.clone().acquire_owned()).await;
                let Ok(Ok(permit)) = permit else { return Err(error) };
                let connection = self.connect(&head, permit).await?;
                self.attempt(connection, head, lender).await.map_err(|failure| failure.error)
            }
            (Err(failure), _) => Err(failure.error),
        }
    }

    async fn attempt(
        &self,
        connection: Connection,
        head: RequestHead,
        lender: &Lender,
    ) -> Result<Response<OriginBody>, Failure> {
        let Connection { permit, connected, is_reused } = connection;
        let is_upgrade = head.upgrade.is_some();
        let (sender, response) = match connected {
            Connected::Http1(mut sender) => {
                sender.received.clear();
                let sent = sender.requests.send_request(self.http1_request(head, lender.lend()));
                let response = self.response(sent, lender).await;
                let is_repeatable = is_reused && !sender.received.is_any();
                let response = response
                    .map_err(|error| Failure { is_repeatable: is_repeatable && error.is_closed(), error })?;
                (Some(sender), response)
            }
            Connected::Http2(mut sender) => {
                let sent = sender.send_request(self.http2_request(head, lender.lend()));
                let response = self.response(sent, lender).await;
                let response = response
                    .map_err(|error| Failure { is_repeatable: is_reused && error.is_unprocessed(), error })?;
                (None, response)
            }
        };
        let lease = Lease { _permit: permit, pool: self.pool.clone(), sender, lender: lender.clone() };
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS if !is_upgrade => {
                Err(Failure { error: OriginError::UnaskedUpgrade, is_repeatable: false })
            }
            StatusCode::SWITCHING_PROTOCOLS => {
                Ok(response.map(|body| OriginBody::of_upgrade(body, self.limits.body, lease)))
            }
            _ => Ok(response.map(|body| OriginBody::new(body, self.limits.body, lease))),
        }
    }

    /// Waits for the head of the response. There is no deadline while the body of the request moves: while the origin takes
    /// any of it, and the client sends it fast enough.
    async fn response(
        &self,
        sent: impl Future<Output = hyper::Result<Response<Incoming>>>,
        lender: &Lender,
    ) -> Result<Response<Incoming>, OriginError> {
        let limit = self.limits.response;
        let min_bytes = (limit.as_millis() as u64 * MIN_BYTES_PER_SECOND / 1_000).max(1);
        let mut sent = pin!(sent);
        loop {
            let before = lender.bytes();
            match timeout(limit, &mut sent).await {
                Ok(response) => return response.map_err(OriginError::of_exchange),
                Err(_) => match (lender.progress(), lender.bytes() - before) {
                    (Progress::AwaitsClient, sent) if sent < min_bytes => {
                        return Err(OriginError::RequestBodyTimeout { min_bytes, limit });
                    }
                    (_, 0) => return Err(OriginError::ResponseTimeout(limit)),
                    _ => {}
                },
            }
        }
    }

    fn http1_request(&self, head: RequestHead, body: LentBody) -> Request<LentBody> {
        let RequestHead { method, path, host, mut headers, upgrade } = head;
        let own_host = || self.url.host_value.clone();
        // An authority is a valid value.
        let host =
            host.map_or_else(own_host, |host| HeaderValue::from_str(host.as_str()).unwrap_or(own_host()));
        headers.insert(HOST, host);
        if headers.contains_key(TE) {
            // RFC 9110, section 10.1.4.
            headers.append(CONNECTION, HeaderValue::from_static("te"));
        }
        if let Some(protocol) = upgrade {
            headers.append(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol);
        }
        // hyper would send no body with a GET otherwise.
        if !body.is_end_stream() && body.size_hint().exact().is_none() {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        request(method, Uri::from(path), headers, body)
    }

    fn http2_request(&self, head: RequestHead, body: LentBody) -> Request<LentBody> {
        let RequestHead { method, path, host, mut headers, upgrade: _ } = head;
        headers.remove(HOST);
        let mut parts = http::uri::Parts::default();
        let is_encrypted = self.url.scheme == origin_url::Scheme::Https;
        parts.scheme = Some(if is_encrypted { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(host.unwrap_or_else(|| self.url.authority.clone()));
        parts.path_and_query = Some(path);
        request(method, Uri::from_parts(parts).expect("it has all parts"), headers, body)
    }
}

impl OriginError {
    fn is_closed(&self) -> bool {
        matches!(self, OriginError::Closed(_))
    }
}

fn protocols(head: &RequestHead) -> Protocols {
    if head.upgrade.is_some() { Protocols::Http1 } else { Protocols::Any }
}

fn request(method: Method, uri: Uri, headers: HeaderMap, body: LentBody) -> Request<LentBody> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}
