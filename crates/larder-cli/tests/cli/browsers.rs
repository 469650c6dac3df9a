//! A web page must not reach the services of the machine that it is looked at on: what a browser could be made to
//! send is refused by every port.

use crate::http::{connect, request};
use crate::process::Up;
use crate::resp::command;
use crate::shortener::count;
use larder_testkit::until;
use std::io::{Read, Write};
use std::net::SocketAddr;

#[test]
fn the_cache_server_hangs_up_on_http_and_executes_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut up = Up::start(&folder.path().join("data"));
    let host = up.resp.to_string();
    command(up.resp, "SET mine safe");
    let fetch = format!("GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Mozilla/5.0\r\n\r\n");
    let post = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/plain\r\nContent-Length: 40\r\n\r\nSET planted 1\r\nFLUSHALL\r\n"
    );
    // A page that chooses the path itself, and one whose request line is read as a command.
    let path = format!("SET /planted HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for sent in [fetch, post, path] {
        let answer = answer_until_closed(up.resp, sent.as_bytes());
        assert!(
            !answer.contains("+OK") && !answer.contains("+PONG"),
            "{sent:?} was answered with {answer:?}"
        );
    }
    assert_eq!(command(up.resp, "EXISTS planted /planted"), ":0");
    assert_eq!(command(up.resp, "GET mine"), "safe");
    until("it is said", || {
        up.process.stderr().contains("closed a connection that speaks HTTP").then_some(())
    });
    up.process.running().terminate();
    up.process.end().assert_clean_stop();
}

/// Sends and reads until the other side closes, in whatever way.
fn answer_until_closed(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address).expect("a connection");
    // The second half may meet a connection that is closed already.
    _ = stream.write_all(bytes);
    let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("it was not closed: {error}"),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_shortener_takes_nothing_from_foreign_pages() {
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
        // A name that was pointed at this machine.
        (&[json, ("Host", "evil.example"), ("Origin", "http://evil.example")], 403),
        (&[json, ("Host", "evil.example")], 403),
        // What a form can send without asking first.
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
fn the_admin_port_answers_to_its_own_names_only() {
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
