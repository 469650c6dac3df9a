//! A request that two servers could understand in two ways reaches no origin as two.
//!
//! Each attack hides a request for `/smuggled`. An origin behind the proxy must never see it as a request of its own.

use crate::support::*;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// An origin that notes all bytes that it gets, and answers each head.
async fn noting() -> (SocketAddr, Arc<Mutex<String>>) {
    let seen = Arc::<Mutex<String>>::default();
    let noted = seen.clone();
    let address = raw_origin(move |mut stream, _| {
        let noted = noted.clone();
        async move {
            let mut buffer = vec![0; 64 << 10];
            loop {
                let Ok(count) = tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await else { return };
                if count == 0 {
                    return;
                }
                noted.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            }
        }
    })
    .await;
    (address, seen)
}

/// What the client and the origin get of these bytes.
async fn attack(bytes: impl AsRef<[u8]>) -> (String, String) {
    let (origin, seen) = noting().await;
    // A proxy that waits for more ends soon.
    let mut options = config([origin]);
    (options.header_timeout_ms, options.keepalive_timeout_ms, options.response_timeout_ms) = (300, 300, 300);
    let answer = start(options).await.exchange(bytes).await;
    let seen = seen.lock().unwrap().clone();
    (answer, seen)
}

/// The attack is refused with this status, and the origin sees nothing.
async fn assert_refused(bytes: impl AsRef<[u8]>, status: u16) {
    let shown = String::from_utf8_lossy(bytes.as_ref()).into_owned();
    let (answer, seen) = attack(bytes).await;
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?}: {answer:?}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{shown:?}: {answer:?}");
    assert_eq!(seen, "", "{shown:?}");
}

#[tokio::test]
async fn length_with_chunked_ends_the_connection() {
    // hyper takes `chunked`, drops the length, and closes (RFC 9112, section 6.3).
    for (first, second) in [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
    ] {
        let (answer, seen) =
            attack(format!("POST / HTTP/1.1\r\nHost: a\r\n{first}\r\n{second}\r\n\r\n0\r\n\r\n{SMUGGLED}"))
                .await;
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
        assert!(!seen.contains("smuggled") && !seen.to_lowercase().contains("content-length: 5"), "{seen}");
    }
}

#[tokio::test]
async fn several_lengths_are_refused() {
    for lengths in [
        "Content-Length: 0\r\nContent-Length: 36",
        "Content-Length: 36\r\nContent-Length: 0",
        "Content-Length: 0, 36",
        "Content-Length: 36, 36",
        "Content-Length: +0",
        "Content-Length: -1",
        "Content-Length: 0x0",
        "Content-Length: 0 0",
        "Content-Length: ",
        "Content-Length: 99999999999999999999",
    ] {
        assert_refused(format!("POST / HTTP/1.1\r\nHost: a\r\n{lengths}\r\n\r\n{SMUGGLED}"), 400).await;
    }
}

#[tokio::test]
async fn codings_beside_chunked_are_refused() {
    for (coding, status) in [
        ("Transfer-Encoding: gzip", 400),
        ("Transfer-Encoding: chunked, gzip", 400),
        ("Transfer-Encoding: xchunked", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: chunked, chunked", 501),
        ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", 501),
    ] {
        let (answer, seen) = attack(format!("POST / HTTP/1.1\r\nHost: a\r\n{coding}\r\n\r\n0\r\n\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{coding}: {answer}");
        assert_eq!(seen, "", "{coding}");
    }
    assert_refused(
        format!("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"),
        400,
    )
    .await;
}

#[tokio::test]
async fn malformed_lines_are_refused() {
    for line in [
        "X-A: 1\r\n folded",
        "X-A: 1\r\n\tfolded",
        "Content-Length : 36",
        "Content-Length\t: 36",
        "Transfer-Encoding : chunked",
        " X-A: 1",
        "X-A",
        ": 1",
        "X A: 1",
        "X-A: a\rb",
        "X-A: a\0b",
        "X-A: 1\rContent-Length: 36",
        "X-\u{7f}: 1",
    ] {
        assert_refused(format!("POST / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n{SMUGGLED}"), 400).await;
    }
    for start in [
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 x",
        "GET / a HTTP/1.1",
        "GET /\u{1} HTTP/1.1",
        "GET",
        "G(T / HTTP/1.1",
    ] {
        assert_refused(format!("{start}\r\nHost: a\r\n\r\n"), 400).await;
    }
}

/// RFC 9112, section 2.2 lets a server take a line feed alone for the end of a line. What the origin gets has no such lines, so
/// that both agree.
#[tokio::test]
async fn bare_line_feeds_are_not_passed_on() {
    let (answer, seen) = attack("GET / HTTP/1.1\nHost: a\nX-A: 1\nConnection: close\n\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(seen.matches('\n').count(), seen.matches("\r\n").count(), "{seen:?}");
}

#[tokio::test]
async fn malformed_chunks_end_the_connection() {
    for chunks in [
        "+0\r\n\r\n",
        "0x0\r\n\r\n",
        " 0\r\n\r\n",
        "-1\r\n\r\n",
        "fffffffffffffffff\r\n\r\n",
        "0;a\nb\r\n\r\n",
        "0\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "zz\r\n\r\n",
        "0\r\nX-A : 1\r\n\r\n",
        "0\r\nX-A: a\rb\r\n\r\n",
    ] {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (answer, seen) = attack(format!("{head}{chunks}{SMUGGLED}")).await;
        assert!(!seen.contains("GET /smuggled"), "{chunks:?}: {seen}");
        assert!(answer.matches("HTTP/1.1 200").count() <= 1, "{chunks:?}: {answer}");
    }
}

#[tokio::test]
async fn chunk_extensions_are_not_passed_on() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let (answer, seen) = attack(format!("{head}5;x=\"y\"\r\nhello\r\n0;z\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(seen.contains("hello") && !seen.contains(";x=") && !seen.contains(";z"), "{seen}");
    // Endless extensions have a limit.
    let (_, seen) = attack(format!("{head}5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(1 << 20))).await;
    assert!(!seen.contains("xxx"), "the extension is not passed on");
}

#[tokio::test]
async fn body_of_a_get_is_never_a_request() {
    for framing in [
        format!("Content-Length: {}\r\n\r\n{SMUGGLED}", SMUGGLED.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len()),
    ] {
        let origin = HttpOrigin::echo().await;
        let proxy = in_front_of(origin.address).await;
        let answer =
            proxy.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{framing}")).await;
        assert!(answer.contains("GET / HTTP/1.1\r\n") && answer.ends_with(SMUGGLED), "{answer}");
        assert_eq!(origin.requests(), 1);
    }
}

#[tokio::test]
async fn rest_of_a_body_that_the_proxy_refuses_is_never_a_request() {
    let (_, seen) = attack(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: {}\r\n\r\n{SMUGGLED}",
        SMUGGLED.len()
    ))
    .await;
    assert_eq!(seen, "");
    // The origin answers before the body is there: the rest is not the next request.
    let body = format!("{}{SMUGGLED}", "x".repeat(100_000));
    let (answer, seen) =
        attack(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
    assert!(answer.matches("HTTP/1.1 200").count() <= 1, "{answer}");
    assert_eq!(seen.matches(" HTTP/1.1\r\n").count(), 1 + seen.matches(SMUGGLED).count(), "{}", seen.len());
}

#[tokio::test]
async fn host_is_one() {
    for head in [
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a",
        "GET / HTTP/1.1",
        "GET http://a/ HTTP/1.1\r\nHost: b",
        "GET http://a/ HTTP/1.1",
        "GET http://u@a/ HTTP/1.1\r\nHost: a",
        "GET / HTTP/1.1\r\nHost: a/b",
        "GET / HTTP/1.1\r\nHost: a, b",
        "GET / HTTP/1.1\r\nHost: u@a",
        "GET / HTTP/1.1\r\nHost: a:99999",
        "GET / HTTP/1.1\r\nHost: ",
    ] {
        assert_refused(format!("{head}\r\n\r\n{SMUGGLED}"), 400).await;
    }
    let (answer, seen) =
        attack("GET http://A.example/x HTTP/1.1\r\nHost: a.EXAMPLE\r\nConnection: close\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && seen.starts_with("GET /x HTTP/1.1\r\n"),
        "{answer} {seen}"
    );
}

#[tokio::test]
async fn response_cannot_be_split() {
    // A second response in the bytes of the first one is for nobody.
    let sent =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let origin = raw_origin(move |mut stream, _| async move {
        loop {
            if read_head(&mut stream).await.is_none() {
                return;
            }
            let _ = stream.write_all(sent.as_bytes()).await;
        }
    })
    .await;
    let proxy = in_front_of(origin).await;
    for _ in 0..4 {
        let answer = proxy.get("/").await;
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    }
}

/// Reads until the end of a head; `None` at the end of the connection.
async fn read_head(stream: &mut tokio::net::TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tokio::io::AsyncReadExt::read_u8(stream).await.ok()?);
    }
    Some(())
}

#[tokio::test]
async fn http2_fields_that_would_frame_http1_are_refused() {
    let (origin, seen) = noting().await;
    let proxy = in_front_of(origin).await;
    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("upgrade", "h2c"),
        ("keep-alive", "x"),
        ("proxy-connection", "x"),
        ("te", "gzip"),
        ("content-length", "7"),
        ("host", "other.example"),
    ] {
        let answer = http2_with(&proxy, &[(name.as_bytes(), value.as_bytes())]).await;
        assert_ne!(answer, Some(200), "{name}");
    }
    for (name, value) in [
        (&b"x-a"[..], &b"1\r\nx-b: 2"[..]),
        (b"x-a", b"1\nx-b: 2"),
        (b"x-a", b"1\0"),
        (b"x-a\r\nx-b", b"1"),
        (b"x-a: 1\r\nx-b", b"1"),
        (b"X-Upper", b"1"),
        (b"x a", b"1"),
        (b"", b"1"),
    ] {
        let answer = http2_with(&proxy, &[(name, value)]).await;
        assert_ne!(answer, Some(200), "{:?}", String::from_utf8_lossy(name));
    }
    assert_eq!(*seen.lock().unwrap(), "");
    assert_eq!(http2_with(&proxy, &[(b"x-a", b"1")]).await, Some(200));
}

/// The status of a GET of HTTP/2 with these fields, which are written byte by byte: a client that checks them would refuse to.
async fn http2_with(proxy: &Running, fields: &[(&[u8], &[u8])]) -> Option<u16> {
    // Literal fields without indexing (RFC 7541, section 6.2.2).
    let mut block = HTTP2_GET.to_vec();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text);
        }
    }
    let mut client = proxy.connect().await;
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    client.write_all(&http2_frame(4, 0, 0, &[])).await.unwrap();
    // The end of the head and of the request.
    client.write_all(&http2_frame(1, 0x5, 1, &block)).await.unwrap();
    loop {
        let (kind, payload) = read_http2_frame(&mut client).await?;
        match kind {
            // The first field is the status: an index of the static table, or a literal of three digits.
            1 if payload[0] == 0x88 => return Some(200),
            1 if payload[0] & 0x80 != 0 => {
                return Some([204, 206, 304, 400, 404, 500][usize::from(payload[0] & 0x7f) - 9]);
            }
            1 => return Some(0),
            // A reset of the stream, or the end of the connection.
            3 | 7 => return None,
            _ => {}
        }
    }
}
