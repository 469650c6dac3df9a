//! The response to a HEAD that is forwarded renews the stored response to a GET, or makes it stale (RFC 9111, 4.3.5). It does no more
//! than a fill may, whoever sends it.

use std::future::ready;
use std::sync::Arc;

use http::Request;
use larder_http::{CacheCtx, Cached, Profile};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::support::*;

type Fields = &'static [(&'static str, &'static str)];

const STORED: Fields = &[
    ("cache-control", "max-age=10, must-revalidate"),
    ("etag", "\"a\""),
    ("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT"),
];

/// A HEAD that the cache forwards although it has a fresh response.
fn head(fields: &[(&str, &str)]) -> Request<String> {
    let fields: Vec<_> = fields.iter().copied().chain([("cache-control", "no-cache")]).collect();
    request("HEAD", "/", &fields)
}

/// A site with these fields and the number of the call as its body. Its handler validates every condition, and gets the HEAD.
fn site_with_head<F>(fields: Fields, on_head: impl Fn(Request<String>) -> F + Send + Sync + 'static) -> Site
where
    F: Future<Output = Reply> + Send + 'static,
{
    let on_head = Arc::new(on_head);
    site(move |request, call| {
        let on_head = on_head.clone();
        async move {
            match request.method().as_str() {
                "HEAD" => on_head(request).await,
                _ if request.headers().contains_key("if-none-match") => not_modified(fields),
                _ => reply_with(call, fields),
            }
        }
    })
}

/// A site that has stored a response with these fields, and gets a HEAD, to which it replies with others. The time of the stored
/// response is over, or not.
async fn after_head(is_over: bool, stored: Fields, replied: Fields) -> Site {
    let site = site_with_head(stored, move |_| ready(reply_with("", replied)));
    site.get("/").await;
    site.clock.advance(SECOND * if is_over { 11 } else { 5 });
    let answer = site.send(head(&[])).await;
    assert_eq!((answer.cache_status(), site.calls()), ("fwd=bypass; detail=head", 2));
    site
}

/// What a GET gets after that.
async fn status_after_head(is_over: bool, replied: Fields) -> String {
    let answer = after_head(is_over, STORED, replied).await.get("/").await;
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"1"[..]));
    answer.cache_status().to_owned()
}

const VALIDATED: &str = "fwd=stale; fwd-status=304; stored";

#[tokio::test]
async fn head_with_the_same_validators_renews_the_response_and_its_fields() {
    let replied = &[
        ("cache-control", "max-age=20"),
        ("etag", "\"a\""),
        ("content-length", "1"),
        ("x-new", "1"),
        ("set-cookie", "a=b"),
    ];
    for is_over in [true, false] {
        let site = after_head(is_over, STORED, replied).await;
        let hit = site.get("/").await;
        assert_eq!((hit.cache_status(), &hit.body[..], site.calls()), ("hit; ttl=20", &b"1"[..], 2));
        assert_eq!((hit.header("x-new"), hit.header("set-cookie")), (Some("1"), None));
        assert_eq!(hit.header("last-modified"), Some("Wed, 01 Jan 2020 00:00:00 GMT"));
        // It can still be validated, by the validator of its origin.
        site.clock.advance(SECOND * 21);
        assert_eq!(site.get("/").await.cache_status(), VALIDATED);
    }
}

#[tokio::test]
async fn head_about_another_response_makes_the_stored_one_stale() {
    let others: [Fields; 4] = [
        &[("cache-control", "max-age=20"), ("etag", "\"b\"")],
        &[
            ("cache-control", "max-age=20"),
            ("etag", "\"a\""),
            ("last-modified", "Thu, 02 Jan 2020 00:00:00 GMT"),
        ],
        &[("cache-control", "max-age=20"), ("etag", "\"a\""), ("content-length", "2")],
        &[("cache-control", "max-age=20"), ("content-length", "0")],
    ];
    for replied in others {
        for is_over in [true, false] {
            assert_eq!(status_after_head(is_over, replied).await, VALIDATED, "{replied:?}");
        }
    }
}

/// A HEAD from time to time would keep an outdated response fresh for ever.
#[tokio::test]
async fn head_without_a_validator_changes_nothing() {
    for replied in
        [&[("cache-control", "max-age=20")][..], &[("cache-control", "max-age=20"), ("content-length", "1")]]
    {
        assert_eq!(status_after_head(true, replied).await, VALIDATED);
        assert_eq!(status_after_head(false, replied).await, "hit; ttl=5");
    }
}

#[tokio::test]
async fn head_with_another_status_changes_nothing() {
    for code in [206, 304, 404, 410, 503] {
        let site = site_with_head(STORED, move |_| {
            ready(status(code, reply_with("", &[("etag", "\"b\""), ("cache-control", "no-store")])))
        });
        site.get("/").await;
        site.clock.advance(SECOND * 5);
        assert_eq!(site.send(head(&[])).await.status, code);
        assert_eq!(site.get("/").await.cache_status(), "hit; ttl=5", "{code}");
    }
}

#[tokio::test]
async fn head_that_forbids_to_store_ends_the_stored_response() {
    for control in ["no-store", "private"] {
        let site = site_with_head(STORED, move |_| {
            ready(reply_with("", &[("etag", "\"a\""), ("cache-control", control)]))
        });
        site.get("/").await;
        site.send(head(&[])).await;
        assert_eq!(site.get("/").await.body, "3", "{control}");
    }
}

/// The response may be made for this client alone.
#[tokio::test]
async fn head_with_credentials_or_cookies_changes_nothing() {
    for name in ["authorization", "cookie"] {
        for etag in ["\"a\"", "\"b\""] {
            let site = site_with_head(STORED, move |_| {
                ready(reply_with(
                    "",
                    &[("etag", etag), ("cache-control", "public, max-age=20"), ("x-user", "7")],
                ))
            });
            site.get("/").await;
            site.clock.advance(SECOND * 5);
            site.send(head(&[(name, "x=y")])).await;
            let hit = site.get("/").await;
            assert_eq!((hit.cache_status(), hit.header("x-user")), ("hit; ttl=5", None), "{name}");
            site.clock.advance(SECOND * 6);
            site.send(head(&[(name, "x=y")])).await;
            assert_eq!(site.get("/").await.cache_status(), VALIDATED, "{name}");
        }
    }
}

#[tokio::test]
async fn head_renews_the_variant_that_it_selects() {
    const VARYING: Fields = &[("cache-control", "max-age=10"), ("etag", "\"a\""), ("vary", "accept")];
    let site = site_with_head(VARYING, |_| ready(reply_with("", VARYING)));
    for accept in ["a", "b"] {
        site.send(get("/", &[("accept", accept)])).await;
    }
    site.clock.advance(SECOND * 11);
    site.send(head(&[("accept", "b")])).await;
    let renewed = site.send(get("/", &[("accept", "b")])).await;
    assert_eq!((renewed.cache_status(), &renewed.body[..]), ("hit; ttl=10", &b"2"[..]));
    let other = site.send(get("/", &[("accept", "a")])).await;
    assert_eq!((other.cache_status(), &other.body[..]), (VALIDATED, &b"1"[..]));
}

/// Who sends it chooses the value of the field, and would choose the response of all.
#[tokio::test]
async fn head_that_varies_by_other_fields_renews_nothing() {
    const VARYING: Fields = &[("cache-control", "max-age=10"), ("etag", "\"a\""), ("vary", "accept")];
    for stored in [STORED, VARYING] {
        let replied = &[
            ("cache-control", "max-age=20"),
            ("etag", "\"a\""),
            ("vary", "x-evil"),
            ("x-reflected", "evil"),
        ];
        for is_over in [true, false] {
            let site = after_head(is_over, stored, replied).await;
            let answer = site.get("/").await;
            assert_eq!((answer.cache_status(), answer.header("x-reflected")), (VALIDATED, None));
        }
    }
}

#[tokio::test]
async fn handler_sees_no_more_of_a_head_than_of_a_fill() {
    let site = Site::with(
        |builder| builder.profile(Profile::Rfc).handler_fields([http::header::ACCEPT]),
        |request, call| {
            let host = request.headers().get("x-forwarded-host").map_or("none", |_| "evil");
            ready(field(reply_with(call, STORED), "x-reflected", host))
        },
    );
    site.get("/").await;
    site.send(head(&[("x-forwarded-host", "evil")])).await;
    assert_eq!(site.get("/").await.header("x-reflected"), Some("none"));
}

#[tokio::test]
async fn tags_of_a_renewed_response_still_purge_it() {
    let site = site(|request, call| {
        if request.method() == "GET" {
            request.extensions().get::<CacheCtx>().unwrap().tag("t");
        }
        ready(reply_with(call, STORED))
    });
    site.get("/").await;
    site.clock.advance(SECOND * 5);
    site.send(head(&[])).await;
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=10");
    site.cache.purge_tag("t");
    assert_eq!(site.get("/").await.body, "3");
}

#[tokio::test]
async fn head_changes_nothing_where_handlers_decide() {
    let site = Site::new(|_, call| ready(with_cached(reply_with(call, STORED), Cached::ttl(SECOND * 10))));
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    site.send(request("HEAD", "/", &[])).await;
    assert_eq!(site.get("/").await.body, "3");
}

/// A site whose HEAD waits while this happens, and then gets the reply. Whether the stored response is stale by then.
async fn during_head(is_over: bool, replied: Fields, act: impl AsyncFnOnce(&Site)) -> Site {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = site(move |request, call| {
        let gate = handler_gate.clone();
        async move {
            if request.method() != "HEAD" {
                request.extensions().get::<CacheCtx>().unwrap().tag("t");
                return reply_with(call, STORED);
            }
            gate.acquire().await.unwrap().forget();
            reply_with("", replied)
        }
    });
    site.get("/").await;
    site.clock.advance(SECOND * if is_over { 11 } else { 5 });
    let waiting = tokio::spawn(site.service.clone().oneshot(head(&[])));
    settle().await;
    assert_eq!(site.calls(), 2, "the HEAD is forwarded");
    act(&site).await;
    gate.add_permits(1);
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    site
}

const SAME: Fields = &[("cache-control", "max-age=20"), ("etag", "\"a\"")];
const OTHER: Fields = &[("cache-control", "max-age=20"), ("etag", "\"b\"")];

#[tokio::test]
async fn purge_during_a_head_is_final() {
    let purges: [fn(&Site); 4] = [
        |site| _ = site.cache.purge_uri("http://site.example/").unwrap(),
        |site| site.cache.purge_tag("t"),
        |site| site.cache.purge_prefix("http://site.example/").unwrap(),
        |site| site.cache.purge_all(),
    ];
    for purge in purges {
        for is_over in [true, false] {
            let site = during_head(is_over, SAME, async |site| purge(site)).await;
            assert_eq!(site.get("/").await.body, "3");
        }
    }
}

#[tokio::test]
async fn unsafe_method_during_a_head_is_final() {
    for is_over in [true, false] {
        let site = during_head(is_over, SAME, async |site| {
            site.send(request("POST", "/", &[])).await;
        })
        .await;
        assert_eq!(site.get("/").await.body, "4");
    }
}

#[tokio::test]
async fn soft_purge_during_a_head_leaves_the_response_stale() {
    let site = during_head(false, SAME, async |site| site.cache.soft_purge_tag("t")).await;
    assert_ne!(site.get("/").await.outcome.as_str(), "hit");
}

/// What the HEAD was compared with is not stored any more.
#[tokio::test]
async fn response_that_was_stored_during_a_head_stays_as_it_is() {
    for replied in [SAME, OTHER] {
        for is_over in [true, false] {
            let site = during_head(is_over, replied, async |site| {
                let newer = site.send(get("/", &[("cache-control", "no-cache")])).await;
                assert_eq!((newer.cache_status(), &newer.body[..]), ("fwd=uri-miss; stored", &b"3"[..]));
            })
            .await;
            let hit = site.get("/").await;
            assert_eq!((hit.cache_status(), &hit.body[..]), ("hit; ttl=10", &b"3"[..]));
        }
    }
}

/// It is in no store then: the GET that validates it has taken it out.
#[tokio::test]
async fn response_that_is_being_validated_is_not_renewed_by_a_head() {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = site(move |request, call| {
        let gate = handler_gate.clone();
        async move {
            if request.headers().contains_key("if-none-match") {
                gate.acquire().await.unwrap().forget();
                return reply_with(call, OTHER);
            }
            reply_with(if request.method() == "HEAD" { 0 } else { call }, STORED)
        }
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    let validation = tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    settle().await;
    site.send(request("HEAD", "/", &[])).await;
    gate.add_permits(1);
    let answer = CollectedResponse::read(validation.await.unwrap().unwrap()).await.unwrap();
    assert_eq!(answer.body, "2");
    let hit = site.get("/").await;
    assert_eq!((hit.cache_status(), &hit.body[..]), ("hit; ttl=20", &b"2"[..]));
}
