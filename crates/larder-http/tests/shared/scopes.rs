//! Gated and private responses are shared with their scope. Each replica asks its own gate on each hit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::request::Parts;
use larder_http::{Access, Cached, Scope};
use larder_testkit::{Gate, RedisServer, eventually};

use tokio::task::JoinHandle;

use crate::support::{LAG, MINUTE, Replica, cached};

/// A replica whose gate takes the token of a request as its principal, and `revoked` as no token.
fn replica(server: &RedisServer, scope: Scope) -> Replica {
    let gate = |head: &Parts| {
        let token = head.headers.get("authorization").and_then(|token| token.to_str().ok());
        let access = match token {
            None | Some("revoked") => Access::Denied,
            Some(token) => Access::AllowedAs(token.to_owned()),
        };
        std::future::ready(access)
    };
    Replica::with(
        server.url(),
        |redis| redis,
        |shared| shared.options(|options| options.gate(gate)),
        move |request, call| {
            let token =
                request.headers().get("authorization").map_or("none", |token| token.to_str().unwrap());
            let reply = cached(format!("{token} {call}"), Cached::ttl(MINUTE).scope(scope).tag("t"));
            async move { reply }
        },
    )
}

async fn get(replica: &Replica, token: &str) -> String {
    replica.send("GET", "/a", &[("authorization", token)]).await.body
}

/// A replica whose gate takes the token of a request as its principal until it is revoked, and whose handler waits.
fn waiting_replica(server: &RedisServer, revoked: Arc<AtomicBool>, handler: Gate) -> Arc<Replica> {
    let gate = move |head: &Parts| {
        let token = head.headers.get("authorization").map(|token| token.to_str().unwrap().to_owned());
        let access = token.filter(|_| !revoked.load(Ordering::SeqCst));
        std::future::ready(access.map_or(Access::Denied, Access::AllowedAs))
    };
    Arc::new(Replica::with(
        server.url(),
        |redis| redis,
        |shared| shared.options(|options| options.gate(gate)),
        move |request, call| {
            let token = request.headers()["authorization"].to_str().unwrap().to_owned();
            let handler = handler.clone();
            async move {
                handler.pass().await;
                cached(format!("{token} {call}"), Cached::ttl(MINUTE).scope(Scope::Private).tag("t"))
            }
        },
    ))
}

fn spawn_get(replica: &Arc<Replica>, token: &'static str) -> JoinHandle<String> {
    let replica = replica.clone();
    tokio::spawn(async move { get(&replica, token).await })
}

#[tokio::test]
async fn fresh_replica_asks_its_gate_before_it_answers() {
    let Some(server) = RedisServer::start() else { return };
    let (first, fresh) = (replica(&server, Scope::Gated), replica(&server, Scope::Gated));
    assert_eq!(get(&first, "ann").await, "ann 1");
    assert_eq!((get(&fresh, "bob").await, fresh.calls()), ("ann 1".into(), 0), "the same for all who may");
    assert_eq!(get(&fresh, "revoked").await, "revoked 1");
    assert_eq!(fresh.get("/a").await.body, "none 2");
    assert_eq!(get(&fresh, "ann").await, "ann 1");
    let denied = replica(&server, Scope::Gated);
    assert_eq!(get(&denied, "revoked").await, "revoked 1", "also if it knows nothing of the resource yet");
    assert_eq!((get(&denied, "bob").await, denied.calls()), ("ann 1".into(), 1));
}

#[tokio::test]
async fn private_responses_of_a_principal_are_shared() {
    let Some(server) = RedisServer::start() else { return };
    let (first, fresh) = (replica(&server, Scope::Private), replica(&server, Scope::Private));
    assert_eq!((get(&first, "ann").await, get(&first, "bob").await), ("ann 1".into(), "bob 2".into()));
    assert_eq!((get(&fresh, "bob").await, get(&fresh, "ann").await), ("bob 2".into(), "ann 1".into()));
    assert_eq!(fresh.calls(), 0);
    assert!(first.cache.purge_principal("ann").await.is_everywhere());
    // The new response has the same text as the purged one: only the call tells them apart.
    eventually("ann's response is purged there too", async || {
        get(&fresh, "ann").await == "ann 1" && fresh.calls() == 1
    })
    .await;
    assert_eq!((get(&fresh, "bob").await, get(&fresh, "ann").await), ("bob 2".into(), "ann 1".into()));
    assert_eq!(fresh.calls() + first.calls(), 3);
}

#[tokio::test]
async fn public_response_to_credentials_is_shared() {
    let Some(server) = RedisServer::start() else { return };
    let (first, fresh) = (replica(&server, Scope::Public), replica(&server, Scope::Public));
    assert_eq!(get(&first, "ann").await, "ann 1");
    assert_eq!((get(&fresh, "revoked").await, fresh.calls()), ("ann 1".into(), 0));
    assert_eq!((fresh.get("/a").await.body, fresh.calls()), ("ann 1".into(), 0));
}

/// Requests with credentials for a resource without a scope are nobody else's business.
#[tokio::test]
async fn unscoped_response_to_credentials_leaves_nothing_in_redis() {
    let Some(server) = RedisServer::start() else { return };
    let is_open = Arc::new(AtomicBool::new(false));
    let opens = is_open.clone();
    let first = Replica::new(server.url(), move |_, call| {
        let is_open = opens.load(Ordering::SeqCst);
        async move {
            cached(
                format!("{call}"),
                if is_open { Cached::ttl(MINUTE).scope(Scope::Public) } else { Cached::ttl(MINUTE) },
            )
        }
    });
    assert_eq!((get(&first, "ann").await, get(&first, "ann").await), ("1".into(), "2".into()));
    assert_eq!(server.command("KEYS site:http:*"), "*0\r\n");
    is_open.store(true, Ordering::SeqCst);
    assert_eq!((get(&first, "ann").await, get(&first, "ann").await), ("3".into(), "3".into()));
    assert_ne!(server.command("KEYS site:http:*"), "*0\r\n");
}

/// The gate has allowed the request before it waits for the fill of another replica.
#[tokio::test]
async fn session_that_ends_during_a_wait_for_another_replica_gets_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let (revoked, first_gate, other_gate) =
        (Arc::new(AtomicBool::new(false)), Gate::closed(), Gate::closed());
    let first = waiting_replica(&server, Arc::default(), first_gate.clone());
    let other = waiting_replica(&server, revoked.clone(), other_gate.clone());
    first_gate.open(1);
    assert_eq!((get(&first, "ann").await, get(&other, "ann").await), ("ann 1".into(), "ann 1".into()));
    assert!(first.cache.purge_tag("t").await.is_everywhere());
    tokio::time::sleep(LAG + LAG).await;
    first_gate.arrival().await;
    let filling = spawn_get(&first, "ann");
    first_gate.arrival().await;
    let waiting = spawn_get(&other, "ann");
    tokio::time::sleep(Duration::from_millis(100)).await;
    revoked.store(true, Ordering::SeqCst);
    first_gate.open(1);
    other_gate.open(1);
    assert_eq!((filling.await.unwrap(), waiting.await.unwrap()), ("ann 2".into(), "ann 1".into()));
    assert_eq!(other.calls(), 1, "the handler has answered");
}

#[tokio::test]
async fn replicas_that_learn_of_a_scope_at_the_same_time_share_its_responses() {
    let Some(server) = RedisServer::start() else { return };
    let gates = [Gate::closed(), Gate::closed()];
    let [one, other] = gates.each_ref().map(|gate| waiting_replica(&server, Arc::default(), gate.clone()));
    let requests = [spawn_get(&one, "ann"), spawn_get(&other, "bob")];
    for gate in &gates {
        gate.arrival().await;
    }
    gates.iter().for_each(|gate| gate.open(9));
    for request in requests {
        request.await.unwrap();
    }
    let loaded = get(&one, "eve").await;
    let calls = other.calls();
    assert_eq!((get(&other, "eve").await, other.calls()), (loaded, calls), "not by its own handler");
}
