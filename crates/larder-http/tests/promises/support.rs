//! A site behind a cache: a handler that counts its calls, a manual clock, and responses with their bodies.

use std::convert::Infallible;
use std::future::Future;
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
use larder_http::{
    BoxError, Builder, Cached, Clock, HttpCache, HttpCacheService, ManualClock, Outcome, Profile,
};
use tokio::sync::mpsc;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

pub(crate) type TestBody = BoxBody<Bytes, io::Error>;
pub(crate) type Reply = Response<TestBody>;
type Handler = BoxCloneSyncService<Request<String>, Reply, Infallible>;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Site {
    pub(crate) cache: HttpCache,
    pub(crate) clock: ManualClock,
    pub(crate) service: HttpCacheService<Handler>,
    calls: Arc<AtomicUsize>,
}

impl Site {
    /// A site whose handler gets the request and the number of the call, starting at 1.
    pub(crate) fn new<F>(handler: impl Fn(Request<String>, usize) -> F + Send + Sync + 'static) -> Site
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        Site::with(|builder| builder, handler)
    }

    pub(crate) fn with<F>(
        options: impl FnOnce(Builder) -> Builder,
        handler: impl Fn(Request<String>, usize) -> F + Send + Sync + 'static,
    ) -> Site
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let (clock, manual_clock) = Clock::manual();
        let cache = options(HttpCache::builder().clock(clock)).build().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let (counter, handler) = (calls.clone(), Arc::new(handler));
        let inner = service_fn(move |request| {
            let call = counter.fetch_add(1, Ordering::SeqCst) + 1;
            let reply = handler(request, call);
            async move { Ok(reply.await) }
        });
        let service = cache.layer().layer(BoxCloneSyncService::new(inner));
        Site { cache, clock: manual_clock, service, calls }
    }

    /// A site whose body is the number of the call, cached for a minute.
    pub(crate) fn counting() -> Site {
        Site::new(|_, call| async move { cached(call.to_string()) })
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) async fn get(&self, target: &str) -> CollectedResponse {
        self.send(get(target, &[])).await
    }

    pub(crate) async fn send(&self, request: Request<String>) -> CollectedResponse {
        CollectedResponse::read(self.service.clone().oneshot(request).await.unwrap()).await.unwrap()
    }
}

#[derive(Debug)]
pub(crate) struct CollectedResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) outcome: Outcome,
}

impl CollectedResponse {
    pub(crate) async fn read(
        response: Response<larder_http::Body<TestBody>>,
    ) -> Result<CollectedResponse, BoxError> {
        let (head, body) = response.into_parts();
        let outcome = body.outcome().expect("every response has an outcome");
        let body = body.collect().await?.to_bytes();
        Ok(CollectedResponse { status: head.status, headers: head.headers, body, outcome })
    }

    /// `Cache-Status`, without the name of the cache.
    pub(crate) fn cache_status(&self) -> &str {
        self.headers["cache-status"].to_str().unwrap().strip_prefix("larder; ").unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A request for `http://site.example` + target.
pub(crate) fn get(target: &str, fields: &[(&str, &str)]) -> Request<String> {
    request("GET", target, fields)
}

pub(crate) fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> Request<String> {
    let mut request = Request::builder().method(method).uri(target).header("host", "site.example");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(String::new()).unwrap()
}

/// A 200 whose handler does not opt in.
pub(crate) fn plain(body: impl Into<Bytes>) -> Reply {
    Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed())
}

/// A 200 that is cached for a minute.
pub(crate) fn cached(body: impl Into<Bytes>) -> Reply {
    with_cached(plain(body), Cached::ttl(MINUTE))
}

pub(crate) fn with_cached(mut reply: Reply, settings: Cached) -> Reply {
    reply.extensions_mut().insert(settings);
    reply
}

pub(crate) fn field(mut reply: Reply, name: &'static str, value: &str) -> Reply {
    reply.headers_mut().append(name, value.parse().unwrap());
    reply
}

/// A site in front of which the fields of its responses decide.
pub(crate) fn site<F>(handler: impl Fn(Request<String>, usize) -> F + Send + Sync + 'static) -> Site
where
    F: Future<Output = Reply> + Send + 'static,
{
    Site::with(|builder| builder.profile(Profile::Rfc), handler)
}

/// A 200 with these fields.
pub(crate) fn reply_with(body: impl ToString, fields: &[(&'static str, &str)]) -> Reply {
    fields.iter().fold(plain(body.to_string()), |reply, (name, value)| field(reply, name, value))
}

pub(crate) fn not_modified(fields: &[(&'static str, &str)]) -> Reply {
    status(304, reply_with("", fields))
}

pub(crate) fn status(status: u16, mut reply: Reply) -> Reply {
    *reply.status_mut() = StatusCode::from_u16(status).unwrap();
    reply
}

pub(crate) type Part = Result<Frame<Bytes>, io::Error>;

/// A body whose frames arrive through a channel.
pub(crate) struct Streamed(pub(crate) mpsc::UnboundedReceiver<Part>);

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        self.0.poll_recv(cx)
    }
}

pub(crate) fn data(text: &'static str) -> Part {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

/// A sender for the frames of the next replies.
pub(crate) type Replies = mpsc::UnboundedSender<mpsc::UnboundedReceiver<Part>>;

/// A site that stores bodies of up to 10 bytes, and a sender for the frames of its next replies.
pub(crate) fn streaming(length: Option<&'static str>) -> (Site, Replies) {
    streaming_with(|builder| builder.max_body_bytes(10), length)
}

pub(crate) fn streaming_with(
    options: impl FnOnce(Builder) -> Builder,
    length: Option<&'static str>,
) -> (Site, Replies) {
    let (replies, queue) = mpsc::unbounded_channel::<mpsc::UnboundedReceiver<Part>>();
    let queue = Arc::new(tokio::sync::Mutex::new(queue));
    let site = Site::with(options, move |_, _| {
        let queue = queue.clone();
        async move {
            let frames = queue.lock().await.recv().await.unwrap();
            let reply = cached("").map(|_| Streamed(frames).boxed());
            match length {
                Some(length) => field(reply, "content-length", length),
                None => reply,
            }
        }
    });
    (site, replies)
}

/// All frames of a reply, ready at once.
pub(crate) fn reply(frames: Vec<Part>) -> mpsc::UnboundedReceiver<Part> {
    let (sender, receiver) = mpsc::unbounded_channel();
    frames.into_iter().for_each(|frame| sender.send(frame).unwrap());
    receiver
}

/// Waits until so many responses are stored: that of a long body is stored after it was sent.
pub(crate) async fn stores(site: &Site, count: u64) {
    let stored = async {
        while site.cache.stats().stores < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SECOND * 10, stored).await.expect("they are stored soon");
}

/// Yields until every other task waits for something.
pub(crate) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// The URL of a Redis that does not exist.
pub(crate) fn closed_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("redis://{}", listener.local_addr().unwrap())
}
