//! The records of what varies are shared, so that a fresh replica finds the variant that a request selects.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use larder_http::Outcome;
use larder_testkit::{Gate, RedisServer, eventually};
use tokio::task::JoinSet;

use crate::support::{Replica, Reply, field, tagged};

/// A page in the language of the request.
async fn page(request: Request<String>, call: usize) -> Reply {
    let language = request.headers().get("accept-language").map_or("none", |value| value.to_str().unwrap());
    field(tagged(format!("{language} {call}")), "vary", "accept-language")
}

async fn get(replica: &Replica, language: &str) -> String {
    replica.send("GET", "/a", &[("accept-language", language)]).await.body
}

#[tokio::test]
async fn fresh_replica_answers_variants_without_its_handler() {
    let Some(server) = RedisServer::start() else { return };
    let (first, fresh) = (Replica::new(server.url(), page), Replica::new(server.url(), page));
    assert_eq!((get(&first, "en").await, get(&first, "de").await), ("en 1".into(), "de 2".into()));
    assert_eq!((get(&fresh, "de").await, get(&fresh, "en").await), ("de 2".into(), "en 1".into()));
    assert_eq!(fresh.calls(), 0);
    assert_eq!(get(&fresh, "fr").await, "fr 1");
    assert_eq!(get(&first, "fr").await, "fr 1", "the other way round");
    let hit = fresh.send("GET", "/a", &[("accept-language", "en")]).await;
    assert!(matches!(hit.outcome, Outcome::Hit { .. }), "{:?}", hit.outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cold_variants_on_three_replicas_call_one_handler_each() {
    let Some(server) = RedisServer::start() else { return };
    let replicas: Arc<[Replica; 3]> = Arc::new(std::array::from_fn(|_| {
        Replica::new(server.url(), |request, call| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            page(request, call).await
        })
    }));
    let mut requests = JoinSet::new();
    for n in 0..300 {
        let replicas = replicas.clone();
        requests.spawn(async move { get(&replicas[n % 3], ["en", "de"][n % 2]).await });
    }
    let mut bodies = requests.join_all().await;
    bodies.sort_unstable();
    bodies.dedup();
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    assert_eq!(replicas.iter().map(Replica::calls).sum::<usize>(), 2);
}

#[tokio::test]
async fn purge_of_uri_covers_all_variants_on_all_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let (first, second) = (Replica::new(server.url(), page), Replica::new(server.url(), page));
    for language in ["en", "de"] {
        assert_eq!(get(&first, language).await, get(&second, language).await);
    }
    assert!(second.cache.purge_uri("http://site.example/a").await.unwrap().is_everywhere());
    for language in ["de", "en"] {
        let new = get(&second, language).await;
        eventually("the other replica forgets", async || get(&first, language).await == new).await;
    }
    assert_eq!(first.calls() + second.calls(), 4);
}

/// A resource that begins to vary by another field.
#[tokio::test]
async fn resource_that_varies_by_other_fields_gets_a_new_record() {
    let Some(server) = RedisServer::start() else { return };
    let changing = |request: Request<String>, call| async move {
        let fields = if call < 3 { "accept-language" } else { "accept-language, x-theme" };
        let mut reply = page(request, call).await;
        reply.headers_mut().insert("vary", fields.parse().unwrap());
        reply
    };
    let first = Replica::new(server.url(), changing);
    assert_eq!((get(&first, "en").await, get(&first, "de").await), ("en 1".into(), "de 2".into()));
    assert_eq!(get(&first, "fr").await, "fr 3");
    let fresh = Replica::new(server.url(), |request, call| page(request, 100 + call));
    eventually("redis forgets the old record", async || get(&fresh, "en").await.starts_with("en 10")).await;
    let themed = [("accept-language", "fr"), ("x-theme", "dark")];
    assert_eq!(first.send("GET", "/a", &themed).await.body, "fr 4");
}

#[tokio::test]
async fn replicas_share_new_variants_after_the_fields_have_changed() {
    let Some(server) = RedisServer::start() else { return };
    let changing = |name: &'static str| {
        Replica::new(server.url(), move |request: Request<String>, _| {
            let languages = request.headers()["accept-language"].clone();
            let fields = if languages == "en" { "accept-language" } else { "accept-language, x-theme" };
            let body = format!("{name} {}", languages.to_str().unwrap());
            async move { field(tagged(body), "vary", fields) }
        })
    };
    let (first, other) = (changing("first"), changing("other"));
    assert_eq!((get(&first, "en").await, get(&other, "en").await), ("first en".into(), "first en".into()));
    assert_eq!(get(&first, "de").await, "first de", "it varies by another field too");
    eventually("the other replica has the new record", async || get(&other, "de").await == "first de").await;
    assert_eq!((get(&other, "fr").await, get(&first, "fr").await), ("other fr".into(), "other fr".into()));
    assert_eq!((get(&first, "it").await, get(&other, "it").await), ("first it".into(), "first it".into()));
}

/// The second replica has waited in vain for the first one, so that both make a record.
#[tokio::test]
async fn replica_that_did_not_wait_for_a_slow_fill_shares_later_variants() {
    let Some(server) = RedisServer::start() else { return };
    let gate = Gate::closed();
    let passing = gate.clone();
    let impatient = |redis: larder::Builder| redis.lease_wait(Duration::from_millis(20));
    let slow = Arc::new(Replica::with(
        server.url(),
        impatient,
        |shared| shared,
        move |request, call| {
            let gate = passing.clone();
            async move {
                gate.pass().await;
                page(request, call).await
            }
        },
    ));
    let other =
        Replica::with(server.url(), impatient, |shared| shared, |request, call| page(request, 10 + call));
    let filling = tokio::spawn({
        let slow = slow.clone();
        async move { get(&slow, "en").await }
    });
    gate.arrival().await;
    assert_eq!(get(&other, "en").await, "en 11");
    gate.open(9);
    assert_eq!(filling.await.unwrap(), "en 1");
    assert_eq!((get(&slow, "de").await, get(&other, "de").await), ("de 2".into(), "de 2".into()));
    assert_eq!((get(&other, "fr").await, get(&slow, "fr").await), ("fr 12".into(), "fr 12".into()));
}
