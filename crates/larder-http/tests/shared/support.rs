//! Replicas: each has its own connections to Redis, its own store, and a handler that counts its calls.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use larder_http::{BoxError, Cached, HttpCache, HttpCacheService, Outcome, SharedBuilder, SharedHttpCache};
use larder_testkit::RedisServer;
use tokio::sync::mpsc::UnboundedReceiver;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// The lag of the replicas.
pub(crate) const LAG: Duration = Duration::from_millis(200);

pub(crate) type Reply = Response<BoxBody<Bytes, io::Error>>;
pub(crate) type Handler = BoxCloneSyncService<Request<String>, Reply, Infallible>;

pub(crate) struct Replica {
    pub(crate) cache: SharedHttpCache,
    pub(crate) redis: larder::Cache,
    pub(crate) service: HttpCacheService<Handler>,
    handler: Handler,
    calls: Arc<AtomicUsize>,
}

impl Replica {
    /// A replica whose handler gets the request and the number of the call, starting at 1.
    pub(crate) fn new<F>(
        url: impl Into<String>,
        handler: impl Fn(Request<String>, usize) -> F + Send + Sync + 'static,
    ) -> Replica
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        Replica::with(url, |redis| redis, |shared| shared, handler)
    }

    pub(crate) fn with<F>(
        url: impl Into<String>,
        redis: impl FnOnce(larder::Builder) -> larder::Builder,
        options: impl FnOnce(SharedBuilder) -> SharedBuilder,
        handler: impl Fn(Request<String>, usize) -> F + Send + Sync + 'static,
    ) -> Replica
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let builder = larder::Cache::builder("site").ttl(MINUTE).redis(url).max_lag(LAG);
        let redis = redis(builder.redis_timeout(Duration::from_secs(5))).build().unwrap();
        let cache = options(HttpCache::builder().shared(redis.shared("http"))).build().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let (counter, handler) = (calls.clone(), Arc::new(handler));
        let inner = service_fn(move |request| {
            let call = counter.fetch_add(1, Ordering::SeqCst) + 1;
            let reply = handler(request, call);
            async move { Ok(reply.await) }
        });
        let handler = BoxCloneSyncService::new(inner);
        let service = cache.layer().layer(handler.clone());
        Replica { cache, redis, service, handler, calls }
    }

    /// So many replicas of one site, whose bodies are the name of the replica and the number of the call, cached for a
    /// minute with the tag `t`.
    pub(crate) fn site<const N: usize>(server: &RedisServer) -> [Replica; N] {
        std::array::from_fn(|name| {
            Replica::new(server.url(), move |_, call| async move { tagged(format!("{name}:{call}")) })
        })
    }

    /// What is behind the layer.
    pub(crate) fn handler(&self) -> Handler {
        self.handler.clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[]).await
    }

    pub(crate) async fn send(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(target).header("host", "site.example");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(String::new()).unwrap();
        let (head, body) = self.service.clone().oneshot(request).await.unwrap().into_parts();
        let outcome = body.outcome().expect("every response has an outcome");
        let body = body.collect().await.expect("a complete body").to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: head.status, headers: head.headers, body, outcome }
    }

    /// The body of a GET.
    pub(crate) async fn body(&self, target: &str) -> String {
        self.get(target).await.body
    }

    /// The head has arrived; the body is to come.
    pub(crate) async fn open(
        &self,
        target: &str,
    ) -> (Outcome, impl Future<Output = Result<String, BoxError>> + use<>) {
        let request = Request::get(target).header("host", "site.example").body(String::new()).unwrap();
        let body = self.service.clone().oneshot(request).await.unwrap().into_body();
        let outcome = body.outcome().expect("every response has an outcome");
        let collected = async move { Ok(String::from_utf8(body.collect().await?.to_bytes().to_vec())?) };
        (outcome, collected)
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) outcome: Outcome,
}

impl Answer {
    /// `Cache-Status`, without the name of the cache.
    pub(crate) fn cache_status(&self) -> &str {
        self.headers["cache-status"].to_str().unwrap().strip_prefix("larder; ").unwrap()
    }
}

/// A body whose frames arrive through a channel.
struct Streamed(UnboundedReceiver<&'static str>);

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|text| text.map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
    }
}

/// The reply with a body whose frames arrive through a channel.
pub(crate) fn streamed(reply: Reply, frames: UnboundedReceiver<&'static str>) -> Reply {
    reply.map(|_| Streamed(frames).boxed())
}

/// A 200 whose handler does not opt in.
pub(crate) fn plain(body: impl Into<Bytes>) -> Reply {
    Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed())
}

/// A 200 with these settings.
pub(crate) fn cached(body: impl Into<Bytes>, settings: Cached) -> Reply {
    let mut reply = plain(body);
    reply.extensions_mut().insert(settings);
    reply
}

/// A 200 that is cached for a minute with the tag `t`.
pub(crate) fn tagged(body: impl Into<Bytes>) -> Reply {
    cached(body, Cached::ttl(MINUTE).tag("t"))
}

pub(crate) fn field(mut reply: Reply, name: &'static str, value: &str) -> Reply {
    reply.headers_mut().append(name, value.parse().unwrap());
    reply
}
