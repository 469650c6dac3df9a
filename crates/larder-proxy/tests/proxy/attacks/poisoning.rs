//! What is stored is what any client would get: nothing of a request that is not in its key changes a stored response.

use super::*;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;

/// A careless origin, all of whose responses are fresh for a minute: it believes every field that changes the host, the path or the
/// method, and repeats them and the body of the request.
async fn careless() -> HttpOrigin {
    HttpOrigin::start(|request: Request<Incoming>| async move {
        const BELIEVED: [&str; 12] = [
            "x-forwarded-host",
            "x-forwarded-proto",
            "x-forwarded-for",
            "forwarded",
            "x-host",
            "x-original-url",
            "x-rewrite-url",
            "x-real-ip",
            "true-client-ip",
            "x-http-method-override",
            "range",
            "host",
        ];
        let mut page = format!("{} {}", request.method(), request.uri());
        for name in BELIEVED {
            for value in request.headers().get_all(name) {
                page += &format!(" {name}={}", value.to_str().unwrap());
            }
        }
        let body = http_body_util::BodyExt::collect(request.into_body()).await.unwrap().to_bytes();
        page += &format!(" {}", String::from_utf8_lossy(&body));
        let mut response = Response::new(full(page));
        response.headers_mut().insert("cache-control", HeaderValue::from_static("public, max-age=60"));
        response
    })
    .await
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// What the victim gets after the attack, and what it would have got without.
async fn victim_after(attack: &str, path: &str) -> (String, String) {
    let origin = careless().await;
    let (attacked, clean) = (in_front_of(origin.address).await, in_front_of(origin.address).await);
    attacked.exchange(attack).await;
    let victim = attacked.get(path).await;
    assert!(victim.starts_with("HTTP/1.1 200 "), "{attack:?}: {victim}");
    (body(&victim).to_owned(), body(&clean.get(path).await).to_owned())
}

fn attack(line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: site.example\r\n{fields}Connection: close\r\n\r\n")
}

#[tokio::test]
async fn fields_outside_of_the_key_change_nothing_for_others() {
    for fields in [
        "X-Forwarded-Host: evil.example\r\n",
        "X-Forwarded-Proto: https\r\n",
        "X-Forwarded-For: 6.6.6.6\r\n",
        "Forwarded: host=evil.example;proto=https\r\n",
        "X-Host: evil.example\r\n",
        "X-Original-URL: /admin\r\n",
        "X-Rewrite-URL: /admin\r\n",
        "X-Real-IP: 6.6.6.6\r\n",
        "True-Client-IP: 6.6.6.6\r\n",
        "X_Forwarded_Host: evil.example\r\n",
        "X-HTTP-Method-Override: DELETE\r\n",
        "Range: bytes=0-1\r\n",
        "Content-Length: 4\r\n\r\nevil",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n",
    ] {
        // A fat GET has its body in the place of the last line.
        let bytes = match fields.split_once("\r\n\r\n") {
            None => attack("GET /page", fields),
            Some((fields, body)) => {
                format!(
                    "GET /page HTTP/1.1\r\nHost: site.example\r\n{fields}\r\nConnection: close\r\n\r\n{body}\r\n"
                )
            }
        };
        let (victim, clean) = victim_after(&bytes, "/page").await;
        assert_eq!(victim, clean, "{fields:?}");
        assert!(!victim.contains("evil") && !victim.contains("/admin"), "{fields:?}: {victim}");
    }
}

#[tokio::test]
async fn other_methods_fill_nothing_for_a_get() {
    for line in ["HEAD /page", "POST /page", "OPTIONS /page", "FOO /page", "QUERY /page"] {
        let (victim, clean) = victim_after(&attack(line, "Content-Length: 0\r\n"), "/page").await;
        assert_eq!(victim, clean, "{line}");
    }
}

#[tokio::test]
async fn spellings_of_a_host_share_an_entry_only_if_they_are_one() {
    let origin = careless().await;
    let proxy = in_front_of(origin.address).await;
    let ask = async |host: &str| {
        proxy.exchange(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await
    };
    let is_hit = |answer: &str| values(answer, "cache-status")[0].starts_with("larder; hit");
    let first = ask("site.example").await;
    assert!(!is_hit(&first));
    for host in ["SITE.example", "site.example:80"] {
        let answer = ask(host).await;
        assert!(is_hit(&answer), "{host}: {answer}");
        assert_eq!(body(&answer), body(&first));
    }
    for host in ["site.example.", "site.example:8080", "site.example:443", "www.site.example"] {
        let answer = ask(host).await;
        assert!(!is_hit(&answer), "{host}: {answer}");
        assert!(body(&answer).contains(&format!("host={host}")), "{answer}");
    }
    for host in ["site.example:80:80", "site.example@evil", "site.example/evil", ""] {
        let answer = ask(host).await;
        let is_refused = answer.starts_with("HTTP/1.1 400 ");
        assert!(is_refused || !is_hit(&answer), "{host:?}: {answer}");
    }
    assert!(is_hit(&ask("site.example").await));
    assert_eq!(body(&ask("site.example").await), body(&first));
}

/// A first client whose spelling of the host reaches the origin, and a second one that shares its entry.
#[tokio::test]
async fn origin_gets_one_spelling_of_a_shared_host() {
    for host in ["SITE.example", "site.example:80"] {
        let line = format!("GET /page HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let (victim, clean) = victim_after(&line, "/page").await;
        assert_eq!(victim, clean, "{host}");
    }
}

#[tokio::test]
async fn spellings_of_a_path_have_entries_of_their_own() {
    let origin = careless().await;
    let proxy = in_front_of(origin.address).await;
    let paths = [
        "/page",
        "/page/",
        "//page",
        "/./page",
        "/x/../page",
        "/%70age",
        "/page%00",
        "/page?",
        "/page?x",
        "/page;x",
        "/PAGE",
        "/page%2f",
        "/page%3fx",
        "/account/x.css",
        "/account",
        "/account%2fx.css",
        "/account;x.css",
        "/account/..%2fx.css",
    ];
    let mut bodies = Vec::new();
    for path in paths {
        let answer = proxy.get(path).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        assert!(!values(&answer, "cache-status")[0].starts_with("larder; hit"), "{path}: {answer}");
        bodies.push(body(&answer).to_owned());
    }
    for (path, first) in paths.iter().zip(&bodies) {
        let again = proxy.get(path).await;
        assert!(values(&again, "cache-status")[0].starts_with("larder; hit"), "{path}: {again}");
        assert_eq!(body(&again), first, "{path}");
        let target = path.split('#').next().unwrap();
        assert!(first.starts_with(&format!("GET {target} ")), "{path}: the origin gets it as it is: {first}");
    }
    assert_eq!(origin.requests(), paths.len());
}

/// The page of a user under a path that looks like a static file. The fields of the origin decide, and not the suffix.
#[tokio::test]
async fn page_of_a_user_is_not_stored_for_its_suffix() {
    let origin = HttpOrigin::start(|request: Request<Incoming>| async move {
        let user =
            request.headers().get("cookie").map_or("nobody", |cookie| cookie.to_str().unwrap()).to_owned();
        let mut response = Response::new(full(format!("page of {user}")));
        let control = match request.uri().query() {
            Some("silent") => None,
            Some("private") => Some("private, max-age=60"),
            _ => Some("no-store"),
        };
        control
            .map(|control| response.headers_mut().insert("cache-control", HeaderValue::from_static(control)));
        response
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    for target in ["/account/x.css", "/account/x.css?private", "/account/x.css?silent", "/account%2Fx.js"] {
        let own = proxy.exchange(attack(&format!("GET {target}"), "Cookie: session=ann\r\n")).await;
        assert!(own.ends_with("page of session=ann"), "{own}");
        let other = proxy.get(target).await;
        assert!(other.ends_with("page of nobody"), "{target}: {other}");
    }
}

/// One part, one failure or one redirect must not answer for the page.
#[tokio::test]
async fn provoked_response_never_replaces_a_page() {
    let origin = HttpOrigin::start(|request: Request<Incoming>| async move {
        let mut response = Response::new(full("page"));
        let status = match request.headers().get("x-provoke").map(|value| value.to_str().unwrap()) {
            Some(status) => status.parse().unwrap(),
            None => 200,
        };
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert("cache-control", HeaderValue::from_static("public, max-age=60"));
        if status == 206 {
            response.headers_mut().insert("content-range", HeaderValue::from_static("bytes 0-3/9"));
        }
        response
    })
    .await;
    for status in ["206", "304", "412", "416", "429", "431", "511"] {
        let proxy = in_front_of(origin.address).await;
        proxy.exchange(attack("GET /page", &format!("X-Provoke: {status}\r\n"))).await;
        let victim = proxy.get("/page").await;
        assert!(victim.starts_with("HTTP/1.1 200 ") && victim.ends_with("page"), "{status}: {victim}");
    }
}
