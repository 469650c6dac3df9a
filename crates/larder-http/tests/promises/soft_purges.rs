//! A softly purged response is stale from that moment on: served within its grace period while it is refreshed, or validated, where it
//! may be stale at all; and otherwise dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Request;
use larder_http::{Access, Cached, HttpCache, Profile, Scope};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::support::*;

type Purge = fn(&HttpCache);

/// The ways to purge `/shop/1` softly on a site whose responses have the tag "all".
const PURGES: [Purge; 4] = [
    |cache| assert!(cache.soft_purge_uri("http://site.example/shop/1").unwrap()),
    |cache| cache.soft_purge_tag("all"),
    |cache| cache.soft_purge_prefix("http://site.example/shop/").unwrap(),
    |cache| cache.soft_purge_all(),
];

/// A site whose responses are fresh for a minute, and stale for ten seconds after that.
fn graceful() -> Site {
    Site::new(|request, call| async move {
        let reply = with_cached(plain(call.to_string()), Cached::ttl(MINUTE).swr(SECOND * 10).tag("all"));
        match request.uri().query() {
            Some("vary") => field(reply, "vary", "x-variant"),
            _ => reply,
        }
    })
}

#[tokio::test]
async fn softly_purged_response_is_served_stale_and_refreshed_once() {
    for (number, purge) in PURGES.into_iter().enumerate() {
        let site = graceful();
        site.get("/shop/1").await;
        site.clock.advance(SECOND * 5);
        purge(&site.cache);
        site.clock.advance(SECOND * 2);
        let stale = site.get("/shop/1").await;
        assert_eq!(
            (stale.cache_status(), &stale.body[..]),
            ("hit; ttl=-2; detail=stale", &b"1"[..]),
            "{number}"
        );
        settle().await;
        let fresh = site.get("/shop/1").await;
        assert_eq!((fresh.cache_status(), &fresh.body[..]), ("hit; ttl=60", &b"2"[..]), "{number}");
        assert_eq!(site.cache.stats().purges, 1);
    }
}

#[tokio::test]
async fn grace_period_begins_at_the_soft_purge() {
    for purge in PURGES {
        let site = graceful();
        site.get("/shop/1").await;
        purge(&site.cache);
        site.clock.advance(SECOND * 10);
        assert_eq!(site.get("/shop/1").await.cache_status(), "fwd=uri-miss; stored");
    }
}

/// The record of the variants is found first, and checked with them.
#[tokio::test]
async fn soft_purge_reaches_every_variant() {
    let purges: [Purge; 4] = [
        |cache| assert!(cache.soft_purge_uri("http://site.example/shop/1?vary").unwrap()),
        PURGES[1],
        PURGES[2],
        PURGES[3],
    ];
    for purge in purges {
        let site = graceful();
        let variants = || ["a", "b"].map(|variant| get("/shop/1?vary", &[("x-variant", variant)]));
        for request in variants() {
            site.send(request).await;
        }
        purge(&site.cache);
        for request in variants() {
            assert_eq!(site.send(request).await.cache_status(), "hit; ttl=0; detail=stale");
        }
        settle().await;
        assert_eq!(site.calls(), 4, "each is refreshed");
        for request in variants() {
            assert_eq!(site.send(request).await.cache_status(), "hit; ttl=60");
        }
    }
}

#[tokio::test]
async fn other_responses_stay_fresh() {
    for purge in &PURGES[..3] {
        let site = graceful();
        site.get("/shop/1").await;
        let other = Site::new(|_, _| async { cached("untagged") });
        other.get("/shopping").await;
        purge(&site.cache);
        other.cache.soft_purge_tag("all");
        other.cache.soft_purge_prefix("http://site.example/shop/").unwrap();
        assert_eq!(other.get("/shopping").await.cache_status(), "hit; ttl=60");
    }
}

#[tokio::test]
async fn response_without_grace_period_is_as_if_purged() {
    for purge in PURGES {
        let site = Site::new(|_, call| async move {
            with_cached(plain(call.to_string()), Cached::ttl(MINUTE).tag("all"))
        });
        site.get("/shop/1").await;
        purge(&site.cache);
        let next = site.get("/shop/1").await;
        assert_eq!((next.cache_status(), &next.body[..]), ("fwd=uri-miss; stored", &b"2"[..]));
        assert_eq!(site.get("/shop/1").await.cache_status(), "hit; ttl=60");
    }
}

/// A site in front of which the fields decide: its responses have a validator, and each condition is answered by a 304.
fn validating(cache_control: &'static str) -> Site {
    Site::with(
        |builder| builder.profile(Profile::Rfc),
        move |request: Request<String>, call| async move {
            let fields = |reply| field(field(reply, "cache-control", cache_control), "etag", "\"a\"");
            request.extensions().get::<larder_http::CacheCtx>().unwrap().tag("all");
            match request.headers().get("if-none-match") {
                Some(_) => {
                    let mut reply = fields(plain(""));
                    *reply.status_mut() = http::StatusCode::NOT_MODIFIED;
                    reply
                }
                None => fields(plain(call.to_string())),
            }
        },
    )
}

#[tokio::test]
async fn origin_validates_what_was_softly_purged() {
    for cache_control in ["max-age=60", "max-age=60, must-revalidate"] {
        for purge in PURGES {
            let site = validating(cache_control);
            site.get("/shop/1").await;
            purge(&site.cache);
            let validated = site.get("/shop/1").await;
            let expected = ("fwd=stale; fwd-status=304; stored", &b"1"[..]);
            assert_eq!((validated.cache_status(), &validated.body[..]), expected, "{cache_control}");
            assert_eq!(site.get("/shop/1").await.cache_status(), "hit; ttl=60");
        }
    }
}

#[tokio::test]
async fn stale_while_revalidate_counts_from_the_soft_purge() {
    let site = validating("max-age=60, stale-while-revalidate=10");
    site.get("/shop/1").await;
    site.cache.soft_purge_tag("all");
    assert_eq!(site.get("/shop/1").await.cache_status(), "hit; ttl=0; detail=stale");
    settle().await;
    assert_eq!(site.get("/shop/1").await.cache_status(), "hit; ttl=60", "it was validated");
    site.cache.soft_purge_tag("all");
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/shop/1").await.cache_status(), "fwd=stale; fwd-status=304; stored");
}

/// The hard purge is final: a 304 must not make good again what was there before it.
#[tokio::test]
async fn hard_purge_of_an_expired_response_leaves_nothing_to_validate() {
    let site = validating("max-age=60");
    site.get("/shop/1").await;
    site.clock.advance(SECOND * 61);
    site.cache.soft_purge_tag("all");
    site.cache.purge_tag("all");
    let next = site.get("/shop/1").await;
    assert_eq!((next.cache_status(), &next.body[..]), ("fwd=uri-miss; stored", &b"2"[..]));
}

/// The purge comes after the lookup that has found the expired response, and before its validation begins.
#[tokio::test]
async fn hard_purge_before_the_validation_begins_is_final() {
    let gate = Arc::new(Semaphore::new(0));
    let (waiting, is_waiting) = (gate.clone(), Arc::new(AtomicBool::new(false)));
    let judged = is_waiting.clone();
    let gate_of_cache = move |head: &http::request::Parts| {
        let (gate, judged) = (waiting.clone(), judged.clone());
        let waits = head.headers.contains_key("x-wait");
        async move {
            if waits {
                judged.store(true, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
            }
            Access::Allowed
        }
    };
    let site = Site::with(
        |builder| builder.profile(Profile::Rfc).gate(gate_of_cache),
        |request: Request<String>, call| async move {
            let fields = |reply| field(field(reply, "cache-control", "max-age=60"), "etag", "\"a\"");
            match request.headers().contains_key("if-none-match") {
                true => {
                    let mut reply = fields(plain(""));
                    *reply.status_mut() = http::StatusCode::NOT_MODIFIED;
                    reply
                }
                false => fields(plain(call.to_string())),
            }
        },
    );
    site.get("/shop/1").await;
    site.clock.advance(SECOND * 61);
    let waiting = tokio::spawn(site.service.clone().oneshot(get("/shop/1", &[("x-wait", "1")])));
    settle().await;
    assert!(is_waiting.load(Ordering::SeqCst), "the fill waits for the gate");
    site.cache.purge_prefix("http://site.example/shop/").unwrap();
    gate.add_permits(1);
    let response = CollectedResponse::read(waiting.await.unwrap().unwrap()).await.unwrap();
    assert_eq!((response.cache_status(), &response.body[..]), ("fwd=uri-miss; stored", &b"2"[..]));
}

#[tokio::test]
async fn private_response_is_dead_after_a_soft_purge_of_its_principal() {
    let allow = |_: &http::request::Parts| std::future::ready(Access::AllowedAs("ann".to_owned()));
    let site = Site::with(
        |builder| builder.gate(allow),
        |_, call| async move {
            let settings = Cached::ttl(MINUTE).swr(SECOND * 10).scope(Scope::Private);
            with_cached(plain(call.to_string()), settings)
        },
    );
    let ask = || site.send(get("/", &[("authorization", "ann")]));
    ask().await;
    assert_eq!(ask().await.body, "1");
    site.cache.soft_purge_principal("bob");
    assert_eq!(ask().await.body, "1");
    site.cache.soft_purge_principal("ann");
    assert_eq!(ask().await.body, "2");
}

/// Its handler started before the purge. It is stored as a stale response, or not at all if it may never be one.
#[tokio::test]
async fn soft_purge_covers_running_fills() {
    for (grace, statuses) in [
        (SECOND * 10, ["fwd=uri-miss; stored", "hit; ttl=0; detail=stale"]),
        (std::time::Duration::ZERO, ["fwd=uri-miss; detail=purged", "fwd=uri-miss; stored"]),
    ] {
        for purge in [PURGES[1], PURGES[2], PURGES[3]] {
            let gate = Arc::new(Semaphore::new(0));
            let handler_gate = gate.clone();
            let site = Site::new(move |_, call| {
                let gate = handler_gate.clone();
                async move {
                    gate.acquire().await.unwrap().forget();
                    with_cached(plain(call.to_string()), Cached::ttl(MINUTE).swr(grace).tag("all"))
                }
            });
            let early = tokio::spawn(site.service.clone().oneshot(get("/shop/1", &[])));
            settle().await;
            purge(&site.cache);
            gate.add_permits(3);
            let early = CollectedResponse::read(early.await.unwrap().unwrap()).await.unwrap();
            assert_eq!((early.cache_status(), &early.body[..]), (statuses[0], &b"1"[..]), "{grace:?}");
            assert_eq!(site.get("/shop/1").await.cache_status(), statuses[1], "{grace:?}");
        }
    }
}

#[tokio::test]
async fn inspection_of_a_softly_purged_response_says_that_it_is_stale() {
    let site = graceful();
    site.get("/shop/1").await;
    site.cache.soft_purge_all();
    let found = site.cache.inspect(&get("/shop/1", &[]));
    let response = found.response.expect("it is stored");
    assert!(response.ttl.is_zero() && !found.is_purged);
    assert_eq!(site.get("/shop/1").await.cache_status(), "hit; ttl=0; detail=stale");
}
