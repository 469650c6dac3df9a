//! What changes while a request waits, for the gate or for the fill of another one, is in effect when it is answered.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use larder_http::{Access, Cached, Scope};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::support::*;

/// A gate that waits for permits while it is `slow`, and tells how many requests have reached it.
#[derive(Clone)]
struct SlowGate {
    slow: Arc<AtomicBool>,
    reached: Arc<Semaphore>,
    permits: Arc<Semaphore>,
}

impl SlowGate {
    fn new(slow: bool) -> SlowGate {
        let semaphore = || Arc::new(Semaphore::new(0));
        SlowGate { slow: Arc::new(AtomicBool::new(slow)), reached: semaphore(), permits: semaphore() }
    }

    async fn judge(self, access: Access) -> Access {
        if self.slow.load(Ordering::SeqCst) {
            self.reached.add_permits(1);
            self.permits.acquire().await.unwrap().forget();
        }
        access
    }

    async fn is_reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }
}

#[tokio::test]
async fn purge_while_the_gate_decides_is_in_effect() {
    let gate = SlowGate::new(false);
    let of_site = gate.clone();
    let site = Arc::new(Site::with(
        move |builder| builder.gate(move |_| of_site.clone().judge(Access::AllowedAs("ann".to_owned()))),
        |_, call| async move { with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Gated)) },
    ));
    let request_as_ann = || get("/a", &[("authorization", "ann")]);
    site.send(request_as_ann()).await;
    assert_eq!(site.send(request_as_ann()).await.cache_status(), "hit; ttl=60");
    for purge in ["uri", "prefix", "all", "unsafe method"] {
        let calls = site.calls();
        gate.slow.store(true, Ordering::SeqCst);
        let (waiting_site, as_ann) = (site.clone(), request_as_ann());
        let waiting = tokio::spawn(async move { waiting_site.send(as_ann).await });
        gate.is_reached().await;
        match purge {
            "uri" => _ = site.cache.purge_uri("http://site.example/a").unwrap(),
            "prefix" => site.cache.purge_prefix("http://site.example/").unwrap(),
            "all" => site.cache.purge_all(),
            _ => _ = site.send(request("DELETE", "/a", &[])).await,
        }
        gate.slow.store(false, Ordering::SeqCst);
        gate.permits.add_permits(1);
        let response = waiting.await.unwrap();
        let newest = site.calls().to_string();
        assert_eq!(&response.body[..], newest.as_bytes(), "{purge}: {}", response.cache_status());
        assert!(site.calls() > calls, "{purge}: the handler is called");
        site.send(request_as_ann()).await;
    }
}

#[tokio::test]
async fn client_that_leaves_while_the_gate_decides_leaves_the_fill_to_the_others() {
    let gate = SlowGate::new(true);
    let of_site = gate.clone();
    let site = Arc::new(Site::with(
        move |builder| builder.gate(move |_| of_site.clone().judge(Access::Denied)),
        |_, call| async move { cached(call.to_string()) },
    ));
    let send = || {
        let site = site.clone();
        tokio::spawn(async move { site.get("/a").await })
    };
    let leader = send();
    gate.is_reached().await;
    let others: Vec<_> = (0..20).map(|_| send()).collect();
    settle().await;
    leader.abort();
    settle().await;
    assert_eq!(site.calls(), 0, "they wait");
    gate.permits.add_permits(100);
    for other in others {
        assert_eq!(other.await.unwrap().cache_status(), "fwd=uri-miss; collapsed");
    }
    assert_eq!(site.calls(), 1);
}

/// The resource was public when the request began to wait, and has no scope when it is answered.
#[tokio::test]
async fn follower_with_credentials_gets_no_response_without_a_scope() {
    let permits: Arc<Mutex<HashMap<String, Arc<Semaphore>>>> = Arc::default();
    let is_public = Arc::new(AtomicBool::new(true));
    let (of_handler, is_public_now) = (permits.clone(), is_public.clone());
    let site = Arc::new(Site::new(move |request, call| {
        let id = request.headers().get("id").map(|id| id.to_str().unwrap().to_owned());
        let permit = id.and_then(|id| of_handler.lock().unwrap().get(&id).cloned());
        let is_public = is_public_now.load(Ordering::SeqCst);
        async move {
            if let Some(permit) = permit {
                permit.acquire().await.unwrap().forget();
            }
            let public = Cached::ttl(MINUTE).scope(Scope::Public);
            match is_public {
                true => field(with_cached(plain(call.to_string()), public), "vary", "accept"),
                false => cached(call.to_string()),
            }
        }
    }));
    site.send(get("/a", &[("accept", "1")])).await;
    let waits = |id: &str| {
        let permit = Arc::new(Semaphore::new(0));
        permits.lock().unwrap().insert(id.to_owned(), permit.clone());
        permit
    };
    let (first, second) = (waits("first"), waits("second"));
    let start = |id: &'static str| {
        let site = site.clone();
        tokio::spawn(async move { site.send(get("/a", &[("accept", "2"), ("id", id)])).await })
    };
    let leader = start("first");
    settle().await;
    let with_cookie = get("/a", &[("accept", "2"), ("cookie", "s=1")]);
    let mut follower = Box::pin(site.service.clone().oneshot(with_cookie));
    let follows = poll_fn(|cx| Poll::Ready(follower.as_mut().poll(cx).is_pending())).await;
    assert!(follows);
    is_public.store(false, Ordering::SeqCst);
    first.add_permits(1);
    leader.await.unwrap();
    site.cache.purge_uri("http://site.example/a").unwrap();
    let anonymous = start("second");
    settle().await;
    second.add_permits(1);
    let response = CollectedResponse::read(follower.await.unwrap()).await.unwrap();
    assert_eq!(response.cache_status(), "fwd=bypass; detail=cookie");
    assert_ne!(response.body, anonymous.await.unwrap().body);
}

#[tokio::test(start_paused = true)]
async fn hung_handlers_without_clients_leave_room_for_other_fills() {
    let site = Site::with(
        |builder| builder.max_fills(2).fill_timeout(SECOND),
        |request, call| async move {
            if request.uri().path().starts_with("/hung") {
                std::future::pending::<()>().await;
            }
            cached(call.to_string())
        },
    );
    for target in ["/hung/1", "/hung/2"] {
        let client = site.service.clone().oneshot(get(target, &[]));
        assert!(tokio::time::timeout(SECOND / 10, client).await.is_err(), "its client leaves");
    }
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=too-many-fills");
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
}

#[tokio::test(start_paused = true)]
async fn body_that_has_stalled_is_not_joined() {
    let (site, replies) = streaming_with(|builder| builder.wait_timeout(SECOND * 2), None);
    let (frames, receiver) = tokio::sync::mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let first = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    frames.send(data("start")).unwrap();
    settle().await;
    tokio::time::sleep(SECOND).await;
    let joined = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    assert_eq!(joined.headers()["cache-status"], "larder; fwd=uri-miss; collapsed");
    tokio::time::sleep(SECOND).await;
    replies.send(reply(vec![data("whole")])).unwrap();
    let other = site.get("/").await;
    assert_eq!((other.cache_status(), &other.body[..]), ("fwd=bypass; detail=wait-timeout", &b"whole"[..]));
    drop((first, joined));
}

#[tokio::test(start_paused = true)]
async fn client_of_a_late_handler_still_gets_its_response() {
    let site = Site::with(
        |builder| builder.fill_timeout(SECOND),
        |_, call| async move {
            tokio::time::sleep(SECOND * 3).await;
            cached(call.to_string())
        },
    );
    let late = site.get("/").await;
    assert_eq!((late.cache_status(), &late.body[..]), ("fwd=uri-miss; detail=fill-timeout", &b"1"[..]));
}
