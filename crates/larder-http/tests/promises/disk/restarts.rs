//! After a restart, and for what memory has no room, the disk answers as memory would.

use std::future::ready;

use larder_http::{BodyRule, Cached, Outcome};

use super::*;

#[tokio::test]
async fn response_outlives_a_clean_end() {
    let folder = Folder::new();
    let site = folder.site(|_, call| ready(field(cached(call.to_string()), "x-made-by", "handler")));
    let first = site.get("/a").await;
    writes(&site, 1).await;
    drop(site);
    let site = folder.counting("later");
    assert_eq!(disk(&site).entries, 1);
    let second = site.get("/a").await;
    assert_eq!((&second.body[..], second.header("x-made-by")), (&b"1"[..], Some("handler")));
    assert_eq!(second.header("etag"), first.header("etag"));
    assert_eq!(second.header("date"), first.header("date"));
    let Outcome::Disk { ttl } = second.outcome else { panic!("{:?}", second.outcome) };
    assert!((40..=60).contains(&ttl), "{ttl}");
    assert_eq!(second.cache_status(), format!("hit; ttl={ttl}; detail=disk"));
    assert!(matches!(site.get("/a").await.outcome, Outcome::Hit { .. }), "memory has it now");
    assert_eq!(site.calls(), 0);
    let stats = site.cache.stats();
    assert_eq!((stats.disk_hits, stats.hits), (1, 1));
}

#[tokio::test]
async fn response_outlives_a_killed_process() {
    let folder = Folder::new();
    let site = folder.counting("first");
    site.get("/a").await;
    writes(&site, 1).await;
    let killed = folder.copy();
    let site = killed.counting("second");
    assert_eq!(site.get("/a").await.body, "first 1");
    drop(site);
    assert_eq!(killed.counting("third").get("/a").await.body, "first 1", "and the next one");
}

/// What the system had not written yet is lost with the machine, and so may be a purge.
#[tokio::test]
async fn response_outlives_another_start_of_the_machine_after_a_clean_end_only() {
    let folder = Folder::new();
    let site = folder.counting("first");
    site.get("/a").await;
    writes(&site, 1).await;
    let stopped = folder.copy();
    stopped.change_boot();
    let other = stopped.counting("cold");
    assert_eq!((&other.get("/a").await.body[..], disk(&other).is_on), (&b"cold 1"[..], true));
    drop(site);
    let clean = folder.copy();
    clean.change_boot();
    assert_eq!(clean.counting("second").get("/a").await.body, "first 1");
    let site = folder.counting("third");
    let unclean = folder.copy();
    unclean.change_boot();
    assert_eq!(unclean.counting("cold").get("/a").await.body, "cold 1", "it was in use again");
    drop(site);
}

#[tokio::test]
async fn bodies_beyond_memory_are_answered_from_disk() {
    const RESPONSES: usize = 100;
    let folder = Folder::new();
    let site = folder.site_with(
        |builder| builder.max_bytes(64 << 10),
        |request, _| ready(cached(format!("{} {}", request.uri(), "x".repeat(8000)))),
    );
    for number in 0..RESPONSES {
        site.get(&format!("/{number}")).await;
        writes(&site, number as u64 + 1).await;
    }
    for number in 0..RESPONSES {
        let found = site.get(&format!("/{number}")).await;
        assert!(found.body.starts_with(format!("/{number} ").as_bytes()));
    }
    assert_eq!(site.calls(), RESPONSES);
    let stats = site.cache.stats();
    assert!(stats.disk_hits > 80 && stats.bytes <= 64 << 10, "{stats:?}");
    assert_eq!(disk(&site).writes, RESPONSES as u64, "what was read is not written again");
}

#[tokio::test]
async fn concurrent_requests_read_once() {
    let folder = Folder::new();
    folder_with(&folder, |_, _| cached("a")).await;
    let site = folder.counting("handler");
    let (one, other) = tokio::join!(site.get("/a"), site.get("/a"));
    assert_eq!((&one.body[..], &other.body[..]), (&b"a"[..], &b"a"[..]));
    assert_eq!((site.calls(), site.cache.stats().disk_hits), (0, 1));
}

/// Stores the response to `/a` and its like in a folder that is closed then.
async fn folder_with(folder: &Folder, reply: fn(http::Request<String>, usize) -> Reply) {
    let site = folder.site(move |request, call| ready(reply(request, call)));
    site.get("/a").await;
    writes(&site, 1).await;
}

#[tokio::test]
async fn head_range_and_condition_are_answered_from_disk() {
    let folder = Folder::new();
    folder_with(&folder, |_, _| field(cached("0123456789"), "etag", "\"e\"")).await;
    for (method, fields, status, body) in [
        ("HEAD", &[][..], 200, ""),
        ("GET", &[("range", "bytes=2-4")], 206, "234"),
        ("GET", &[("if-none-match", "\"e\"")], 304, ""),
        ("GET", &[("cache-control", "only-if-cached")], 200, "0123456789"),
    ] {
        let site = folder.counting("handler");
        let found = site.send(request(method, "/a", fields)).await;
        assert_eq!(
            (found.status.as_u16(), &found.body[..]),
            (status, body.as_bytes()),
            "{method} {fields:?}"
        );
        assert!(matches!(found.outcome, Outcome::Disk { .. }), "{:?}", found.outcome);
        assert_eq!(site.calls(), 0);
    }
}

#[tokio::test]
async fn head_of_what_is_nowhere_goes_to_the_handler() {
    let folder = Folder::new();
    let site = folder.counting("handler");
    let found = site.send(request("HEAD", "/b", &[])).await;
    assert_eq!((found.cache_status(), site.calls()), ("fwd=bypass; detail=head", 1));
}

#[tokio::test]
async fn variants_are_answered_from_disk() {
    let by_language = |request: http::Request<String>, call: usize| {
        let language = request.headers()["accept-language"].to_str().unwrap().to_owned();
        ready(field(cached(format!("{language} {call}")), "vary", "accept-language"))
    };
    let folder = Folder::new();
    let site = folder.site(by_language);
    for language in ["de", "fr"] {
        site.send(get("/a", &[("accept-language", language)])).await;
    }
    writes(&site, 3).await;
    let site = folder.after(site).site(by_language);
    for (language, body) in [("fr", "fr 2"), ("de", "de 1")] {
        let found = site.send(get("/a", &[("accept-language", language)])).await;
        assert_eq!(found.body, body);
        assert!(matches!(found.outcome, Outcome::Disk { .. }));
    }
    assert_eq!(site.send(get("/a", &[("accept-language", "it")])).await.body, "it 1");
}

impl Folder {
    /// The folder after its site has ended.
    fn after(&self, site: Site) -> &Folder {
        drop(site);
        self
    }
}

/// The rule is learnt again, and until then a purge of a URI would not reach what is stored under another query.
#[tokio::test]
async fn response_under_a_query_rule_stays_in_memory() {
    let with_rule = |first: usize| {
        move |_, call: usize| {
            let reply = field(plain((first + call).to_string()), "cache-control", "max-age=100");
            ready(field(reply, "no-vary-search", "params=(\"x\")"))
        }
    };
    let folder = Folder::new();
    let site = folder.rfc_site(with_rule(0));
    for (query, body) in [("x=1", "1"), ("x=1", "2"), ("x=2", "2"), ("x=3", "2")] {
        assert_eq!(site.get(&format!("/a?{query}")).await.body, body);
    }
    let site = folder.after(site).rfc_site(with_rule(10));
    for (query, body) in [("x=3", "11"), ("x=3", "12"), ("x=2", "12")] {
        assert_eq!(site.get(&format!("/a?{query}")).await.body, body);
    }
}

#[tokio::test]
async fn stale_response_is_served_within_its_grace_period() {
    let folder = Folder::new();
    let with_grace = |_, call: usize| {
        let settings = Cached::ttl(Duration::from_millis(1)).swr(MINUTE);
        ready(with_cached(plain(call.to_string()), settings))
    };
    let site = folder.site(with_grace);
    site.get("/a").await;
    writes(&site, 1).await;
    let site = folder.after(site).counting("later");
    let found = site.get("/a").await;
    assert!(matches!(found.outcome, Outcome::Stale { .. }), "{:?}", found.outcome);
    assert_eq!(found.body, "1");
}

/// An origin whose response is validated at each use: `"1"` is its `ETag` for ever.
fn validated(request: http::Request<String>, call: usize) -> Reply {
    let is_current = request.headers().get("if-none-match").is_some_and(|etag| etag == "\"1\"");
    let mut reply = plain(if is_current { String::new() } else { call.to_string() });
    *reply.status_mut() = if is_current { http::StatusCode::NOT_MODIFIED } else { http::StatusCode::OK };
    [("cache-control", "max-age=0"), ("etag", "\"1\"")]
        .into_iter()
        .fold(reply, |reply, (name, value)| field(reply, name, value))
}

#[tokio::test]
async fn expired_response_is_validated_by_its_origin() {
    let folder = Folder::new();
    let site = folder.rfc_site(|request, call| ready(validated(request, call)));
    site.get("/a").await;
    writes(&site, 1).await;
    let site = folder.after(site).rfc_site(|request, call| ready(validated(request, call + 100)));
    let found = site.get("/a").await;
    assert_eq!((&found.body[..], found.outcome), (&b"1"[..], Outcome::Validated));
    assert_eq!(site.calls(), 1);
    writes(&site, 1).await;
}

#[tokio::test]
async fn expired_response_is_served_if_its_origin_fails() {
    let folder = Folder::new();
    let with_error = |_, call: usize| {
        let mut reply = field(plain(call.to_string()), "cache-control", "max-age=0, stale-if-error=1000");
        reply.headers_mut().insert("etag", "\"1\"".parse().unwrap());
        ready(reply)
    };
    let site = folder.rfc_site(with_error);
    site.get("/a").await;
    writes(&site, 1).await;
    let site = folder.after(site).rfc_site(|_, _| {
        let mut reply = plain("down");
        *reply.status_mut() = http::StatusCode::BAD_GATEWAY;
        ready(reply)
    });
    let found = site.get("/a").await;
    assert_eq!((&found.body[..], site.calls()), (&b"1"[..], 1));
    assert!(matches!(found.outcome, Outcome::Stale { .. }), "{:?}", found.outcome);
}

/// The client states its own terms.
#[tokio::test]
async fn fresh_response_is_validated_for_a_client_that_asks_for_it() {
    let fresh = |request: http::Request<String>, call: usize| {
        let mut reply = validated(request, call);
        reply.headers_mut().insert("cache-control", "max-age=1000".parse().unwrap());
        ready(reply)
    };
    let folder = Folder::new();
    let site = folder.rfc_site(fresh);
    site.get("/a").await;
    writes(&site, 1).await;
    let site = folder.after(site).rfc_site(fresh);
    let found = site.send(get("/a", &[("cache-control", "no-cache")])).await;
    assert_eq!((&found.body[..], found.outcome), (&b"1"[..], Outcome::Validated));
}

#[tokio::test]
async fn response_to_a_request_with_credentials_is_answered_from_disk_if_it_is_public() {
    let public = |_, call: usize| {
        ready(with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(larder_http::Scope::Public)))
    };
    let folder = Folder::new();
    let site = folder.site(public);
    site.get("/a").await;
    writes(&site, 1).await;
    let site = folder.after(site).site(public);
    let found = site.send(get("/a", &[("authorization", "Bearer x")])).await;
    assert!(matches!(found.outcome, Outcome::Disk { .. }), "{:?}", found.outcome);
    drop(site);
    let unscoped = Folder::new();
    folder_with(&unscoped, |_, _| cached("a")).await;
    let site = unscoped.counting("handler");
    let found = site.send(get("/a", &[("authorization", "Bearer x")])).await;
    assert_eq!(found.body, "handler 1", "it is for nobody with credentials");
}

#[tokio::test]
async fn response_of_little_use_is_not_written() {
    let folder = Folder::new();
    let site = folder.site(|request, _| {
        let ttl = if request.uri().path() == "/short" { SECOND * 9 } else { SECOND * 11 };
        ready(with_cached(plain("x"), Cached::ttl(ttl)))
    });
    site.get("/short").await;
    site.get("/long").await;
    writes(&site, 1).await;
    drop(site);
    assert_eq!(folder.entries().len(), 1);
}

/// Requests with a body have other keys than a URI, and are purged by it all the same: also if nobody knew of them meanwhile.
#[tokio::test]
async fn response_to_a_request_body_is_purged_with_its_uri_by_a_cache_without_the_rule() {
    use tower::{Layer, ServiceExt, service_fn};

    let folder = Folder::new();
    let search = |text: &'static str| {
        let cache = larder_http::HttpCache::builder().disk(&folder.path, DISK_BYTES).build().unwrap();
        let rules = larder_http::BodyRules::new().route("/search", BodyRule::post());
        let handler = service_fn(move |_: http::Request<axum::body::Body>| {
            ready(Ok::<_, std::convert::Infallible>(cached(text)))
        });
        let service = cache.layer().body_rules(rules).layer(handler);
        async move {
            let request = http::Request::post("http://site.example/search").body("q".into()).unwrap();
            let found = CollectedResponse::read(service.oneshot(request).await.unwrap()).await.unwrap();
            let written = async {
                while cache.stats().disk.unwrap().writes == 0 && found.body == text {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(SECOND * 20, written).await.unwrap();
            found.body
        }
    };
    assert_eq!(search("first").await, "first");
    assert_eq!(search("second").await, "first", "it was on disk");
    let site = folder.counting("handler");
    site.send(request("PUT", "/search", &[])).await;
    drop(site);
    assert_eq!(search("third").await, "third");
}
