//! One handler call per key: concurrent misses follow the first one, and every follower gets a response.

use std::sync::Arc;
use std::time::Duration;

use larder_http::{Access, Cached, Outcome, Reason, RequestFields, Scope};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::support::*;

/// A site whose handler waits for a permit before it replies.
fn gated(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> (Site, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let reply = Arc::new(reply);
    let site = Site::new(move |_, call| {
        let (gate, reply) = (handler_gate.clone(), reply.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            reply(call)
        }
    });
    (site, gate)
}

fn start(site: &Site, request: http::Request<String>) -> JoinHandle<CollectedResponse> {
    let future = site.service.clone().oneshot(request);
    tokio::spawn(async move { CollectedResponse::read(future.await.unwrap()).await.unwrap() })
}

async fn start_many(site: &Site, count: usize) -> Vec<JoinHandle<CollectedResponse>> {
    let tasks = (0..count).map(|_| start(site, get("/", &[]))).collect();
    settle().await;
    tasks
}

#[tokio::test]
async fn concurrent_misses_call_handler_once() {
    let (site, gate) = gated(|call| cached(call.to_string()));
    let tasks = start_many(&site, 50).await;
    gate.add_permits(1);
    let mut collapsed = 0;
    for task in tasks {
        let response = task.await.unwrap();
        assert_eq!(response.body, "1");
        collapsed += usize::from(response.cache_status() == "fwd=uri-miss; collapsed");
    }
    assert_eq!((collapsed, site.calls()), (49, 1));
    let stats = site.cache.stats();
    assert_eq!((stats.misses, stats.collapsed, stats.stores), (1, 49, 1));
}

#[tokio::test]
async fn fill_continues_after_client_disconnects() {
    let (site, gate) = gated(|call| cached(call.to_string()));
    let leader = start(&site, get("/", &[]));
    settle().await;
    let follower = start(&site, get("/", &[]));
    settle().await;
    leader.abort();
    assert!(leader.await.is_err_and(|error| error.is_cancelled()));
    gate.add_permits(1);
    assert_eq!(follower.await.unwrap().cache_status(), "fwd=uri-miss; collapsed");
    assert_eq!(site.get("/").await.body, "1");
}

#[tokio::test]
async fn unstorable_response_releases_all_followers() {
    let (site, gate) = gated(|call| plain(call.to_string()));
    let tasks = start_many(&site, 10).await;
    assert_eq!(site.calls(), 1);
    gate.add_permits(1);
    settle().await;
    assert_eq!(site.calls(), 10, "all others run concurrently");
    gate.add_permits(9);
    let mut bodies = Vec::new();
    for task in tasks {
        bodies.push(task.await.unwrap().body);
    }
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 10, "each has its own response");
}

#[tokio::test]
async fn hit_for_miss_lasts_ten_seconds() {
    let (site, gate) = gated(|call| plain(call.to_string()));
    gate.add_permits(1);
    site.get("/").await;
    let tasks = start_many(&site, 3).await;
    assert_eq!(site.calls(), 4, "none waits");
    gate.add_permits(3);
    for task in tasks {
        assert_eq!(task.await.unwrap().cache_status(), "fwd=uri-miss; detail=hit-for-miss");
    }
    site.clock.advance(Duration::from_secs(10));
    let tasks = start_many(&site, 3).await;
    assert_eq!(site.calls(), 5, "they follow again");
    gate.add_permits(3);
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn hit_for_miss_is_prolonged_by_each_response_that_is_not_stored() {
    let site = Site::with(
        |builder| builder.max_body_bytes(10),
        |request, _| async move {
            match request.uri().path() {
                "/plain" => plain("x"),
                _ => cached("0123456789a"),
            }
        },
    );
    for (target, reason) in [("/plain", "not-opted-in"), ("/long", "body-too-large")] {
        assert_eq!(site.get(target).await.cache_status(), format!("fwd=uri-miss; detail={reason}"));
        for _ in 0..5 {
            site.clock.advance(SECOND * 6);
            assert_eq!(site.get(target).await.cache_status(), "fwd=uri-miss; detail=hit-for-miss");
        }
        site.clock.advance(SECOND * 10);
        assert_eq!(site.get(target).await.cache_status(), format!("fwd=uri-miss; detail={reason}"));
    }
}

/// The gate has denied the first request. Nobody knows whom it allows: each of the others may fill the response.
#[tokio::test]
async fn requests_for_a_guarded_resource_do_not_wait_in_vain() {
    let permits = Arc::new(Semaphore::new(1));
    let of_handler = permits.clone();
    let site = Site::with(
        |builder| {
            builder.gate(|head| {
                let user = head.headers.get("user").map(|user| user.to_str().unwrap().to_owned());
                std::future::ready(user.map_or(Access::Denied, Access::AllowedAs))
            })
        },
        move |_, call| {
            let permits = of_handler.clone();
            async move {
                permits.acquire().await.unwrap().forget();
                with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Gated))
            }
        },
    );
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=gate");
    let tasks = start_many(&site, 3).await;
    assert_eq!(site.calls(), 4, "none waits");
    permits.add_permits(4);
    for task in tasks {
        assert_eq!(task.await.unwrap().cache_status(), "fwd=uri-miss; detail=gate");
    }
    let as_ann = || get("/", &[("user", "ann")]);
    assert_eq!(site.send(as_ann()).await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.send(as_ann()).await.cache_status(), "hit; ttl=60");
}

#[tokio::test]
async fn storable_response_ends_hit_for_miss() {
    let site =
        Site::new(|_, call| async move { if call == 1 { plain("1") } else { cached(call.to_string()) } });
    site.get("/").await;
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=hit-for-miss");
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.get("/").await.body, "3");
}

#[tokio::test]
async fn personal_request_does_not_cause_hit_for_miss() {
    let (site, gate) = gated(|call| cached(call.to_string()));
    gate.add_permits(2);
    assert_eq!(site.send(get("/", &[("cookie", "a=b")])).await.cache_status(), "fwd=uri-miss; detail=cookie");
    assert_eq!(
        site.send(get("/", &[("range", "bytes=0-")])).await.cache_status(),
        "fwd=bypass; detail=range"
    );
    let tasks = start_many(&site, 5).await;
    gate.add_permits(1);
    for task in tasks {
        assert_eq!(task.await.unwrap().body, "3");
    }
}

#[tokio::test]
async fn follower_of_another_variant_calls_handler() {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = Site::new(move |request, _| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            let language = request.headers()["accept-language"].to_str().unwrap().to_owned();
            field(cached(language), "vary", "accept-language")
        }
    });
    let languages = ["de", "fr", "de", "fr", "de"];
    let tasks: Vec<_> =
        languages.iter().map(|language| start(&site, get("/", &[("accept-language", language)]))).collect();
    settle().await;
    assert_eq!(site.calls(), 1);
    gate.add_permits(5);
    for (task, language) in tasks.into_iter().zip(languages) {
        assert_eq!(task.await.unwrap().body, language);
    }
    assert_eq!(site.calls(), 2, "one for each variant");
}

#[tokio::test]
async fn panic_reaches_client_and_releases_followers() {
    let (site, gate) =
        gated(|call| if call == 1 { panic!("handler broke") } else { cached(call.to_string()) });
    let leader = start(&site, get("/", &[]));
    settle().await;
    let follower = start(&site, get("/", &[]));
    settle().await;
    gate.add_permits(2);
    let panic = leader.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"handler broke"));
    assert_eq!(follower.await.unwrap().body, "2");
    assert_eq!(site.cache.stats().unstored, [(Reason::Released, 1), (Reason::HandlerPanic, 1)]);
}

#[tokio::test]
async fn service_error_reaches_client_and_releases_followers() {
    use larder_http::HttpCache;
    use tower::{Layer, service_fn};
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let inner = service_fn(move |_: http::Request<String>| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Err::<Reply, _>(std::io::Error::other("down"))
        }
    });
    let cache = HttpCache::builder().build().unwrap();
    let service = cache.layer().layer(inner);
    let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(service.clone().oneshot(get("/", &[])))).collect();
    settle().await;
    gate.add_permits(3);
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap_err().to_string(), "down");
    }
}

#[tokio::test(start_paused = true)]
async fn follower_stops_waiting_after_wait_timeout() {
    let (site, gate) = gated(|call| cached(call.to_string()));
    let leader = start(&site, get("/", &[]));
    settle().await;
    let follower = start(&site, get("/", &[]));
    // Paused time: advance it until the follower's wait times out and it calls the handler.
    let mut waited = Duration::ZERO;
    while site.calls() < 2 {
        tokio::time::advance(SECOND).await;
        settle().await;
        waited += SECOND;
        assert!(waited < Duration::from_secs(3_600), "the follower never calls the handler");
    }
    gate.add_permits(2);
    assert_eq!(follower.await.unwrap().cache_status(), "fwd=uri-miss; detail=wait-timeout");
    assert_eq!(leader.await.unwrap().cache_status(), "fwd=uri-miss; stored");
}

#[tokio::test]
async fn expired_entry_is_filled_once() {
    let (site, gate) = gated(|call| with_cached(plain(call.to_string()), Cached::ttl(SECOND)));
    gate.add_permits(1);
    site.get("/").await;
    site.clock.advance(SECOND);
    let tasks = start_many(&site, 8).await;
    gate.add_permits(1);
    for task in tasks {
        assert_eq!(task.await.unwrap().body, "2");
    }
}

#[test]
fn ended_runtime_releases_the_key() {
    let (site, _gate) = gated(|call| cached(call.to_string()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let leader = site.service.clone();
    runtime.block_on(async {
        tokio::spawn(leader.oneshot(get("/", &[])));
        settle().await;
    });
    assert_eq!(site.calls(), 1);
    drop(runtime);
    // A new request leads again: the aborted fill has released the ticket.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let second = start(&site, get("/", &[]));
        settle().await;
        assert_eq!(site.calls(), 2);
        second.abort();
    });
}

#[tokio::test]
async fn panic_before_first_await_reaches_client() {
    let site = Site::new(|_, _| async { panic!("at once") });
    let error = tokio::spawn(site.service.clone().oneshot(get("/", &[]))).await.unwrap_err();
    assert_eq!(error.into_panic().downcast_ref::<&str>(), Some(&"at once"));
}

#[tokio::test]
async fn released_follower_reports_its_reason() {
    let (site, gate) = gated(|call| plain(call.to_string()));
    let tasks = start_many(&site, 2).await;
    gate.add_permits(2);
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap().outcome);
    }
    let unstored = |reason| Outcome::Miss { variant: false, collapsed: false, unstored: Some(reason) };
    assert_eq!(outcomes, [unstored(Reason::NotOptedIn), unstored(Reason::Released)]);
}

#[tokio::test]
async fn hit_for_miss_concerns_one_variant() {
    let site = Site::new(|request, call| async move {
        let reply = field(cached(call.to_string()), "vary", "accept-language");
        let is_french = request.headers().get("accept-language").is_some_and(|language| language == "fr");
        if is_french { field(reply, "set-cookie", "a=b") } else { reply }
    });
    let in_language = |language| get("/", &[("accept-language", language)]);
    site.send(in_language("de")).await;
    site.send(in_language("fr")).await;
    assert_eq!(
        site.send(in_language("fr")).await.cache_status(),
        "fwd=vary-miss; detail=hit-for-miss",
        "its own response was not stored"
    );
    assert_eq!(site.send(in_language("es")).await.cache_status(), "fwd=vary-miss; stored");
}

#[tokio::test]
async fn too_large_body_stays_hit_for_miss() {
    let site = Site::with(|b| b.max_body_bytes(10), |_, _| async { cached("0123456789a") });
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=body-too-large");
    for _ in 0..3 {
        assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=hit-for-miss");
    }
}

#[tokio::test]
async fn response_that_depends_on_an_unkeyed_field_stays_hit_for_miss() {
    let site = Site::new(|request, _| async move {
        RequestFields::of(&request).get(&http::header::ACCEPT_LANGUAGE);
        cached("x")
    });
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=unkeyed-field");
    for _ in 0..3 {
        assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=hit-for-miss");
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_leader_delays_only_its_first_follower() {
    let (site, gate) = gated(|call| cached(call.to_string()));
    let leader = start(&site, get("/", &[]));
    settle().await;
    let follower = start(&site, get("/", &[]));
    settle().await;
    tokio::time::advance(Duration::from_secs(6)).await;
    settle().await;
    assert_eq!(site.calls(), 2, "the follower has stopped waiting");
    let later = start_many(&site, 3).await;
    assert_eq!(site.calls(), 5, "none of them waits");
    gate.add_permits(5);
    for task in later.into_iter().chain([leader, follower]) {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn slow_fill_releases_its_key_and_still_answers_its_client() {
    let (site, gate) = gated(|call| cached(call.to_string()));
    let leader = start(&site, get("/", &[]));
    settle().await;
    tokio::time::advance(Duration::from_secs(61)).await;
    settle().await;
    site.clock.advance(Duration::from_secs(11));
    let next = start(&site, get("/", &[]));
    settle().await;
    assert_eq!(site.calls(), 2, "the key is free for a new fill");
    gate.add_permits(2);
    assert_eq!(leader.await.unwrap().cache_status(), "fwd=uri-miss; detail=fill-timeout");
    assert_eq!(next.await.unwrap().cache_status(), "fwd=uri-miss; stored");
}

#[tokio::test]
async fn longest_fill_timeout_does_not_overflow() {
    let site = Site::with(|builder| builder.fill_timeout(Duration::MAX), |_, _| async { cached("x") });
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
}

#[tokio::test]
async fn fills_beyond_the_limit_are_calls_without_a_fill() {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = Site::with(
        |builder| builder.max_fills(1),
        move |request, call| {
            let gate = handler_gate.clone();
            async move {
                if request.uri().path() == "/slow" {
                    gate.acquire().await.unwrap().forget();
                }
                with_cached(plain(call.to_string()), Cached::ttl(SECOND).swr(MINUTE))
            }
        },
    );
    assert_eq!(site.get("/stale").await.cache_status(), "fwd=uri-miss; stored");
    site.clock.advance(SECOND);
    let slow = start(&site, get("/slow", &[]));
    settle().await;
    for body in ["3", "4"] {
        let response = site.get("/").await;
        assert_eq!(
            (&response.body[..], response.cache_status()),
            (body.as_bytes(), "fwd=uri-miss; detail=too-many-fills")
        );
    }
    assert_eq!(site.get("/stale").await.body, "1");
    settle().await;
    assert_eq!(site.calls(), 4, "the stale response was not refreshed");
    gate.add_permits(1);
    assert_eq!(slow.await.unwrap().cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
}

#[tokio::test]
async fn request_without_a_ticket_does_not_end_coalescing_for_others() {
    let long = "x".repeat(17 << 10);
    for fields in [("cookie", "a=b"), ("authorization", "wrong"), ("x-long", &*long)] {
        let site = Arc::new(Site::new(|request, call| async move {
            tokio::task::yield_now().await;
            match request.headers().len() {
                1 => cached(call.to_string()),
                _ => plain(call.to_string()),
            }
        }));
        site.send(get("/", &[fields])).await;
        let tasks: Vec<_> = (0..20).map(|_| site.clone()).collect();
        let tasks: Vec<_> =
            tasks.into_iter().map(|site| tokio::spawn(async move { site.get("/").await })).collect();
        for task in tasks {
            assert_eq!(task.await.unwrap().body, "2", "{}", fields.0);
        }
        assert_eq!(site.get("/").await.cache_status(), "hit; ttl=60", "{}", fields.0);
    }
}
