//! Tags of the origin purge, and do not reach clients.

use super::*;
use larder_proxy::{TagConfig, TagField};

const NAMES: [&str; 3] = ["surrogate-key", "cache-tag", "xkey"];

async fn tagged() -> HttpOrigin {
    HttpOrigin::start(|_| async {
        let fields = [
            ("cache-control", "max-age=60"),
            ("surrogate-key", "one two"),
            ("cache-tag", "three,four five"),
            ("xkey", "six"),
        ];
        reply(200, "page", &fields)
    })
    .await
}

#[tokio::test]
async fn every_tag_purges_and_no_client_sees_one() {
    let origin = tagged().await;
    let proxy = in_front_of(origin.address).await;
    for tag in ["one", "two", "three", "four five", "six"] {
        let (first, second) = (proxy.get("/").await, proxy.get("/").await);
        assert_eq!(cache_status(&first), "larder; fwd=uri-miss; stored", "{tag}");
        assert_hit(&second);
        for response in [&first, &second] {
            assert!(NAMES.iter().all(|name| values(response, name).is_empty()), "{response}");
        }
        proxy.cache().purge_tag(tag);
    }
    proxy.get("/").await;
    proxy.cache().purge_tag("four");
    assert_hit(&proxy.get("/").await);
}

#[tokio::test]
async fn fields_that_a_rule_does_not_name_stay_and_have_no_tags() {
    let origin = tagged().await;
    let rules = [
        RuleConfig { tags: TagConfig::All(false), ..rule("/none") },
        RuleConfig { tags: TagConfig::Fields(vec![TagField::Xkey]), ..rule("/xkey") },
    ];
    let proxy = start(with_rules(origin.address, rules)).await;
    for (path, stay) in [("/none", 3), ("/xkey", 2)] {
        for _ in 0..2 {
            let response = proxy.get(path).await;
            assert_eq!(NAMES.iter().filter(|name| !values(&response, name).is_empty()).count(), stay);
        }
        proxy.cache().purge_tag("one");
        assert_hit(&proxy.get(path).await);
    }
    proxy.cache().purge_tag("six");
    assert_hit(&proxy.get("/none").await);
    assert_eq!(cache_status(&proxy.get("/xkey").await), "larder; fwd=uri-miss; stored");
}

#[tokio::test]
async fn tags_do_not_leave_with_an_upgrade_that_is_refused() {
    let origin = tagged().await;
    let proxy = in_front_of(origin.address).await;
    let response = proxy
        .exchange("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n")
        .await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(NAMES.iter().all(|name| values(&response, name).is_empty()), "{response}");
}

/// A 304 need not repeat the tags of what it validates.
#[tokio::test]
async fn validated_response_keeps_its_tags() {
    let origin = HttpOrigin::start(|request: Request<Incoming>| async move {
        match field(&request, "if-none-match").as_str() {
            "\"a\"" => reply(304, "", &[("etag", "\"a\""), ("cache-control", "max-age=60")]),
            _ => reply(200, "page", &[("etag", "\"a\""), ("cache-control", "max-age=1"), ("xkey", "one")]),
        }
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    proxy.get("/").await;
    get_until(&proxy, |answer| cache_status(answer) == "larder; fwd=stale; fwd-status=304; stored").await;
    assert_hit(&proxy.get("/").await);
    proxy.cache().purge_tag("one");
    assert!(!cache_status(&proxy.get("/").await).contains("hit"), "the purge missed it");
}
