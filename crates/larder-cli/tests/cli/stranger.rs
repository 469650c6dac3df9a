//! A client at another address than loopback, with all ports open to it: it follows links, reads nothing else and changes
//! nothing.

use crate::http::{Reply, get, request};
use crate::process::{Process, larder};
use crate::shortener::follow;
use larder_testkit::needs;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr, UdpSocket};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const KEPT: &str =
    r#"{"url": "https://kept.example/", "slug": "kept", "title": "private", "tags": ["mine"]}"#;
const WRONG: &str = "Bearer larder_0000000000000000000000000000000000000000000";

/// Every route of the API of the shortener, and paths that are none.
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/api/links", ""),
    ("GET", "/api/links?q=kept", ""),
    ("GET", "/api/links?tag=mine&sort=visits&deleted=true", ""),
    ("GET", "/api/links/kept", ""),
    ("GET", "/api/links/kept?tz=Europe/Berlin", ""),
    ("GET", "/api/links/kept/qr.svg", ""),
    ("GET", "/api/links/kept/qr.png", ""),
    ("GET", "/api/export?format=csv", ""),
    ("GET", "/api/export?format=json", ""),
    ("GET", "/api/events", ""),
    ("GET", "/api/graphql?query=%7Blinks%7Blinks%7Bslug%7D%7D%7D", ""),
    ("POST", "/api/graphql", r#"{"query": "{links{links{slug url}}}"}"#),
    ("QUERY", "/api/graphql", r#"{"query": "{__schema{types{name}}}"}"#),
    ("POST", "/api/links", r#"{"url": "https://new.example/"}"#),
    ("POST", "/api/links/batch", r#"[{"url": "https://new.example/"}]"#),
    ("PATCH", "/api/links/kept", r#"{"url": "https://new.example/"}"#),
    ("DELETE", "/api/links/kept", "{}"),
    ("DELETE", "/api/links/kept/visits", "{}"),
    ("POST", "/api/links/kept/restore", "{}"),
    ("POST", "/api/session", r#"{"token": "larder_0000000000000000000000000000000000000000000"}"#),
    ("PUT", "/api/links/kept", "{}"),
    ("OPTIONS", "/api/links", ""),
    ("GET", "/api/stats", ""),
    ("GET", "/api/tokens", ""),
    ("GET", "/metrics", ""),
];

/// Every route of the admin port.
const ADMIN_ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/", ""),
    ("GET", "/app.js", ""),
    ("GET", "/api/stats", ""),
    ("GET", "/api/history", ""),
    ("GET", "/api/history?after=0", ""),
    ("GET", "/api/explain?target=kept", ""),
    ("GET", "/metrics", ""),
    ("GET", "/healthz", ""),
    ("POST", "/api/purge", r#"{"part": "api responses", "all": true}"#),
];

/// What only the owner may see.
const SECRETS: [&str; 4] = ["kept.example", "private", "mine", "\"slug"];

#[test]
fn stranger_from_another_address_reads_nothing_and_changes_nothing() {
    let Some(address) = own_address() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut command = larder(["up", "--resp", "127.0.0.1:0", "--http", "0.0.0.0:0", "--admin", "0.0.0.0:0"]);
    let mut process = Process::start(command.arg("--data").arg(&data));
    let mut port = |start: &str| -> u16 {
        let text = process.await_line(start);
        text.trim_end_matches('/').parse::<SocketAddr>().expect("an address").port()
    };
    let (http, admin) = (port("  short links    http://"), port("  dashboard      http://"));
    let [at_http, at_admin] = [http, admin].map(|port| SocketAddr::new(address, port));
    let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));

    let token = std::fs::read_to_string(data.join("links-token")).expect("a token");
    let bearer = format!("Bearer {}", token.trim_end());
    let authorized = [JSON, ("Authorization", &*bearer)];
    let as_owner = |method: &str, path: &str, body: &str| {
        request(local(http), method, path, &authorized, body).expect("an answer")
    };
    assert_eq!(as_owner("POST", "/api/links", KEPT).status, 201);
    // Enough for the link to be in the lists of the dashboard.
    (0..200).for_each(|_| assert_eq!(follow(at_http, "kept"), "https://kept.example/"));
    assert!(get(local(admin), "/api/stats").body.contains("\"kept\""), "the owner sees it");
    let before = get(local(admin), "/api/history").json();

    let own_origin = format!("http://{at_http}");
    for (method, path, body) in ROUTES {
        for more in [
            &[][..],
            &[("Authorization", WRONG)],
            &[("Cookie", "larder_session=0000000000000000000000000000000000000000000")],
            &[("X-Forwarded-For", "127.0.0.1"), ("Forwarded", "for=127.0.0.1")],
            &[("Host", "localhost")],
            &[("Origin", &*own_origin), ("Sec-Fetch-Site", "same-origin")],
        ] {
            let headers = [&[JSON], more].concat();
            let reply = request(at_http, method, path, &headers, body).expect("an answer");
            assert_refused(&reply, &[401, 403, 404, 405, 429], &format!("{method} {path} {more:?}"));
        }
    }
    let admin_token = ("Authorization", WRONG);
    let (host, with_port) = (at_admin.to_string(), format!("127.0.0.1:{admin}"));
    for (method, path, body) in ADMIN_ROUTES {
        for host in [&*host, "localhost", &with_port, "[::1]", "evil.example"] {
            let headers = [JSON, admin_token, ("Host", host)];
            let reply = request(at_admin, method, path, &headers, body).expect("an answer");
            assert_refused(&reply, &[421], &format!("{method} {path}, host {host}"));
        }
    }

    let kept = as_owner("GET", "/api/links/kept", "").json();
    assert_eq!(kept["url"], "https://kept.example/");
    let listed = as_owner("GET", "/api/links?deleted=true", "").json()["links"].as_array().map(Vec::len);
    let all = as_owner("GET", "/api/links", "").json()["links"].as_array().map(Vec::len);
    assert_eq!((all, listed), (Some(1), Some(0)), "nothing is new, nothing deleted");
    let after = get(local(admin), "/api/history").json();
    let events = |history: &Value| history["events"].as_array().map(Vec::len);
    assert_eq!(events(&after), events(&before), "nothing was purged: {after}");
    process.running().terminate();
    process.end().assert_clean_stop();
}

#[track_caller]
fn assert_refused(reply: &Reply, statuses: &[u16], what: &str) {
    assert!(statuses.contains(&reply.status), "{what}: {reply:?}");
    for secret in SECRETS {
        assert!(!reply.body.contains(secret), "{what} shows {secret}: {reply:?}");
    }
}

/// An address of this machine that is not loopback: connections to it come from it.
fn own_address() -> Option<IpAddr> {
    let find = || {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        // Chooses a route and sends nothing; the address is one for documentation.
        socket.connect("203.0.113.1:9").ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
    };
    let address = find();
    needs("an address that is not loopback", address.is_some())?;
    address
}
