//! Within its grace period an entry is served stale at once, while one background request refreshes it.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use larder_http::{Access, Cached, Scope};
use tokio::sync::Semaphore;

use crate::support::*;

fn with_grace(body: impl ToString) -> Reply {
    with_cached(plain(body.to_string()), Cached::ttl(SECOND * 10).swr(SECOND * 30))
}

#[tokio::test]
async fn stale_entry_is_served_and_refreshed_once() {
    let gate = Arc::new(Semaphore::new(1));
    let handler_gate = gate.clone();
    let site = Site::new(move |_, call| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            with_grace(call)
        }
    });
    site.get("/").await;
    site.clock.advance(SECOND * 13);
    for _ in 0..5 {
        let response = site.get("/").await;
        assert_eq!((response.cache_status(), &response.body[..]), ("hit; ttl=-3; detail=stale", &b"1"[..]));
    }
    settle().await;
    assert_eq!(site.calls(), 2);
    gate.add_permits(1);
    settle().await;
    let fresh = site.get("/").await;
    assert_eq!((fresh.cache_status(), &fresh.body[..]), ("hit; ttl=10", &b"2"[..]));
    assert_eq!(fresh.header("age"), Some("0"));
    let stats = site.cache.stats();
    assert_eq!((stats.stale_hits, stats.refreshes, stats.stores, stats.misses), (5, 1, 2, 1));
}

#[tokio::test]
async fn entry_after_grace_period_is_a_miss() {
    let site = Site::new(|_, call| async move { with_grace(call) });
    site.get("/").await;
    site.clock.advance(SECOND * 40);
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
}

#[tokio::test]
async fn entry_without_grace_is_never_served_stale() {
    let site = Site::counting();
    site.get("/").await;
    site.clock.advance(MINUTE);
    assert_eq!(site.get("/").await.body, "2");
}

/// The engine rounds times to live up to milliseconds.
#[tokio::test]
async fn entry_without_grace_is_a_miss_in_its_last_millisecond() {
    for (control, scope) in [("must-revalidate", None), ("max-age=1", Some(Scope::Gated))] {
        let site = Site::with(
            |builder| builder.gate(|_| std::future::ready(Access::Allowed)),
            move |_, call| async move {
                let settings = Cached::ttl(Duration::from_micros(10_500)).swr(MINUTE);
                let settings = scope.map_or(settings.clone(), |scope| settings.scope(scope));
                field(with_cached(plain(call.to_string()), settings), "cache-control", control)
            },
        );
        for call in ["1", "2", "3"] {
            assert_eq!(site.get("/").await.body, call, "{control}");
            site.clock.advance(Duration::from_millis(10));
        }
        settle().await;
        assert_eq!(site.calls(), 3, "no refresh");
    }
}

#[tokio::test]
async fn refresh_sends_only_headers_of_the_key() {
    let site = Site::new(|request, call| async move {
        if call == 2 {
            let mut names: Vec<_> = request.headers().keys().map(|name| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["accept-language", "host"]);
            assert_eq!((request.method().as_str(), request.uri().path()), ("GET", "/x"));
        }
        field(with_grace(call), "vary", "accept-language")
    });
    let fields = [("accept-language", "de"), ("user-agent", "u"), ("if-none-match", "\"x\"")];
    site.send(get("/x", &fields)).await;
    site.clock.advance(SECOND * 11);
    site.send(request("HEAD", "/x", &fields)).await;
    settle().await;
    assert_eq!(site.send(get("/x", &fields)).await.body, "2");
}

#[tokio::test]
async fn failed_refresh_keeps_stale_entry_and_is_retried() {
    let site = Site::new(|_, call| async move {
        assert_ne!(call, 3, "the third call panics");
        let mut reply = with_grace(call);
        if call == 2 {
            *reply.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        reply
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    // The second call returns 500, the third panics. The next refresh starts ten seconds after the last one.
    for (wait, calls) in [(0, 2), (9, 2), (1, 3), (10, 4)] {
        site.clock.advance(SECOND * wait);
        assert_eq!(site.get("/").await.body, "1");
        settle().await;
        assert_eq!(site.calls(), calls);
    }
    assert_eq!(site.get("/").await.body, "4");
}

#[tokio::test]
async fn refresh_without_opt_in_removes_entry() {
    let site =
        Site::new(|_, call| async move { if call == 1 { with_grace(1) } else { plain(call.to_string()) } });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.body, "1");
    settle().await;
    assert_eq!(site.get("/").await.body, "3");
}

#[tokio::test]
async fn purge_covers_running_refresh() {
    let gate = Arc::new(Semaphore::new(1));
    let handler_gate = gate.clone();
    let site = Site::new(move |_, call| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            with_grace(call)
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

#[tokio::test]
async fn must_revalidate_forbids_stale_responses() {
    for directive in ["must-revalidate", "Proxy-Revalidate", "s-maxage=60"] {
        let site =
            Site::new(move |_, call| async move { field(with_grace(call), "cache-control", directive) });
        site.get("/").await;
        site.clock.advance(SECOND * 11);
        assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored", "{directive}");
    }
}

#[tokio::test]
async fn refresh_that_narrows_the_scope_ends_the_stale_entry() {
    for scope in [Scope::Gated, Scope::Private] {
        let site = Site::new(move |_, call| async move {
            let settings = Cached::ttl(SECOND).swr(MINUTE * 60);
            let settings = if call == 1 { settings } else { settings.scope(scope) };
            with_cached(plain(call.to_string()), settings)
        });
        site.get("/").await;
        site.clock.advance(SECOND * 2);
        assert_eq!(site.get("/").await.body, "1", "stale, and refreshed now");
        settle().await;
        assert_ne!(site.get("/").await.body, "1", "{scope:?}: it is not for all any more");
    }
}
