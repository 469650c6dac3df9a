//! A response that one client provokes never reaches another client.

use http::header::{HOST, VARY};
use http::{HeaderName, Request, StatusCode};
use larder_http::{Access, Cached, RequestFields, Scope, UnkeyedField};
use tower::ServiceExt;

use crate::support::*;

/// A path as a careless router takes it: decoded, without parameters, extension and dot segments.
fn careless_path(raw: &str) -> String {
    let decoded = raw.replace("%2f", "/").replace("%2e", ".").replace("%3b", ";").replace("%00", ";");
    let decoded = decoded.replace("%23", ";").replace("%3f", ";");
    let mut segments = Vec::new();
    for segment in decoded.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment.trim_end_matches(".css").to_owned()),
        }
    }
    segments.first().cloned().unwrap_or_default()
}

/// Pages of `/account` are personal, and the router does not check the session; those below `/static` are cached.
fn careless_site() -> Site {
    Site::new(|request, _| async move {
        let user = request.headers().get("cookie").map_or("nobody", |cookie| cookie.to_str().unwrap());
        match careless_path(request.uri().path()).as_str() {
            "account" => plain(format!("account of {user}")),
            _ => cached(format!("{} as {}", request.uri(), careless_path(request.uri().path()))),
        }
    })
}

#[tokio::test]
async fn deceptive_path_stores_no_personal_page() {
    let site = careless_site();
    for path in [
        "/account/style.css",
        "/account.css",
        "/account;x.css",
        "/account%3bx.css",
        "/account%2fstyle.css",
        "/account%00.css",
        "/account%23.css",
        "/account%3f.css",
        "/static/../account",
        "/static/..%2faccount",
        "/static/%2e%2e/account",
        "//account",
    ] {
        let victim = site.send(get(path, &[("cookie", "user=victim")])).await;
        assert_eq!(victim.body, "account of user=victim", "{path}");
        assert_eq!(site.get(path).await.body, "account of nobody", "{path}");
    }
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn personal_page_that_opts_in_by_mistake_is_not_stored() {
    let site = Site::new(|request, _| async move {
        let user = request.headers().get("cookie").map_or("nobody", |cookie| cookie.to_str().unwrap());
        cached(format!("account of {user}"))
    });
    for path in ["/account", "/account/style.css"] {
        let victim = site.send(get(path, &[("cookie", "user=victim")])).await;
        assert_eq!(victim.body, "account of user=victim");
        assert_eq!(site.get(path).await.body, "account of nobody");
        let victim = site.send(get(path, &[("cookie", "user=victim")])).await;
        assert_eq!(victim.body, "account of user=victim");
    }
}

#[tokio::test]
async fn equivalent_spellings_of_a_path_have_own_entries() {
    let site = Site::new(|request, _| async move { cached(request.uri().to_string()) });
    let targets = [
        "/a/b",
        "/a%2fb",
        "/a%2Fb",
        "/a/./b",
        "/a/c/../b",
        "/a//b",
        "/a/b/",
        "/a/b;x=1",
        "/a/b%3bx=1",
        "/a/b?q",
        "/a/b%3fq",
        "/a/b%3Fq",
        "/a/b?",
        "/a/b%00",
        "/a/b%23",
        "/A/b",
        "/%61/b",
        "/a/b?q=1;r=2",
        "/a/b?q=1&r=2",
        "/a/b?q=1%26r=2",
        "/a/b?r=2&q=1",
        "/a/b?q=1&q=2",
        "/a/b?q=1&r=2&utm=x",
    ];
    for _ in 0..2 {
        for target in targets {
            assert_eq!(site.get(target).await.body, target);
        }
    }
    assert_eq!(site.calls(), targets.len());
}

#[tokio::test]
async fn hosts_share_an_entry_only_if_they_are_equal() {
    let host_site = || {
        Site::new(|request, _| async move {
            cached(request.headers().get("host").map_or(Vec::new(), |host| host.as_bytes().to_vec()))
        })
    };
    let send = async |site: &Site, host: &str| {
        let request = Request::get("/").header("host", host).body(String::new()).unwrap();
        site.send(request).await
    };
    for host in ["SITE.example", "site.example:80", "Site.Example:80"] {
        let site = host_site();
        send(&site, "site.example").await;
        assert_eq!(send(&site, host).await.cache_status(), "hit; ttl=60", "{host}");
    }
    let site = host_site();
    for host in
        ["site.example", "site.example.", "site.example:443", "site.example:8080", "site.example:080", ""]
    {
        assert_eq!(send(&site, host).await.body, host);
        assert_eq!(send(&site, host).await.body, host);
    }
    for host in
        [":80", "site.example:80:80", "site.example:8o", "[site.example", "a site.example", "a,site.example"]
    {
        assert_eq!(send(&site, host).await.cache_status(), "fwd=bypass; detail=authority", "{host}");
    }
}

#[tokio::test]
async fn reflected_field_reaches_only_its_variant() {
    for name in
        ["x-forwarded-host", "x-forwarded-proto", "x-original-url", "x-rewrite-url", "forwarded", "x-host"]
    {
        let site = Site::new(move |request, _| async move {
            let value = request.headers().get(name).map_or("site.example", |value| value.to_str().unwrap());
            field(cached(format!("<script src=//{value}/x.js>")), "vary", name)
        });
        for _ in 0..2 {
            let evil = site.send(get("/", &[(name, "evil.example")])).await;
            assert_eq!(evil.body, "<script src=//evil.example/x.js>");
            assert_eq!(site.get("/").await.body, "<script src=//site.example/x.js>", "{name}");
        }
        assert_eq!(site.calls(), 2, "both are stored");
    }
}

#[tokio::test]
async fn any_reflected_origin_needs_vary() {
    for origins in [&["null"][..], &["https://evil.example"], &["*", "https://evil.example"], &[""]] {
        let site = Site::new(move |_, call| async move {
            let origins = origins.iter();
            origins.fold(cached(call.to_string()), |reply, origin| {
                field(reply, "access-control-allow-origin", origin)
            })
        });
        assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=cors", "{origins:?}");
        assert_eq!(site.get("/").await.body, "2");
    }
}

#[tokio::test]
async fn cookie_of_a_response_is_never_stored_in_any_scope() {
    for scope in [Scope::Public, Scope::Gated, Scope::Private] {
        let site = Site::with(
            |b| b.gate(|_| std::future::ready(Access::AllowedAs("ann".to_owned()))),
            move |_, call| async move {
                let reply = with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(scope));
                field(reply, "set-cookie", "session=first")
            },
        );
        let first = site.send(get("/", &[("cookie", "a=b")])).await;
        assert_eq!(first.cache_status(), "fwd=uri-miss; detail=set-cookie", "{scope:?}");
        assert_eq!(site.get("/").await.body, "2");
    }
}

#[tokio::test]
async fn provoked_error_never_replaces_a_page() {
    for code in [400, 413, 414, 431] {
        let site = Site::new(move |request, _| async move {
            let is_provoked = request.headers().contains_key("x-oversized");
            let status = StatusCode::from_u16(if is_provoked { code } else { 200 }).unwrap();
            let every = (300..600).map(|code| StatusCode::from_u16(code).unwrap());
            let mut reply = with_cached(plain(code.to_string()), Cached::ttl(MINUTE).cached_errors(every));
            *reply.status_mut() = status;
            reply
        });
        let attack = || site.send(get("/", &[("x-oversized", "x")]));
        assert_eq!(attack().await.status, code, "nothing is stored yet");
        assert_eq!(site.get("/").await.status, StatusCode::OK, "{code}");
        assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored", "hit-for-miss has ended");
        assert_eq!(attack().await.status, StatusCode::OK, "the stored page answers the attacker too");
        site.clock.advance(MINUTE);
        assert_eq!(attack().await.status, code);
        assert_eq!(site.get("/").await.status, StatusCode::OK, "{code}");
    }
}

#[tokio::test]
async fn denied_or_empty_refresh_ends_the_stale_entry() {
    for code in [204, 401, 403, 404, 410] {
        let site = Site::new(move |_, call| async move {
            let mut reply = with_cached(plain(call.to_string()), Cached::ttl(SECOND).swr(MINUTE));
            if call > 1 {
                *reply.status_mut() = StatusCode::from_u16(code).unwrap();
            }
            reply
        });
        site.get("/").await;
        site.clock.advance(SECOND);
        assert_eq!(site.get("/").await.cache_status(), "hit; ttl=0; detail=stale");
        settle().await;
        assert_eq!(site.get("/").await.status, code, "the page of the time before is gone");
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn no_request_field_or_method_purges() {
    let site = Site::new(|request, call| async move {
        let mut reply = cached(call.to_string());
        if request.method() != http::Method::GET {
            *reply.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        }
        reply
    });
    site.get("/").await;
    for field in [
        ("cache-control", "no-cache"),
        ("cache-control", "max-age=0"),
        ("pragma", "no-cache"),
        ("x-invalidate-cache", "1"),
        ("x-purge", "*"),
        ("surrogate-key", "products"),
        ("cache-tag", "products"),
        ("cache-groups", "\"products\""),
        ("cache-group-invalidation", "\"products\""),
    ] {
        assert_eq!(site.send(get("/", &[field])).await.body, "1", "{field:?}");
    }
    for method in ["PURGE", "BAN", "INVALIDATE", "DELETE"] {
        site.send(request(method, "/", &[("x-purge-regex", ".*")])).await;
        assert_eq!(site.get("/").await.body, "1", "{method}");
    }
    assert_eq!(site.cache.stats().purges, 0);
}

/// A handler that makes the links of its page from a field, and repeats the cookies.
async fn reflecting(request: Request<String>) -> Reply {
    let lines = ["x-forwarded-host", "cookie"].map(|name| request.headers().get(name));
    cached(lines.map(|line| line.map_or("-", |line| line.to_str().unwrap())).join(" "))
}

#[tokio::test]
async fn field_outside_handler_fields_never_reaches_handler() {
    let fields = [("x-forwarded-host", "evil.test"), ("accept", "text/html")];
    let open = Site::new(|request, _| reflecting(request));
    open.send(get("/", &fields)).await;
    assert_eq!(open.get("/").await.body, "evil.test -", "without the option it is left to the handler");
    let closed = Site::with(
        |builder| builder.handler_fields([http::header::ACCEPT]).wait_timeout(SECOND),
        |request, call| async move {
            if request.method() == "GET" {
                assert!(!request.headers().contains_key("x-forwarded-host"), "call {call}");
                assert_eq!(request.headers()["accept"], "text/html");
            }
            match request.uri().path() {
                "/unstored" => plain("-"),
                _ => reflecting(request).await,
            }
        },
    );
    assert_eq!(closed.send(get("/", &fields)).await.body, "- -");
    assert_eq!(closed.get("/").await.cache_status(), "hit; ttl=60");
    for expected in ["fwd=uri-miss; detail=not-opted-in", "fwd=uri-miss; detail=hit-for-miss"] {
        assert_eq!(closed.send(get("/unstored", &fields)).await.cache_status(), expected);
    }
    let whole = closed.send(request("POST", "/", &fields)).await;
    assert_eq!(whole.body, "evil.test -", "what bypasses is complete");
}

#[tokio::test]
async fn ignored_cookie_never_reaches_a_handler_whose_response_is_stored() {
    let site = Site::with(|builder| builder.ignored_cookies(["_ga"]), |request, _| reflecting(request));
    site.send(get("/", &[("cookie", "_ga=<script>")])).await;
    assert_eq!(site.get("/").await.body, "- -");
}

#[tokio::test]
async fn response_that_depends_on_an_unkeyed_field_is_not_stored() {
    let forwarded_host = || HeaderName::from_static("x-forwarded-host");
    let site = Site::new(move |request, _| async move {
        let (fields, is_varied) = (RequestFields::of(&request), request.uri().path() == "/varied");
        let read = if request.uri().path() == "/host" { HOST } else { forwarded_host() };
        let mut reply = cached(format!("{:?} {}", fields.get(&read), fields.get_all(&read).iter().count()));
        if is_varied {
            reply.headers_mut().insert(VARY, forwarded_host().into());
        }
        reply
    });
    let evil = [("x-forwarded-host", "evil.test")];
    let response = site.service.clone().oneshot(get("/", &evil)).await.unwrap();
    assert_eq!(response.headers()["cache-status"], "larder; fwd=uri-miss; detail=unkeyed-field");
    assert_eq!(response.extensions().get(), Some(&UnkeyedField(forwarded_host())));
    assert_eq!(site.get("/").await.body, "None 0");
    // Nothing was read, but the response depends on that.
    assert_eq!(site.get("/absent").await.cache_status(), "fwd=uri-miss; detail=unkeyed-field");
    for path in ["/varied", "/host"] {
        assert_eq!(site.send(get(path, &evil)).await.cache_status(), "fwd=uri-miss; stored", "{path}");
        assert_eq!(site.send(get(path, &evil)).await.cache_status(), "hit; ttl=60", "{path}");
    }
    assert_eq!(site.get("/varied").await.body, "None 0");
}
