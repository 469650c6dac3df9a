//! Nothing personal is shared: no response made for one user reaches another, whatever the handler asked for.

use larder_http::Cached;

use crate::support::*;

#[tokio::test]
async fn a_request_with_credentials_is_neither_answered_nor_stored() {
    let site = Site::counting();
    site.get("/").await;
    for name in ["authorization", "proxy-authorization"] {
        let answer = site.send(get("/", &[(name, "Basic dTpw")])).await;
        assert_eq!(answer.says(), "fwd=bypass; detail=authorization");
    }
    assert_eq!(site.get("/").await.body, "1", "the entry of the anonymous stays");
    assert_eq!(site.send(get("/other", &[("authorization", "Basic dTpw")])).await.body, "4");
    assert_eq!(site.get("/other").await.body, "5");
}

#[tokio::test]
async fn other_credentials_can_be_named() {
    let site = Site::with(
        |builder| builder.credential_fields([http::HeaderName::from_static("x-api-key")]),
        |_, call| async move { cached(call.to_string()) },
    );
    site.get("/").await;
    let answer = site.send(get("/", &[("X-API-Key", "k")])).await;
    assert_eq!((answer.says(), &answer.body[..]), ("fwd=bypass; detail=authorization", &b"2"[..]));
}

#[tokio::test]
async fn a_request_with_cookies_gets_its_own_response() {
    let site = Site::counting();
    site.get("/").await;
    let answer = site.send(get("/", &[("cookie", "session=1")])).await;
    assert_eq!((answer.says(), &answer.body[..]), ("fwd=bypass; detail=cookie", &b"2"[..]));
    let answer = site.send(get("/other", &[("cookie", "session=1")])).await;
    assert_eq!(answer.says(), "fwd=uri-miss; detail=cookie");
    assert_eq!(site.get("/other").await.body, "4", "nothing of it was stored");
}

#[tokio::test]
async fn cookies_declared_meaningless_do_not_matter() {
    let site =
        Site::new(
            |_, call| async move { with(plain(call.to_string()), Cached::ttl(MINUTE).ignore_cookies()) },
        );
    assert_eq!(site.send(get("/", &[("cookie", "_ga=1")])).await.says(), "fwd=uri-miss; stored");
    assert_eq!(site.send(get("/", &[("cookie", "_ga=2")])).await.body, "1");
    assert_eq!(site.get("/").await.body, "1");
}

#[tokio::test]
async fn a_request_with_cookies_never_waits_for_another() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let held = gate.clone();
    let site = Site::new(move |request, call| {
        let gate = held.clone();
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
    assert_eq!(Answer::read(anonymous.await.unwrap()).await.unwrap().body, "1");
}

#[tokio::test]
async fn headers_that_make_a_response_personal_overrule_the_wish() {
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
        assert_eq!(site.get("/").await.says(), format!("fwd=uri-miss; detail={detail}"), "{name}: {value}");
        assert_eq!(site.get("/").await.body, "2", "{name}: {value}");
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn an_origin_is_reflected_only_to_itself() {
    let site = Site::new(|request, _| async move {
        let origin = request.headers()["origin"].to_str().unwrap().to_owned();
        let reply = field(cached("x"), "access-control-allow-origin", &origin);
        field(reply, "vary", "Origin")
    });
    for _ in 0..2 {
        for origin in ["https://one.example", "https://two.example"] {
            let answer = site.send(get("/", &[("origin", origin)])).await;
            assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        }
    }
    assert_eq!(site.calls(), 2);
}

#[tokio::test]
async fn a_client_that_asks_for_no_store_leaves_no_trace() {
    let site = Site::counting();
    let answer = site.send(get("/", &[("cache-control", "no-store")])).await;
    assert_eq!(answer.says(), "fwd=bypass; detail=request-no-store");
    assert_eq!(site.get("/").await.body, "2");
}
