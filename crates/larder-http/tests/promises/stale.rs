//! Within its grace an entry is served stale at once, while one request fetches it anew.

use std::sync::Arc;

use http::StatusCode;
use larder_http::Cached;
use tokio::sync::Semaphore;

use crate::support::*;

fn graced(body: impl ToString) -> Reply {
    with(plain(body.to_string()), Cached::ttl(SECOND * 10).swr(SECOND * 30))
}

#[tokio::test]
async fn stale_is_served_and_refreshed_once() {
    let gate = Arc::new(Semaphore::new(1));
    let held = gate.clone();
    let site = Site::new(move |_, call| {
        let gate = held.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            graced(call)
        }
    });
    site.get("/").await;
    site.clock.advance(SECOND * 13);
    for _ in 0..5 {
        let answer = site.get("/").await;
        assert_eq!((answer.says(), &answer.body[..]), ("hit; ttl=-3; detail=stale", &b"1"[..]));
    }
    settle().await;
    assert_eq!(site.calls(), 2);
    gate.add_permits(1);
    settle().await;
    let fresh = site.get("/").await;
    assert_eq!((fresh.says(), &fresh.body[..]), ("hit; ttl=10", &b"2"[..]));
    assert_eq!(fresh.header("age"), Some("0"));
    let stats = site.cache.stats();
    assert_eq!((stats.stale_hits, stats.refreshes, stats.stores, stats.misses), (5, 1, 2, 1));
}

#[tokio::test]
async fn after_its_grace_it_is_gone() {
    let site = Site::new(|_, call| async move { graced(call) });
    site.get("/").await;
    site.clock.advance(SECOND * 40);
    assert_eq!(site.get("/").await.says(), "fwd=uri-miss; stored");
}

#[tokio::test]
async fn without_grace_nothing_stale_is_served() {
    let site = Site::counting();
    site.get("/").await;
    site.clock.advance(MINUTE);
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn the_refresh_carries_what_the_key_was_made_of_and_no_more() {
    let site = Site::new(|request, call| async move {
        if call == 2 {
            let mut names: Vec<_> = request.headers().keys().map(|name| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["accept-language", "host"]);
            assert_eq!((request.method().as_str(), request.uri().path()), ("GET", "/x"));
        }
        field(graced(call), "vary", "accept-language")
    });
    let fields = [("accept-language", "de"), ("user-agent", "u"), ("if-none-match", "\"x\"")];
    site.send(get("/x", &fields)).await;
    site.clock.advance(SECOND * 11);
    site.send(request("HEAD", "/x", &fields)).await;
    settle().await;
    assert_eq!(site.send(get("/x", &fields)).await.body, "2");
}

#[tokio::test]
async fn a_refresh_that_fails_leaves_the_stale_entry_and_is_tried_again() {
    let site = Site::new(|_, call| async move {
        assert_ne!(call, 3, "the third call breaks");
        let mut reply = graced(call);
        if call == 2 {
            *reply.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        reply
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    // The second call answers 500, the third panics, and each is given ten seconds before the next.
    for (wait, calls) in [(0, 2), (9, 2), (1, 3), (10, 4)] {
        site.clock.advance(SECOND * wait);
        assert_eq!(site.get("/").await.body, "1");
        settle().await;
        assert_eq!(site.calls(), calls);
    }
    assert_eq!(site.get("/").await.body, "4");
}

#[tokio::test]
async fn a_response_that_is_not_to_be_cached_any_more_ends_the_entry() {
    let site =
        Site::new(|_, call| async move { if call == 1 { graced(1) } else { plain(call.to_string()) } });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.body, "1");
    settle().await;
    assert_eq!(site.get("/").await.body, "3");
}

#[tokio::test]
async fn a_purge_during_the_refresh_voids_it() {
    let gate = Arc::new(Semaphore::new(1));
    let held = gate.clone();
    let site = Site::new(move |_, call| {
        let gate = held.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            graced(call)
        }
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    site.get("/").await;
    settle().await;
    assert_eq!(site.calls(), 2);
    assert!(site.cache.purge_uri("http://site.example/").unwrap());
    gate.add_permits(2);
    settle().await;
    assert_eq!(site.get("/").await.body, "3");
}
