//! A web page must not access the services on the machine of its visitor: every port refuses what a page can make a
//! browser send.

use crate::http::{connect, request};
use crate::process::Up;
use crate::resp::command;
use crate::shortener::count;
use larder_testkit::until;
use std::io::{Read, Write};
use std::net::SocketAddr;

#[test]
fn cache_server_closes_http_connections_and_executes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut up = Up::start(&folder.path().join("data"));
    let host = up.resp.to_string();
    command(up.resp, "SET mine safe");
    let fetch = format!("GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Mozilla/5.0\r\n\r\n");
    let post = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/plain\r\nContent-Length: 40\r\n\r\nSET planted 1\r\nFLUSHALL\r\n"
    );
    // A request line that is also a command.
    let path = format!("SET /planted HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for sent in [fetch, post, path] {
        let answer = read_until_closed(up.resp, sent.as_bytes());
        assert!(
            !answer.contains("+OK") && !answer.contains("+PONG"),
            "{sent:?} was answered with {answer:?}"
        );
    }
    assert_eq!(command(up.resp, "EXISTS planted /planted"), ":0");
    assert_eq!(command(up.resp, "GET mine"), "safe");
    until("the message on stderr", || {
        up.process.stderr().contains("closed a connection that speaks HTTP").then_some(())
    });
    up.process.running().terminate();
    up.process.end().assert_clean_stop();
}

/// Sends bytes, and reads until the server closes the connection or resets it.
fn read_until_closed(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address).expect("a connection");
    // The server may close the connection before it has read everything.
    _ = stream.write_all(bytes);
    let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the connection was not closed: {error}"),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn shortener_refuses_requests_of_foreign_pages() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&folder.path().join("data"));
    let own = format!("http://{}", up.http);
    let json = ("Content-Type", "application/json");
    let post = |headers: &[(&str, &str)]| {
        let body = r#"{"url": "https://example.com/"}"#;
        request(up.http, "POST", "/api/links", headers, body).expect("an answer").status
    };
    let refused: &[(&[(&str, &str)], u16)] = &[
        (&[json, ("Origin", "https://evil.example")], 403),
        (&[json, ("Origin", "null")], 403),
        // A foreign name that resolves to this machine.
        (&[json, ("Host", "evil.example"), ("Origin", "http://evil.example")], 403),
        (&[json, ("Host", "evil.example")], 403),
        // A form can send this without a preflight request.
        (&[("Content-Type", "text/plain"), ("Origin", &own)], 415),
    ];
    for (headers, status) in refused {
        assert_eq!(post(headers), *status, "{headers:?}");
    }
    assert_eq!(count(up.http), 0);
    assert_eq!(post(&[json, ("Origin", &own)]), 201);
    up.stop();
}

#[test]
fn admin_port_refuses_foreign_host_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let up = Up::start(&data);
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        request(up.admin, method, path, headers, "").expect("an answer").status
    };
    for path in ["/", "/api/stats", "/metrics"] {
        assert_eq!(ask("GET", path, &[("Host", "evil.example")]), 421, "{path}");
        assert_eq!(ask("GET", path, &[("Host", "localhost:1")]), 200, "{path}");
    }
    let token = std::fs::read_to_string(data.join("admin-token")).expect("a token");
    let bearer = format!("Bearer {}", token.trim_end());
    let purge = |origin: &str| {
        let headers = [("Content-Type", "application/json"), ("Authorization", &*bearer), ("Origin", origin)];
        let body = r#"{"part": "api responses", "all": true}"#;
        request(up.admin, "POST", "/api/purge", &headers, body).expect("an answer").status
    };
    assert_eq!(purge("https://evil.example"), 403);
    assert_eq!(purge(&format!("http://{}", up.admin)), 200);
    up.stop();
}
