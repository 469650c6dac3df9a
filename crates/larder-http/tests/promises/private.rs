//! Nothing personal is shared: a response for one user never reaches another, even if the handler opts in.

use larder_http::{Cached, Scope};
use tower::ServiceExt;

use crate::support::*;

#[tokio::test]
async fn request_with_credentials_bypasses() {
    let site = Site::counting();
    site.get("/").await;
    for name in ["authorization", "proxy-authorization"] {
        let response = site.send(get("/", &[(name, "Basic dTpw")])).await;
        assert_eq!(response.cache_status(), "fwd=bypass; detail=authorization");
    }
    assert_eq!(site.get("/").await.body, "1", "the entry of anonymous requests is still stored");
    assert_eq!(site.send(get("/other", &[("authorization", "Basic dTpw")])).await.body, "4");
    assert_eq!(site.get("/other").await.body, "5");
}

#[tokio::test]
async fn configured_credential_field_bypasses() {
    let site = Site::with(
        |builder| builder.credential_fields([http::HeaderName::from_static("x-api-key")]),
        |_, call| async move { cached(call.to_string()) },
    );
    site.get("/").await;
    let response = site.send(get("/", &[("X-API-Key", "k")])).await;
    assert_eq!(
        (response.cache_status(), &response.body[..]),
        ("fwd=bypass; detail=authorization", &b"2"[..])
    );
}

#[tokio::test]
async fn request_with_cookie_gets_its_own_response() {
    let site = Site::counting();
    site.get("/").await;
    let response = site.send(get("/", &[("cookie", "session=1")])).await;
    assert_eq!((response.cache_status(), &response.body[..]), ("fwd=bypass; detail=cookie", &b"2"[..]));
    let response = site.send(get("/other", &[("cookie", "session=1")])).await;
    assert_eq!(response.cache_status(), "fwd=uri-miss; detail=cookie");
    assert_eq!(site.get("/other").await.body, "4", "the response was not stored");
}

#[tokio::test]
async fn public_scope_allows_hits_with_cookies() {
    let site = Site::new(|_, call| async move {
        with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Public))
    });
    assert_eq!(site.send(get("/", &[("cookie", "_ga=1")])).await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.send(get("/", &[("cookie", "_ga=2")])).await.body, "1");
    assert_eq!(site.get("/").await.body, "1");
}

#[tokio::test]
async fn request_with_cookie_never_follows_another() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = Site::new(move |request, call| {
        let gate = handler_gate.clone();
        async move {
            if !request.headers().contains_key("cookie") {
                gate.acquire().await.unwrap().forget();
            }
            cached(call.to_string())
        }
    });
    let service = site.service.clone();
    let anonymous =
        tokio::spawn(async move { tower::ServiceExt::oneshot(service, get("/", &[])).await.unwrap() });
    settle().await;
    assert_eq!(site.send(get("/", &[("cookie", "a=b")])).await.body, "2");
    gate.add_permits(1);
    assert_eq!(CollectedResponse::read(anonymous.await.unwrap()).await.unwrap().body, "1");
}

#[tokio::test]
async fn personal_response_headers_override_opt_in() {
    for (name, value, detail) in [
        ("set-cookie", "session=1", "set-cookie"),
        ("cache-control", "max-age=60, PRIVATE", "private"),
        ("cache-control", "No-Store", "no-store"),
        ("cache-control", "private=\"x-user\"", "private"),
        ("vary", "accept, Cookie", "vary-credentials"),
        ("vary", "authorization", "vary-credentials"),
        ("access-control-allow-origin", "https://one.example", "cors"),
    ] {
        let site = Site::new(move |_, call| async move { field(cached(call.to_string()), name, value) });
        assert_eq!(
            site.get("/").await.cache_status(),
            format!("fwd=uri-miss; detail={detail}"),
            "{name}: {value}"
        );
        assert_eq!(site.get("/").await.body, "2", "{name}: {value}");
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn reflected_origin_is_served_only_to_that_origin() {
    let site = Site::new(|request, _| async move {
        let origin = request.headers()["origin"].to_str().unwrap().to_owned();
        let reply = field(cached("x"), "access-control-allow-origin", &origin);
        field(reply, "vary", "Origin")
    });
    for _ in 0..2 {
        for origin in ["https://one.example", "https://two.example"] {
            let response = site.send(get("/", &[("origin", origin)])).await;
            assert_eq!(response.header("access-control-allow-origin"), Some(origin));
        }
    }
    assert_eq!(site.calls(), 2);
}

#[tokio::test]
async fn request_with_no_store_is_not_stored() {
    let site = Site::counting();
    let response = site.send(get("/", &[("cache-control", "no-store")])).await;
    assert_eq!(response.cache_status(), "fwd=bypass; detail=request-no-store");
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn only_ignored_cookies_are_treated_as_no_cookie() {
    let site = Site::with(
        |builder| builder.ignored_cookies(["_ga", "theme"]),
        |request, call| async move {
            let cookies = request.headers().get("cookie").map_or("", |cookies| cookies.to_str().unwrap());
            cached(format!("{cookies}{call}"))
        },
    );
    for cookies in
        ["_ga=1", "theme=dark; _ga=2", "theme = \"x=y\"", "_ga=1;", "; _ga=1;;theme=dark ; ", "", " ", ";"]
    {
        let response = site.send(get("/", &[("cookie", cookies)])).await;
        assert_eq!(response.body, "1", "{cookies}");
    }
    for cookies in ["session=1", "_ga=1; session=1;", "_GA=1", "_ga", "=1", "_ga=1, session=2; x"] {
        let response = site.send(get("/", &[("cookie", cookies)])).await;
        assert_eq!(response.cache_status(), "fwd=bypass; detail=cookie", "{cookies:?}");
    }
}

#[tokio::test]
async fn ignored_cookies_do_not_prevent_coalescing() {
    let site = Site::with(
        |builder| builder.ignored_cookies(["_ga"]),
        |_, call| async move {
            settle().await;
            cached(call.to_string())
        },
    );
    let requests = (0..5).map(|n| get("/", &[("cookie", &format!("_ga={n}"))]));
    let tasks: Vec<_> = requests.map(|request| tokio::spawn(site.service.clone().oneshot(request))).collect();
    for task in tasks {
        assert_eq!(CollectedResponse::read(task.await.unwrap().unwrap()).await.unwrap().body, "1");
    }
}

#[tokio::test]
async fn personal_extension_never_reaches_a_shared_fill() {
    #[derive(Clone)]
    struct Principal(&'static str);
    let site = Site::with(
        |builder| builder.personal_extension::<Principal>(),
        |request, _| async move {
            cached(request.extensions().get::<Principal>().map_or("nobody", |Principal(name)| name))
        },
    );
    for name in ["ann", "bob"] {
        let mut request = get("/", &[]);
        request.extensions_mut().insert(Principal(name));
        let response = site.send(request).await;
        let expected = (name.as_bytes(), "fwd=uri-miss; detail=personal-extension");
        assert_eq!((&response.body[..], response.cache_status()), expected);
    }
    assert_eq!(site.get("/").await.body, "nobody");
}

#[tokio::test]
async fn personal_extension_never_reaches_a_refresh() {
    #[derive(Clone)]
    struct Principal;
    let site = Site::with(
        |builder| builder.personal_extension::<Principal>(),
        |request, call| async move {
            let user = request.extensions().get::<Principal>().map_or("nobody", |_| "ann");
            with_cached(plain(format!("{user} {call}")), Cached::ttl(MINUTE).swr(MINUTE).scope(Scope::Public))
        },
    );
    site.get("/").await;
    site.clock.advance(MINUTE + SECOND);
    let mut request = get("/", &[]);
    request.extensions_mut().insert(Principal);
    assert_eq!(site.send(request).await.body, "nobody 1");
    settle().await;
    assert_eq!(site.get("/").await.body, "nobody 2");
}
