//! Where the fields of the origin decide, replicas keep to RFC 9111 together: what one of them has stored or validated is for all,
//! with its freshness, its validators, its terms and its groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, StatusCode};
use larder_http::{Profile, SharedBuilder};
use larder_testkit::{Gate, RedisServer, eventually};

use crate::support::{Replica, Reply, field, plain};

/// One origin behind several replicas, which counts all requests and the conditional ones.
#[derive(Clone, Default)]
struct Origin {
    requests: Arc<AtomicUsize>,
    conditions: Arc<AtomicUsize>,
}

fn rfc(shared: SharedBuilder) -> SharedBuilder {
    shared.options(|options| options.profile(Profile::Rfc).empty_body(String::new))
}

impl Origin {
    /// Replicas in front of an origin whose responses have these fields. It replies to each condition with a 304.
    fn replicas<const N: usize>(
        &self,
        server: &RedisServer,
        fields: &'static [(&'static str, &'static str)],
    ) -> [Replica; N] {
        std::array::from_fn(|_| {
            let origin = self.clone();
            self.replica(server, move |request, number| origin.reply(request, number, fields))
        })
    }

    fn replica(
        &self,
        server: &RedisServer,
        reply: impl Fn(&Request<String>, usize) -> Reply + Send + Sync + 'static,
    ) -> Replica {
        let origin = self.clone();
        Replica::with(
            server.url(),
            |redis| redis,
            rfc,
            move |request, _| {
                let number = origin.requests.fetch_add(1, Ordering::SeqCst) + 1;
                let reply = reply(&request, number);
                async move { reply }
            },
        )
    }

    fn reply(&self, request: &Request<String>, number: usize, fields: &[(&'static str, &str)]) -> Reply {
        let is_conditional = request.headers().contains_key("if-none-match")
            || request.headers().contains_key("if-modified-since");
        let mut reply = plain(if is_conditional { String::new() } else { number.to_string() });
        if is_conditional {
            self.conditions.fetch_add(1, Ordering::SeqCst);
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
        }
        fields.iter().fold(reply, |reply, (name, value)| field(reply, name, value))
    }

    fn counts(&self) -> (usize, usize) {
        (self.requests.load(Ordering::SeqCst), self.conditions.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn fresh_response_answers_other_replicas_with_its_age() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let [first, second] = origin.replicas(&server, &[("cache-control", "max-age=60"), ("age", "20")]);
    assert_eq!(first.get("/").await.cache_status(), "fwd=uri-miss; stored");
    let shared = second.get("/").await;
    assert!(shared.cache_status().ends_with("; detail=shared"), "{}", shared.cache_status());
    let age: u64 = shared.headers["age"].to_str().unwrap().parse().unwrap();
    assert!((20..25).contains(&age), "{age}");
    assert_eq!(second.get("/").await.outcome.as_str(), "hit");
    assert_eq!(origin.counts(), (1, 0));
}

/// Both have the response; its own `ETag` validates it, whoever asks, and the 304 makes it good for both.
#[tokio::test]
async fn one_validation_is_for_all_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let [first, second] = origin.replicas(&server, &[("cache-control", "max-age=1"), ("etag", "\"a\"")]);
    assert_eq!((first.body("/").await, second.body("/").await), ("1".into(), "1".into()));
    let mut validated = false;
    for round in 0..2 {
        // The one that validates is the one that only had it from Redis, and then the other one.
        let (one, other) = if round == 0 { (&second, &first) } else { (&first, &second) };
        eventually("it is validated", async || {
            let answer = one.get("/").await;
            assert_eq!(answer.body, "1");
            validated |= answer.outcome.as_str() == "validated";
            validated
        })
        .await;
        let conditions = origin.counts().1;
        let answer = other.get("/").await;
        assert_eq!(answer.body, "1");
        assert!(matches!(answer.outcome.as_str(), "shared" | "validated"), "{}", answer.cache_status());
        assert!(origin.counts().1 <= conditions + 1);
        validated = false;
    }
    let (requests, conditions) = origin.counts();
    assert_eq!(requests, conditions + 1, "only the first request was without a condition");
}

/// A replica without the response finds the expired one in Redis.
#[tokio::test]
async fn replica_validates_what_only_another_one_had() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let [first, second] = origin.replicas(&server, &[("cache-control", "max-age=1"), ("etag", "\"a\"")]);
    assert_eq!(first.body("/").await, "1");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let validated = second.get("/").await;
    assert_eq!((&*validated.body, validated.cache_status()), ("1", "fwd=stale; fwd-status=304; stored"));
    assert_eq!(origin.counts(), (2, 1));
    assert_eq!(first.get("/").await.outcome.as_str(), "shared");
    assert_eq!(origin.counts(), (2, 1));
}

/// A 304 about another response than the shared one validates nothing; what the repeated request gets replaces that of all.
#[tokio::test]
async fn response_to_a_repeated_request_is_for_all_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let reply = |origin: Origin| {
        move |request: &Request<String>, number| match request.headers().contains_key("if-none-match") {
            true => origin.reply(request, number, &[("cache-control", "max-age=60"), ("etag", "\"b\"")]),
            false if number == 1 => {
                origin.reply(request, number, &[("cache-control", "max-age=1"), ("etag", "\"a\"")])
            }
            false => origin.reply(request, number, &[("cache-control", "max-age=60"), ("etag", "\"b\"")]),
        }
    };
    let [first, second] = [(); 2].map(|()| origin.replica(&server, reply(origin.clone())));
    assert_eq!((first.body("/").await, second.body("/").await), ("1".into(), "1".into()));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let repeated = first.get("/").await;
    assert_eq!((&*repeated.body, repeated.cache_status()), ("3", "fwd=uri-miss; stored"));
    assert_eq!(second.body("/").await, "3");
    assert_eq!(origin.counts(), (3, 1));
}

/// The cache has made the `ETag` of the response: the origin knows nothing of it.
#[tokio::test]
async fn generated_etag_validates_nothing_on_other_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let [first, second] = origin.replicas(&server, &[("cache-control", "max-age=1")]);
    assert!(first.get("/").await.headers.contains_key("etag"));
    assert!(second.get("/").await.headers.contains_key("etag"));
    eventually("it is fetched again", async || second.body("/").await == "2").await;
    assert_eq!(origin.counts(), (2, 0));
}

#[tokio::test]
async fn concurrent_misses_on_two_replicas_reach_the_origin_once() {
    let Some(server) = RedisServer::start() else { return };
    let (gate, requests) = (Gate::closed(), Arc::<AtomicUsize>::default());
    let replicas = [(); 2].map(|()| {
        let (gate, requests) = (gate.clone(), requests.clone());
        Arc::new(Replica::with(
            server.url(),
            |redis| redis,
            rfc,
            move |_, _| {
                let (gate, requests) = (gate.clone(), requests.clone());
                async move {
                    requests.fetch_add(1, Ordering::SeqCst);
                    gate.pass().await;
                    field(plain("page"), "cache-control", "max-age=60")
                }
            },
        ))
    });
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let replica = replicas[client % 2].clone();
            tokio::spawn(async move { replica.body("/").await })
        })
        .collect();
    gate.arrival().await;
    gate.open(2);
    for client in clients {
        assert_eq!(client.await.unwrap(), "page");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

/// A client that wants a validation gets one, although another replica has a fresh response; that one stays good for others.
#[tokio::test]
async fn client_that_wants_a_validation_gets_one_on_every_replica() {
    for fields in [&[("cache-control", "no-cache")][..], &[("cache-control", "max-age=0")]] {
        let Some(server) = RedisServer::start() else { return };
        let origin = Origin::default();
        let [first, second] = origin.replicas(&server, &[("cache-control", "max-age=60"), ("etag", "\"a\"")]);
        assert_eq!(first.body("/").await, "1");
        let validated = second.send("GET", "/", fields).await;
        assert_eq!((&*validated.body, validated.outcome.as_str()), ("1", "validated"), "{fields:?}");
        assert_eq!(origin.counts(), (2, 1));
        assert_eq!(first.get("/").await.outcome.as_str(), "hit");
    }
}

/// The reload of a client that gets another response is one for all.
#[tokio::test]
async fn changed_response_of_a_reload_replaces_that_of_all_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let replicas = [(); 2].map(|()| {
        origin.replica(&server, |_, number| field(plain(number.to_string()), "cache-control", "max-age=60"))
    });
    let [first, second] = &replicas;
    assert_eq!((first.body("/").await, second.body("/").await), ("1".into(), "1".into()));
    assert_eq!(second.send("GET", "/", &[("cache-control", "no-cache")]).await.body, "2");
    assert_eq!(second.body("/").await, "2");
    eventually("the other replica has it", async || first.body("/").await == "2").await;
    assert_eq!(origin.counts().0, 2);
}

/// How long it is fresh is an estimate, so a request with a cookie may be about another thing.
#[tokio::test]
async fn estimated_freshness_is_validated_for_cookies_on_every_replica() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let modified = &[("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT")];
    let [first, second] = origin.replicas(&server, modified);
    assert_eq!(first.get("/").await.cache_status(), "fwd=uri-miss; stored");
    let with_cookie = second.send("GET", "/", &[("cookie", "session=1")]).await;
    assert_eq!((&*with_cookie.body, with_cookie.cache_status()), ("1", "fwd=uri-miss; detail=cookie"));
    assert_eq!(origin.counts(), (2, 1));
    assert_eq!(second.get("/").await.outcome.as_str(), "shared");
    assert_eq!(origin.counts(), (2, 1));
}

/// It needs a validation at each use, so replicas do not wait for each other; purges of others reach it all the same.
#[tokio::test]
async fn no_cache_response_is_validated_and_purged_on_every_replica() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let [first, second] = origin
        .replicas(&server, &[("cache-control", "no-cache"), ("etag", "\"a\""), ("cache-groups", "\"g\"")]);
    for replica in [&first, &second] {
        replica.get("/").await;
        assert_eq!(replica.get("/").await.outcome.as_str(), "validated");
    }
    let before = origin.counts();
    assert_eq!(before, (4, 2));
    assert!(second.cache.purge_uri("http://site.example/").await.unwrap().is_everywhere());
    eventually("it is not validated any more", async || first.get("/").await.outcome.as_str() == "miss")
        .await;
}

#[tokio::test]
async fn unsafe_method_and_groups_invalidate_on_every_replica() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let replicas = [(); 2].map(|()| {
        origin.replica(&server, |request, number| match *request.method() {
            http::Method::POST => field(plain("done"), "cache-group-invalidation", "\"g\""),
            _ => field(
                field(plain(number.to_string()), "cache-control", "max-age=60"),
                "cache-groups",
                "\"g\"",
            ),
        })
    });
    let [first, second] = &replicas;
    for path in ["/a", "/b"] {
        first.get(path).await;
        assert_eq!(second.get(path).await.outcome.as_str(), "shared");
    }
    first.send("POST", "/a", &[]).await;
    for path in ["/a", "/b"] {
        assert_eq!(first.get(path).await.outcome.as_str(), "miss", "{path}: at once on this replica");
        eventually("the other replica forgets", async || second.body(path).await.as_str() > "2").await;
    }
}

/// Each replica learns of the rule by itself; once it has, equivalent queries have one response.
#[tokio::test]
async fn replicas_that_know_the_rule_of_a_path_share_equivalent_queries() {
    let Some(server) = RedisServer::start() else { return };
    let origin = Origin::default();
    let fields = &[("cache-control", "max-age=60"), ("no-vary-search", "params=(\"utm\")")];
    let [first, second] = origin.replicas(&server, fields);
    for query in ["/?a=1&utm=1", "/?a=1&utm=2"] {
        first.get(query).await;
    }
    assert_eq!(first.get("/?a=1&utm=3").await.outcome.as_str(), "hit");
    second.get("/?a=2").await;
    assert_eq!(second.get("/?utm=4&a=1").await.outcome.as_str(), "shared");
    assert_eq!(origin.counts().0, 3);

    // A third one, which does not know the rule, purges what was stored by it.
    let [third] = origin.replicas(&server, fields);
    assert!(third.cache.purge_uri("http://site.example/?a=1&utm=9").await.unwrap().is_everywhere());
    eventually("the others forget", async || {
        let answers = [first.get("/?a=1").await, second.get("/?a=1&utm=7").await];
        answers.iter().all(|answer| answer.body.as_str() > "3")
    })
    .await;
}

#[tokio::test]
async fn soft_purge_reaches_every_replica() {
    let purges: [(&str, AsyncPurge); 5] = [
        ("tag", |cache| Box::pin(async move { cache.soft_purge_tag("t").await })),
        ("uri", |cache| {
            Box::pin(async move { cache.soft_purge_uri("http://site.example/shop/1").await.unwrap() })
        }),
        ("prefix", |cache| {
            Box::pin(async move { cache.soft_purge_prefix("http://site.example/shop/").await.unwrap() })
        }),
        ("all", |cache| Box::pin(async move { cache.soft_purge_all().await })),
        ("values", |_| Box::pin(std::future::ready(larder::Reach::Everywhere))),
    ];
    for (name, purge) in purges {
        let Some(server) = RedisServer::start() else { return };
        let origin = Origin::default();
        let replicas = [(); 2].map(|()| {
            let own = origin.clone();
            origin.replica(&server, move |request, number| {
                request.extensions().get::<larder_http::CacheCtx>().unwrap().tag("t");
                own.reply(
                    request,
                    number,
                    &[("cache-control", "max-age=60, stale-while-revalidate=30"), ("etag", "\"a\"")],
                )
            })
        });
        let [first, second] = &replicas;
        assert_eq!((first.body("/shop/1").await, second.body("/shop/1").await), ("1".into(), "1".into()));
        let reach = match name {
            "values" => first.redis.invalidate_tags(["t"], larder::Invalidation::Soft).await.unwrap(),
            _ => purge(first.cache.clone()).await,
        };
        assert!(reach.is_everywhere(), "{name}");
        if name != "values" {
            let stale = first.get("/shop/1").await;
            assert_eq!(
                (&*stale.body, stale.outcome.as_str()),
                ("1", "stale"),
                "{name}: at once on this replica"
            );
        }
        let mut outcome = "hit";
        eventually("the other replica hears of it", async || {
            let answer = second.get("/shop/1").await;
            assert_eq!(answer.body, "1", "{name}");
            outcome = answer.outcome.as_str();
            outcome != "hit"
        })
        .await;
        assert_eq!(outcome, "stale", "{name}: it knows when that was");
        for replica in &replicas {
            eventually("it is fresh again", async || {
                let answer = replica.get("/shop/1").await;
                assert_eq!(answer.body, "1", "{name}: the origin validates it");
                answer.outcome.as_str() == "hit"
            })
            .await;
        }
        let (requests, conditions) = origin.counts();
        assert!(requests == conditions + 1 && conditions > 0, "{name}: {requests} {conditions}");
    }
}

type AsyncPurge =
    fn(larder_http::SharedHttpCache) -> std::pin::Pin<Box<dyn Future<Output = larder::Reach> + Send>>;
