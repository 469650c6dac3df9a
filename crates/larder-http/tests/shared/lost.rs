//! Redis has been lost for longer than entries are served without it: requests that wait for a handler all get its response.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Request;
use http::request::Parts;
use larder_http::{Access, Cached, Outcome, Reason, Scope, SharedBuilder};
use larder_testkit::{Gate, PATIENCE, RedisServer, eventually, within};
use tokio::time::sleep;

use crate::support::{Answer, MINUTE, Replica, Reply, cached, field, streamed, tagged};

/// Longer than any pause of a busy machine, so that all requests of a test come within it.
const LONG_LAG: Duration = Duration::from_secs(3);

type Fields = &'static [(&'static str, &'static str)];

/// A replica that has lost Redis. Its handler waits at the gate, except for the target `/probe`.
async fn lost_replica(
    max_lag: Duration,
    options: impl FnOnce(SharedBuilder) -> SharedBuilder,
    handler: impl Fn(Request<String>, usize) -> Reply + Send + Sync + 'static,
) -> Option<(Arc<Replica>, Gate)> {
    let mut server = RedisServer::start()?;
    let redis = |redis: larder::Builder| {
        redis.disconnected(Duration::ZERO).redis_timeout(Duration::from_millis(100)).max_lag(max_lag)
    };
    let gate = Gate::closed();
    let (passing, handler) = (gate.clone(), Arc::new(handler));
    let replica = Replica::with(server.url(), redis, options, move |request, call| {
        let (gate, handler) = (passing.clone(), handler.clone());
        async move {
            if request.uri().path() == "/probe" {
                return tagged("probe");
            }
            gate.pass().await;
            handler(request, call)
        }
    });
    assert_eq!(replica.get("/probe").await.cache_status(), "fwd=uri-miss; stored");
    server.kill();
    eventually("redis is lost", async || {
        replica.get("/probe").await.cache_status() == "fwd=uri-miss; detail=redis-lost"
    })
    .await;
    Some((Arc::new(replica), gate))
}

/// A request that has been polled once: it calls the handler, or waits for another request.
struct Started<'a>(Pin<Box<dyn Future<Output = Answer> + 'a>>);

impl Started<'_> {
    async fn get(replica: &Replica, fields: Fields) -> Started<'_> {
        let mut future = Box::pin(async move { replica.send("GET", "/a", fields).await });
        let is_pending = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending, "the gate is closed");
        Started(future)
    }

    async fn all<'a>(replica: &'a Replica, requests: &[Fields]) -> Vec<Started<'a>> {
        let mut started = Vec::new();
        for fields in requests {
            started.push(Started::get(replica, fields).await);
        }
        started
    }

    /// The answer, which the test has made possible.
    async fn answer(self) -> Answer {
        within(PATIENCE, "it is answered", self.0).await
    }
}

async fn bodies(started: Vec<Started<'_>>) -> Vec<String> {
    let mut bodies = Vec::new();
    for request in started {
        bodies.push(request.answer().await.body);
    }
    bodies
}

#[tokio::test]
async fn requests_that_wait_without_redis_get_the_response_of_one_handler() {
    let handler = |_: Request<_>, call| tagged(format!("{call}"));
    let Some((replica, gate)) = lost_replica(LONG_LAG, |shared| shared, handler).await else { return };
    let probes = replica.calls();
    for round in 1..=3 {
        let started = Started::all(&replica, &[&[] as Fields; 20]).await;
        gate.arrival().await;
        gate.open(1);
        let mut outcomes = Vec::new();
        for request in started {
            let answer = request.answer().await;
            assert_eq!(answer.body, (probes + round).to_string());
            outcomes.push(answer.outcome);
        }
        let miss = |collapsed, unstored| Outcome::Miss { variant: false, collapsed, unstored };
        assert_eq!(outcomes.remove(0), miss(false, Some(Reason::RedisLost)));
        assert!(outcomes.iter().all(|outcome| *outcome == miss(true, None)), "{outcomes:?}");
        assert_eq!(replica.calls(), probes + round, "requests that come later do not get it");
    }
}

/// Each variant, and each principal, has its own handler call; of one all get its response.
#[tokio::test]
async fn requests_for_variants_and_private_responses_share_without_redis_what_is_theirs() {
    for scope in [None, Some(Scope::Private)] {
        let gate_of_user = |head: &Parts| {
            let user = head.headers.get("user").map(|user| user.to_str().unwrap().to_owned());
            std::future::ready(user.map_or(Access::Denied, Access::AllowedAs))
        };
        let options = move |shared: SharedBuilder| shared.options(|options| options.gate(gate_of_user));
        let handler = move |request: Request<String>, call| {
            let user = request.headers().get("user").map_or("nobody", |user| user.to_str().unwrap());
            let settings = Cached::ttl(MINUTE);
            match scope {
                Some(scope) => cached(format!("{user} {call}"), settings.scope(scope)),
                None => field(cached(format!("{user} {call}"), settings), "vary", "user"),
            }
        };
        let Some((replica, gate)) = lost_replica(LONG_LAG, options, handler).await else { return };
        let requests: [Fields; 4] =
            [&[("user", "ann")], &[("user", "bob")], &[("user", "ann")], &[("user", "bob")]];
        let probes = replica.calls();
        let unknown = Started::all(&replica, &requests).await;
        gate.open(2);
        let one_each = |first: usize| {
            let bodies = [("ann", first), ("bob", first + 1), ("ann", first), ("bob", first + 1)];
            bodies.map(|(user, call)| format!("{user} {call}"))
        };
        assert_eq!(bodies(unknown).await, one_each(probes + 1), "{scope:?}");
        let known = Started::all(&replica, &requests).await;
        eventually("both handlers run at the same time", async || gate.count() == 4).await;
        gate.open(2);
        assert_eq!(bodies(known).await, one_each(probes + 3), "{scope:?}");
    }
}

/// The next request, which may not have the response, removed it before those who had waited for it looked it up again.
#[tokio::test]
async fn request_that_waited_for_guarded_response_without_redis_gets_it_after_the_next_request() {
    for scope in [Scope::Gated, Scope::Private] {
        let allowed = |_: &Parts| std::future::ready(Access::AllowedAs("ann".to_owned()));
        let options = move |shared: SharedBuilder| shared.options(|options| options.gate(allowed));
        let handler =
            move |_: Request<String>, call| cached(format!("{call}"), Cached::ttl(MINUTE).scope(scope));
        let Some((replica, gate)) = lost_replica(LONG_LAG, options, handler).await else { return };
        // From now on it is known to be guarded.
        let unknown = Started::get(&replica, &[]).await;
        gate.open(1);
        unknown.answer().await;
        gate.arrival().await;
        let expected = (replica.calls() + 1).to_string();
        let [filling, waiting] = [Started::get(&replica, &[]).await, Started::get(&replica, &[]).await];
        gate.arrival().await;
        gate.open(1);
        assert_eq!(filling.answer().await.body, expected);
        let next = Started::get(&replica, &[]).await;
        gate.arrival().await;
        assert_eq!(waiting.answer().await.body, expected, "{scope:?}: it does not wait for another handler");
        gate.open(1);
        next.answer().await;
    }
}

/// A request that comes later than the lag would wait in vain: what it waits for may have been purged before it asked.
#[tokio::test]
async fn request_that_is_late_for_a_handler_without_redis_calls_another_one() {
    let lag = Duration::from_millis(200);
    let handler = |_: Request<_>, call| tagged(format!("{call}"));
    let Some((replica, gate)) = lost_replica(lag, |shared| shared, handler).await else { return };
    let probes = replica.calls();
    let early = Started::get(&replica, &[]).await;
    gate.arrival().await;
    sleep(lag + lag).await;
    let late = Started::get(&replica, &[]).await;
    gate.arrival().await;
    gate.open(2);
    assert_eq!(bodies(vec![early, late]).await, [1, 2].map(|call| (probes + call).to_string()));
}

#[tokio::test]
async fn body_that_arrives_without_redis_has_many_readers() {
    let (frames, body) = tokio::sync::mpsc::unbounded_channel();
    let body = std::sync::Mutex::new(Some(body));
    let handler =
        move |_: Request<_>, _| streamed(tagged(""), body.lock().unwrap().take().expect("one handler call"));
    let Some((replica, gate)) = lost_replica(LONG_LAG, |shared| shared, handler).await else { return };
    gate.open(1);
    let send = || async { replica.open("/a").await };
    let (first, client) = send().await;
    let (second, follower) = send().await;
    assert!(matches!(first, Outcome::Miss { unstored: Some(Reason::Streaming), .. }), "{first:?}");
    assert!(matches!(second, Outcome::Miss { collapsed: true, .. }), "{second:?}");
    frames.send("whole").unwrap();
    drop(frames);
    assert_eq!((client.await.unwrap(), follower.await.unwrap()), ("whole".into(), "whole".into()));
}
