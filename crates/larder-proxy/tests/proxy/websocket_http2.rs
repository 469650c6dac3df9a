//! WebSocket over HTTP/2 (RFC 8441): one connection of a client carries several tunnels, and its requests; for an origin each tunnel
//! is the upgrade of HTTP/1.1 that it knows.

use crate::support::*;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, HeaderValue, MAX_FORWARDS, SEC_WEBSOCKET_ACCEPT, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::ext::Protocol;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_proxy::Config;
use sha1::{Digest, Sha1};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

type Tunnel = TokioIo<Upgraded>;

/// The answer to a key (RFC 6455, section 4.2.2).
fn accept_of(key: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    let mut bits: String = digest.iter().map(|byte| format!("{byte:08b}")).collect();
    bits += "00";
    let sextets = (0..bits.len() / 6).map(|index| &bits[index * 6..][..6]);
    let letters = sextets.map(|bits| char::from(ALPHABET[usize::from_str_radix(bits, 2).unwrap()]));
    letters.chain(['=']).collect()
}

/// Reads the request for an upgrade, and accepts it. Returns its head.
async fn accept(stream: &mut TcpStream) -> String {
    let head = read_until(stream, "\r\n\r\n").await;
    assert_eq!((values(&head, "connection"), values(&head, "upgrade")), (vec!["upgrade"], vec!["websocket"]));
    let [key] = values(&head, "sec-websocket-key")[..] else { panic!("{head}") };
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: chat\r\nContent-Length: 0\r\n\r\n",
        accept_of(key)
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    head
}

/// An origin that sends back what it gets, and `bye` at the end. The heads that it got come out of the channel.
async fn echoing() -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (heads, received) = mpsc::unbounded_channel();
    let address = raw_origin(move |mut stream, _| {
        let heads = heads.clone();
        async move {
            let head = accept(&mut stream).await;
            _ = heads.send(head);
            let (mut read, mut write) = stream.split();
            if tokio::io::copy(&mut read, &mut write).await.is_ok() {
                _ = write.write_all(b"bye").await;
            }
        }
    })
    .await;
    (address, received)
}

/// An origin that answers every request with these bytes, and then waits for the end of the connection. The channel tells it.
async fn answering(answer: impl Into<Bytes>) -> (SocketAddr, mpsc::UnboundedReceiver<()>) {
    let (ended, ends) = mpsc::unbounded_channel();
    let answer = answer.into();
    let address = raw_origin(move |mut stream, _| {
        let (answer, ended) = (answer.clone(), ended.clone());
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            stream.write_all(&answer).await.unwrap();
            _ = stream.read(&mut [0; 16]).await;
            _ = ended.send(());
        }
    })
    .await;
    (address, ends)
}

/// A connection of HTTP/2 on which the proxy has said that it knows extended CONNECT.
async fn client(proxy: &Running) -> SendRequest<TestBody> {
    let mut client = http2(proxy.address).await;
    know_settings(&mut client).await;
    client
}

/// Waits for the settings of the proxy: they come before its first response.
async fn know_settings(client: &mut SendRequest<TestBody>) {
    let asked = Request::options("http://a/").header(MAX_FORWARDS, "0").body(full("")).unwrap();
    assert_eq!(client.send_request(asked).await.unwrap().status(), StatusCode::NO_CONTENT);
}

fn connect(protocol: &'static str) -> Request<TestBody> {
    let request = Request::builder().method(Method::CONNECT).uri("http://Site.Example/chat?room=1");
    let request = request.header("sec-websocket-version", "13").header("sec-websocket-protocol", "chat");
    request.extension(Protocol::from_static(protocol)).body(full("")).unwrap()
}

async fn ask(client: &mut SendRequest<TestBody>) -> Response<Incoming> {
    timeout(LIMIT, client.send_request(connect("websocket"))).await.expect("it is answered").unwrap()
}

async fn open(client: &mut SendRequest<TestBody>) -> Tunnel {
    let response = ask(client).await;
    assert_eq!(response.status(), StatusCode::OK);
    TokioIo::new(hyper::upgrade::on(response).await.unwrap())
}

async fn exchange_text(tunnel: &mut Tunnel, text: &str) {
    tunnel.write_all(text.as_bytes()).await.unwrap();
    let mut read = vec![0; text.len()];
    timeout(LIMIT, tunnel.read_exact(&mut read)).await.expect("it comes back").unwrap();
    assert_eq!(read, text.as_bytes());
}

/// What is left in a tunnel until it ends, and whether its end is an error.
async fn rest(tunnel: &mut Tunnel) -> (Vec<u8>, bool) {
    let mut rest = Vec::new();
    let read = timeout(LIMIT, tunnel.read_to_end(&mut rest)).await.expect("the tunnel ends");
    (rest, read.is_err())
}

/// A proxy in front of an origin that may have one request at a time.
async fn with_one_place(origin: SocketAddr, change: impl FnOnce(&mut Config)) -> Running {
    let mut options = config([origin]);
    (options.max_origin_requests, options.connect_timeout_ms) = (1, 50);
    change(&mut options);
    start(options).await
}

/// Waits until the place of a tunnel is free again.
async fn is_free(proxy: &Running) {
    let waiting = async { while proxy.get("/").await.starts_with("HTTP/1.1 503 ") {} };
    timeout(LIMIT, waiting).await.expect("the place is free again");
}

#[tokio::test]
async fn tunnel_is_an_upgrade_for_the_origin_and_a_stream_for_the_client() {
    let (origin, mut heads) = echoing().await;
    let proxy = in_front_of(origin).await;
    let mut client = client(&proxy).await;
    let response = ask(&mut client).await;
    let head = heads.recv().await.unwrap();
    assert!(head.starts_with("GET /chat?room=1 HTTP/1.1\r\n"), "{head}");
    for (name, expected) in [
        ("host", "site.example"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
        ("x-forwarded-for", "127.0.0.1"),
        ("via", "2.0 larder"),
    ] {
        let [value] = values(&head, name)[..] else { panic!("{name}: {head}") };
        assert!(value.starts_with(expected), "{name}: {head}");
    }
    assert!(values(&head, "content-length").is_empty() && values(&head, "transfer-encoding").is_empty());

    assert_eq!(
        (response.status(), &response.headers()["sec-websocket-protocol"]),
        (StatusCode::OK, &HeaderValue::from_static("chat"))
    );
    for name in [UPGRADE, CONNECTION, SEC_WEBSOCKET_ACCEPT, HeaderName::from_static("content-length")] {
        assert!(!response.headers().contains_key(&name), "{response:?}");
    }
    let mut tunnel = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    for text in ["one", "two"] {
        exchange_text(&mut tunnel, text).await;
    }
    tunnel.shutdown().await.unwrap();
    assert_eq!(rest(&mut tunnel).await, (b"bye".to_vec(), false));
}

#[tokio::test]
async fn long_messages_arrive_whole_in_both_directions() {
    let (origin, _heads) = echoing().await;
    let proxy = in_front_of(origin).await;
    let mut tunnel = open(&mut client(&proxy).await).await;
    let sent: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let (mut read, mut write) = tokio::io::split(&mut tunnel);
    let mut received = vec![0; sent.len()];
    let sending = async { write.write_all(&sent).await.unwrap() };
    let receiving = async { read.read_exact(&mut received).await.unwrap() };
    timeout(LIMIT, async { tokio::join!(sending, receiving) }).await.expect("all of it comes back");
    assert!(received == sent);
}

#[tokio::test]
async fn one_connection_has_several_tunnels_and_requests() {
    let (origin, _heads) = echoing().await;
    let proxy = in_front_of(origin).await;
    let mut client = client(&proxy).await;
    let mut tunnels = vec![open(&mut client).await, open(&mut client).await];
    know_settings(&mut client).await;
    for (tunnel, text) in tunnels.iter_mut().zip(["one", "other"]) {
        exchange_text(tunnel, text).await;
    }
    drop(tunnels.remove(0));
    exchange_text(&mut tunnels[0], "still").await;
}

#[tokio::test]
async fn tunnel_outlives_the_time_outs_of_requests_and_of_idle_connections() {
    let mut options = config([echoing().await.0]);
    (options.keepalive_timeout_ms, options.header_timeout_ms, options.body_timeout_ms) = (100, 100, 100);
    options.write_timeout_ms = 100;
    let proxy = start(options).await;
    let mut tunnel = open(&mut client(&proxy).await).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    exchange_text(&mut tunnel, "still").await;
}

#[tokio::test]
async fn refusal_of_the_origin_goes_to_the_client() {
    for status in ["400 Bad Request", "302 Found", "426 Upgrade Required", "503 Service Unavailable"] {
        let (origin, _ends) =
            answering(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nX-Why: so\r\n\r\nno")).await;
        let proxy = in_front_of(origin).await;
        let response = ask(&mut client(&proxy).await).await;
        assert!(status.starts_with(response.status().as_str()), "{response:?}");
        assert_eq!(response.headers()["x-why"], "so");
        assert_eq!(text(response).await, "no");
    }
}

/// To the client a 200 is an open tunnel, and a switch without the right answer may come from anything.
#[tokio::test]
async fn answer_that_is_no_websocket_is_a_502() {
    const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n";
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_owned(),
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        format!("{SWITCH}Upgrade: websocket\r\n\r\n"),
        format!("{SWITCH}Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"),
    ] {
        let (origin, mut ends) = answering(answer.clone()).await;
        let proxy = in_front_of(origin).await;
        let response = ask(&mut client(&proxy).await).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "{answer}");
        assert_eq!(response.headers()["proxy-status"], "larder; error=http_upgrade_failed");
        if answer.contains("101") {
            timeout(LIMIT, ends.recv()).await.expect("the connection of the origin is closed");
        }
    }
}

#[tokio::test]
async fn silent_origin_is_a_504() {
    let mut options = config([silent_origin().await]);
    options.response_timeout_ms = 100;
    let proxy = start(options).await;
    assert_eq!(ask(&mut client(&proxy).await).await.status(), StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn client_that_leaves_before_the_answer_leaves_nothing_open() {
    let proxy = with_one_place(silent_origin().await, |options| options.response_timeout_ms = 60_000).await;
    let mut client = client(&proxy).await;
    let asking = client.send_request(connect("websocket"));
    assert!(timeout(Duration::from_millis(300), asking).await.is_err(), "the origin is silent");
    // The place is free: the next one waits for the origin too, instead of a 503.
    let asking = client.send_request(connect("websocket"));
    assert!(timeout(Duration::from_millis(300), asking).await.is_err(), "the origin is silent");
}

#[tokio::test]
async fn tunnel_has_a_place_among_the_requests() {
    let proxy = with_one_place(echoing().await.0, |_| {}).await;
    let mut client = client(&proxy).await;
    let tunnel = open(&mut client).await;
    let response = ask(&mut client).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(tunnel);
    // The origin refuses the GET by its own assertion: any answer but 503 shows that the place is free.
    is_free(&proxy).await;
}

/// The end of a stream is no end of a connection: an origin that waits for more would have its place for ever.
#[tokio::test]
async fn tunnel_ends_after_its_client_whatever_the_origin_does() {
    let origin = raw_origin(|mut stream, _| async move {
        accept(&mut stream).await;
        let _stream = stream;
        std::future::pending().await
    });
    let proxy = with_one_place(origin.await, |options| options.write_timeout_ms = 100).await;
    let mut client = client(&proxy).await;
    let mut tunnel = open(&mut client).await;
    tunnel.shutdown().await.unwrap();
    assert_eq!(rest(&mut tunnel).await.0, b"");
    // A stream that is reset, and not ended, is the same.
    drop(open_when_free(&mut client).await);
    drop(open_when_free(&mut client).await);
}

/// The same for a client that does not end.
#[tokio::test]
async fn tunnel_ends_after_its_origin_whatever_the_client_does() {
    let origin = raw_origin(|mut stream, _| async move {
        accept(&mut stream).await;
        stream.write_all(b"bye").await.unwrap();
    });
    let proxy = with_one_place(origin.await, |options| options.write_timeout_ms = 100).await;
    let mut client = client(&proxy).await;
    let mut tunnel = open(&mut client).await;
    assert_eq!(rest(&mut tunnel).await, (b"bye".to_vec(), false));
    drop(open_when_free(&mut client).await);
}

async fn open_when_free(client: &mut SendRequest<TestBody>) -> Tunnel {
    let waiting = async {
        loop {
            let response = ask(client).await;
            if response.status() == StatusCode::OK {
                return TokioIo::new(hyper::upgrade::on(response).await.unwrap());
            }
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
    };
    timeout(LIMIT, waiting).await.expect("the place is free again")
}

#[tokio::test]
async fn client_that_takes_nothing_ends_its_tunnel_and_no_other() {
    let (written, mut failures) = mpsc::unbounded_channel();
    let origin = raw_origin(move |mut stream, connection| {
        let written = written.clone();
        async move {
            accept(&mut stream).await;
            if connection == 0 {
                while stream.write_all(&[7; 65_536]).await.is_ok() {}
                _ = written.send(());
            }
            let (mut read, mut write) = stream.split();
            _ = tokio::io::copy(&mut read, &mut write).await;
        }
    });
    let mut options = config([origin.await]);
    options.write_timeout_ms = 200;
    let proxy = start(options).await;
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(65_535).initial_connection_window_size(1 << 20);
    let (mut client, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    know_settings(&mut client).await;
    let idle = open(&mut client).await;
    let mut other = open(&mut client).await;
    timeout(LIMIT, failures.recv()).await.expect("the tunnel ends");
    exchange_text(&mut other, "still").await;
    drop(idle);
}

#[tokio::test]
async fn connection_that_dies_ends_its_tunnels() {
    let (origin, _heads) = echoing().await;
    let proxy = with_one_place(origin, |_| {}).await;
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    let (near, mut far) = tokio::io::duplex(65_536);
    let wire = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut far, &mut stream).await });
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    know_settings(&mut client).await;
    let _tunnel = open(&mut client).await;
    wire.abort();
    is_free(&proxy).await;
}

#[tokio::test]
async fn tunnel_ends_when_the_proxy_stops() {
    let (origin, _heads) = echoing().await;
    let proxy = in_front_of(origin).await;
    let mut tunnel = open(&mut client(&proxy).await).await;
    timeout(LIMIT, proxy.stop()).await.expect("it does not wait for tunnels").unwrap();
    assert_eq!(rest(&mut tunnel).await.0, b"");
}

#[tokio::test]
async fn other_protocols_are_refused() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let mut client = client(&proxy).await;
    for protocol in ["connect-udp", "webtransport", "h2c", "websocket2"] {
        let response = client.send_request(connect(protocol)).await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{protocol}");
        assert!(response.headers().contains_key("allow"));
    }
    let plain = Request::builder().method(Method::CONNECT).uri("site.example:443").body(full("")).unwrap();
    let response = client.send_request(plain).await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    _ = response.into_body().collect().await.unwrap();
    assert_eq!(origin.requests(), 0);
}
