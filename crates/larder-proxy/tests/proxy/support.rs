//! Proxies, origins and clients of the tests.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use larder_http::HttpCache;
use larder_proxy::{Config, Proxy, ProxyCache};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than any test needs: what exceeds it hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A proxy that serves.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) proxy: Proxy,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Asks it to stop.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        let _ = self.stop.send(());
        self.task
    }

    /// What it sends for these bytes, until it closes the connection.
    pub(crate) async fn exchange(&self, bytes: impl AsRef<[u8]>) -> String {
        exchange(self.address, bytes).await
    }

    /// What it sends for a GET.
    pub(crate) async fn get(&self, path: &str) -> String {
        self.exchange(get(path)).await
    }

    /// The cache of a proxy that shares nothing.
    pub(crate) fn cache(&self) -> &HttpCache {
        match self.proxy.cache() {
            ProxyCache::Alone(cache) => cache,
            ProxyCache::Shared { .. } => panic!("it has replicas"),
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// The options of a proxy for these origins.
pub(crate) fn config<O: ToString>(origins: impl IntoIterator<Item = O>) -> Config {
    let origin = origins.into_iter().map(|origin| match origin.to_string() {
        url if url.contains("://") => url,
        address => format!("http://{address}"),
    });
    Config { origin: origin.collect(), ..Config::default() }
}

/// Starts a proxy.
pub(crate) async fn start(config: Config) -> Running {
    let proxy = Proxy::new(config).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let served = proxy.clone();
    let task = tokio::spawn(async move { served.serve(listener, async { _ = stopped.await }).await });
    Running { address, proxy, stop, task }
}

/// Starts a proxy for one origin.
pub(crate) async fn in_front_of(origin: SocketAddr) -> Running {
    start(config([origin])).await
}

/// A GET on a connection of its own.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")
}

/// What a server sends for these bytes until it closes the connection.
pub(crate) async fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_ref()).await.unwrap();
    read_to_end(&mut stream).await
}

/// What is left on a connection, until it is closed or reset.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = timeout(LIMIT, stream.read_to_end(&mut answer)).await;
    match read.expect("the connection is closed in time") {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads until the text is there. Returns all that was read.
pub(crate) async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        loop {
            if String::from_utf8_lossy(&read).contains(text) {
                return;
            }
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the end came before {text:?}: {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&buffer[..count]);
        }
    };
    timeout(LIMIT, reading).await.unwrap_or_else(|_| panic!("{text:?} did not come"));
    String::from_utf8_lossy(&read).into_owned()
}

/// The lines of a field in a message, in the order of the message.
pub(crate) fn values<'a>(message: &'a str, name: &str) -> Vec<&'a str> {
    let head = message.split("\r\n\r\n").next().unwrap();
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

pub(crate) type TestBody = BoxBody<Bytes, Infallible>;

pub(crate) fn full(text: impl Into<Bytes>) -> TestBody {
    Full::new(text.into()).boxed()
}

/// An origin of HTTP/1.1 and HTTP/2.
pub(crate) struct HttpOrigin {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl HttpOrigin {
    pub(crate) async fn start<F>(
        handler: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    ) -> HttpOrigin
    where
        F: Future<Output = Response<TestBody>> + Send + 'static,
    {
        HttpOrigin::at("127.0.0.1:0".parse().unwrap(), handler).await
    }

    /// An origin at an address that is free.
    pub(crate) async fn at<F>(
        address: SocketAddr,
        handler: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    ) -> HttpOrigin
    where
        F: Future<Output = Response<TestBody>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (accepted, received) = (connections.clone(), requests.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::SeqCst);
                let (handler, received) = (handler.clone(), received.clone());
                let service = service_fn(move |request| {
                    received.fetch_add(1, Ordering::SeqCst);
                    let response = handler(request);
                    async move { Ok::<_, Infallible>(response.await) }
                });
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                });
            }
        });
        HttpOrigin { address, connections, requests }
    }

    /// An origin that responds to every request with a text.
    pub(crate) async fn saying(text: &'static str) -> HttpOrigin {
        HttpOrigin::start(move |_| async move { Response::new(full(text)) }).await
    }

    /// An origin that responds with the head of the request as it got it, one field in each line.
    pub(crate) async fn echo() -> HttpOrigin {
        HttpOrigin::start(|request: Request<Incoming>| async move {
            let mut text = format!("{} {} {:?}\r\n", request.method(), request.uri(), request.version());
            for (name, value) in request.headers() {
                text += &format!("{name}: {}\r\n", value.to_str().unwrap());
            }
            let body = request.into_body().collect().await.unwrap();
            let trailers = body.trailers().cloned().unwrap_or_default();
            text += &format!("\r\n{}", String::from_utf8_lossy(&body.to_bytes()));
            for (name, value) in &trailers {
                text += &format!("[{name}: {}]", value.to_str().unwrap());
            }
            Response::new(full(text))
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// An origin whose connections a test handles itself, byte by byte.
pub(crate) async fn raw_origin<F>(handler: impl Fn(TcpStream, usize) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for index in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(handler(stream, index));
        }
    });
    address
}

/// An origin that sends these bytes on each connection once it has a head, and closes it.
pub(crate) async fn origin_sending(bytes: impl Into<Bytes>) -> SocketAddr {
    let bytes = bytes.into();
    raw_origin(move |mut stream, _| {
        let bytes = bytes.clone();
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

/// An origin that accepts connections and sends nothing.
pub(crate) async fn silent_origin() -> SocketAddr {
    raw_origin(|stream, _| async move {
        let _stream = stream;
        std::future::pending().await
    })
    .await
}

/// An address at which nobody listens.
pub(crate) async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// A connection of HTTP/2 to a server that knows it.
pub(crate) async fn http2(address: SocketAddr) -> hyper::client::conn::http2::SendRequest<TestBody> {
    let stream = TcpStream::connect(address).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    sender
}

/// The pseudo-fields of `GET http://a/`, as indices of the static table and one literal (RFC 7541, section 6).
pub(crate) const HTTP2_GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 0x01, b'a'];

/// A frame of HTTP/2 (RFC 9113, section 4.1).
pub(crate) fn http2_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The kind and the payload of the next frame; `None` at the end of the connection.
pub(crate) async fn read_http2_frame(stream: &mut (impl AsyncRead + Unpin)) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    stream.read_exact(&mut payload).await.ok()?;
    Some((head[3], payload))
}

/// The text of a body.
pub(crate) async fn text(response: Response<Incoming>) -> String {
    String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes()).into_owned()
}

/// Waits until the condition holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, waiting).await.expect("the condition holds in time");
}

/// Asks for `/` until the answer is as expected, and returns that.
pub(crate) async fn get_until(proxy: &Running, is_expected: impl Fn(&str) -> bool) -> String {
    let asking = async {
        loop {
            let answer = proxy.get("/").await;
            if is_expected(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LIMIT, asking).await.expect("an answer is as expected in time")
}
