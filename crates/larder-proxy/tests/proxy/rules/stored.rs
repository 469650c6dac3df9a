//! What a rule stores and for how long: TTL, grace period and bypass.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An origin whose responses are numbered. `status` and the fields are those of each.
async fn numbered(status: u16, fields: &'static [(&'static str, &'static str)]) -> HttpOrigin {
    let count = Arc::new(AtomicUsize::new(0));
    HttpOrigin::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move { reply(status, number.to_string(), fields) }
    })
    .await
}

fn ttl(path: &str, seconds: u64) -> RuleConfig {
    RuleConfig { ttl_seconds: Some(seconds), ..rule(path) }
}

#[tokio::test]
async fn ttl_replaces_the_freshness_that_the_origin_states() {
    for fields in
        [&[][..], &[("cache-control", "max-age=1")], &[("expires", "Thu, 01 Jan 1970 00:00:00 GMT")]]
    {
        let origin = numbered(200, fields).await;
        let proxy = start(with_rules(origin.address, [ttl("/shop", 600)])).await;
        let first = proxy.get("/shop/1").await;
        assert_eq!(cache_status(&first), "larder; fwd=uri-miss; stored", "{fields:?}");
        let second = proxy.get("/shop/1").await;
        let left: u64 = cache_status(&second).strip_prefix("larder; hit; ttl=").unwrap().parse().unwrap();
        assert!((590..=600).contains(&left), "{second}");
        let cookie = proxy.exchange(get_with("/shop/1", "Cookie: session=1\r\n")).await;
        assert_eq!((body(&cookie), origin.requests()), ("1", 1));
    }
}

#[tokio::test]
async fn ttl_stores_nothing_that_the_origin_forbids() {
    for fields in [
        &[("cache-control", "no-store")][..],
        &[("cache-control", "private, max-age=60")],
        &[("set-cookie", "session=1")],
        &[("vary", "*")],
    ] {
        let origin = numbered(200, fields).await;
        let proxy = start(with_rules(origin.address, [ttl("/", 600)])).await;
        assert_eq!(body(&proxy.get("/").await), "1");
        assert_eq!(body(&proxy.get("/").await), "2", "{fields:?}");
    }
}

#[tokio::test]
async fn ttl_is_not_for_failures_and_temporary_redirects() {
    for status in [302, 307, 400, 401, 403, 429, 500, 503] {
        let origin = numbered(status, &[]).await;
        let proxy = start(with_rules(origin.address, [ttl("/", 600)])).await;
        assert_eq!(body(&proxy.get("/").await), "1");
        assert_eq!(body(&proxy.get("/").await), "2", "{status}");
    }
    for status in [203, 301, 404, 410] {
        let origin = numbered(status, &[]).await;
        let proxy = start(with_rules(origin.address, [ttl("/", 600)])).await;
        proxy.get("/").await;
        assert_eq!(body(&proxy.get("/").await), "1", "{status}");
    }
}

#[tokio::test]
async fn ttl_counts_again_from_a_validation() {
    let origin = HttpOrigin::start(|request: Request<Incoming>| async move {
        match field(&request, "if-none-match").as_str() {
            "\"a\"" => reply(304, "", &[("etag", "\"a\"")]),
            _ => reply(200, "page", &[("etag", "\"a\""), ("vary", "accept")]),
        }
    })
    .await;
    let rule = RuleConfig { vary: vec!["x-tenant".into()], ..ttl("/", 1) };
    let proxy = start(with_rules(origin.address, [rule])).await;
    proxy.get("/").await;
    let validated = get_until(&proxy, |answer| !cache_status(answer).contains("hit")).await;
    assert_eq!(cache_status(&validated), "larder; fwd=stale; fwd-status=304; stored");
    assert_eq!((body(&validated), values(&validated, "vary")), ("page", vec!["accept", "x-tenant"]));
    assert_hit(&proxy.get("/").await);
}

#[tokio::test]
async fn grace_serves_stale_and_refreshes() {
    let origin = numbered(200, &[("cache-control", "max-age=1")]).await;
    let rule = RuleConfig { grace_seconds: Some(60), ..rule("/") };
    let proxy = start(with_rules(origin.address, [rule])).await;
    proxy.get("/").await;
    let stale = get_until(&proxy, |answer| {
        assert_hit(answer);
        cache_status(answer).ends_with("detail=stale")
    })
    .await;
    assert_eq!(body(&stale), "1");
    until(|| origin.requests() == 2).await;
}

#[tokio::test]
async fn bypass_neither_looks_up_nor_stores() {
    let origin = numbered(200, &[("cache-control", "max-age=60"), ("xkey", "a")]).await;
    let rules = [RuleConfig { bypass: true, ..rule("/live") }];
    let proxy = start(with_rules(origin.address, rules)).await;
    for expected in ["1", "2"] {
        let response = proxy.get("/live/x").await;
        assert_eq!((body(&response), cache_status(&response)), (expected, "larder; fwd=bypass; detail=rule"));
        assert_eq!(values(&response, "xkey"), [""; 0]);
    }
    // In another spelling too, which the origin may understand.
    assert_eq!(cache_status(&proxy.get("//l%69ve/x").await), "larder; fwd=bypass; detail=rule");
    assert_eq!(cache_status(&proxy.get("/lively").await), "larder; fwd=uri-miss; stored");
    assert_eq!(proxy.cache().stats().entries, 1);
}

#[tokio::test]
async fn unsafe_method_on_a_bypass_invalidates_what_it_changes() {
    let origin = HttpOrigin::start(|request: Request<Incoming>| async move {
        match request.method().as_str() {
            "GET" => reply(200, "page", &[("cache-control", "max-age=60")]),
            _ => reply(204, "", &[("content-location", "/page")]),
        }
    })
    .await;
    let proxy = start(with_rules(origin.address, [RuleConfig { bypass: true, ..rule("/admin") }])).await;
    proxy.get("/page").await;
    assert_hit(&proxy.get("/page").await);
    proxy
        .exchange(
            "POST /admin HTTP/1.1\r\nHost: site.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )
        .await;
    assert_eq!(cache_status(&proxy.get("/page").await), "larder; fwd=uri-miss; stored");
}

#[tokio::test]
async fn first_rule_that_is_for_the_host_and_the_path_applies() {
    let origin = numbered(200, &[]).await;
    let rules = [
        RuleConfig { host: Some("*.example".into()), bypass: true, ..rule("/shop/cart") },
        RuleConfig { pattern: Some("/shop/*.css".into()), ttl_seconds: Some(60), ..RuleConfig::default() },
        RuleConfig { host: Some("other.test".into()), ..ttl("/shop", 60) },
    ];
    let proxy = start(with_rules(origin.address, rules)).await;
    for (path, expected) in [
        ("/shop/cart/a.css", "larder; fwd=bypass; detail=rule"),
        ("/shop/a.css", "larder; fwd=uri-miss; stored"),
        ("/shop/a", "larder; fwd=uri-miss; detail=no-freshness"),
    ] {
        assert_eq!(cache_status(&proxy.get(path).await), expected, "{path}");
    }
    let other =
        proxy.exchange("GET /shop/a HTTP/1.1\r\nHost: Other.Test:80\r\nConnection: close\r\n\r\n").await;
    assert_eq!(cache_status(&other), "larder; fwd=uri-miss; stored");
}

#[test]
fn contradictory_rules_start_no_proxy() {
    let bypass_with_ttl = RuleConfig { bypass: true, ..ttl("/a", 1) };
    for (rules, expected) in [
        (vec![bypass_with_ttl], "rule 1 (path \"/a\"): bypass excludes ttl_seconds: nothing is stored"),
        (
            vec![ttl("/a", 1), ttl("/a", 2)],
            "rule 2 (path \"/a\"): it never applies: rule 1 (path \"/a\") is for all of its requests",
        ),
    ] {
        let options = with_rules(([127, 0, 0, 1], 1).into(), rules);
        assert_eq!(larder_proxy::Proxy::new(options).unwrap_err().to_string(), expected);
    }
}
