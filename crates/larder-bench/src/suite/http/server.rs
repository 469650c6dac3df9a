//! The servers in this process: one thread each, with axum. They differ in what makes the body of a response.

use super::bodies::{Body, Content, Value};
use super::graphql;
use super::kind::{Kind, TTL};
use crate::measure::clock::thread_cpu;
use anyhow::Result;
use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::ListenerExt;
use bytes::Bytes;
use larder_http::{Cached, HttpCache};
use pin_project_lite::pin_project;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tower::Service;
use tower::make::Shared;

/// Room for one response of every size.
const CACHE_BYTES: u64 = 1 << 30;
/// How many responses the store of misses holds, beside some of the least bytes.
const FULL_RESPONSES: u64 = 8;
const LEAST_BYTES: u64 = 1 << 20;
const MAX_BODY_BYTES: usize = 256 << 20;

impl Kind {
    fn router(self, body: &Body) -> Result<Router> {
        let max_bytes = match self {
            Kind::Full => FULL_RESPONSES * body.size as u64 + LEAST_BYTES,
            _ => CACHE_BYTES,
        };
        let cache = HttpCache::builder().max_bytes(max_bytes).max_body_bytes(MAX_BODY_BYTES).build()?;
        match &body.content {
            Content::Value(value) => Ok(self.value_router(value.clone(), cache)),
            Content::Graphql(query) => graphql::router(self, query, cache),
        }
    }

    fn value_router(self, value: Value, cache: HttpCache) -> Router {
        let json = [("content-type", "application/json")];
        match self {
            Kind::Bare => {
                let bytes = Bytes::from(value.encode());
                Router::new().route("/body", get(async move || (json, bytes)))
            }
            Kind::Encoded => Router::new().route("/body", get(async move || (json, value.encode()))),
            Kind::Cached | Kind::Full => {
                let cached = async move || (Cached::ttl(TTL), json, value.encode()).into_response();
                cache.in_front_of(Router::new().route("/body", get(cached)))
            }
            #[cfg(feature = "bench-peers")]
            Kind::Peer => super::peer::router(value, MAX_BODY_BYTES),
        }
    }
}

/// A server on a thread of its own. Dropping it ends the thread.
pub(super) struct Server {
    address: SocketAddr,
    handle: Handle,
    answered: Arc<Answered>,
    _stop: oneshot::Sender<()>,
}

/// The sum of the times from a request's last byte to the head and body of its response.
#[derive(Default)]
struct Answered {
    requests: AtomicU64,
    nanos: AtomicU64,
}

/// What a server has used since it started.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// The requests, and the sum of the times until their responses are handed to the HTTP implementation.
    pub(super) answered: Option<(u64, Duration)>,
}

impl Server {
    pub(super) fn start(kind: Kind, body: &Body) -> Result<Server> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let (address, handle) = (listener.local_addr()?, runtime.handle().clone());
        let answered = Arc::new(Answered::default());
        let router = kind.router(body)?;
        let service = Shared::new(Timed { inner: router, answered: answered.clone() });
        let (_stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name(kind.subject().to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
                tokio::select! {
                    _ = axum::serve(listener, service) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Server { address, handle, answered, _stop })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn usage(&self) -> Usage {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.handle.spawn(async move { sender.send(thread_cpu()) });
        let cpu = receiver.recv().expect("the server runs until it is dropped");
        let Answered { requests, nanos } = &*self.answered;
        let time = Duration::from_nanos(nanos.load(Ordering::Relaxed));
        Usage { cpu, answered: Some((requests.load(Ordering::Relaxed), time)) }
    }
}

/// Measures the time of each answer: two readings of the clock, the same for every server.
#[derive(Clone)]
struct Timed {
    inner: Router,
    answered: Arc<Answered>,
}

impl Service<Request> for Timed {
    type Response = <Router as Service<Request>>::Response;
    type Error = <Router as Service<Request>>::Error;
    type Future = Answering<<Router as Service<Request>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request>::poll_ready(&mut self.inner, cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let start = Instant::now();
        Answering { inner: self.inner.call(request), start, answered: self.answered.clone() }
    }
}

pin_project! {
    struct Answering<F> {
        #[pin]
        inner: F,
        start: Instant,
        answered: Arc<Answered>,
    }
}

impl<F: Future> Future for Answering<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx));
        this.answered.requests.fetch_add(1, Ordering::Relaxed);
        this.answered.nanos.fetch_add(this.start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Poll::Ready(response)
    }
}
