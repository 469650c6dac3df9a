//! Every reason is reached by a request, reported as documented, and described in `docs/cache-status.md`.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body::Frame;
use larder_http::{
    Access, BodyRule, BodyRules, Builder, CacheCtx, Cached, HttpCache, Profile, Reason, RequestFields, Scope,
    Stats,
};
use tokio::sync::mpsc;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn every_reason_is_reached_and_reported() {
    for reason in Reason::ALL {
        let Seen { statuses, stats } = reach(*reason).await;
        let is_counted = stats.bypassed.iter().chain(&stats.unstored).any(|(counted, _)| counted == reason);
        let detail = format!("detail={reason}");
        let is_sent = statuses.iter().any(|status| status.ends_with(&detail));
        match reason {
            // RFC 9211 has its own word for it.
            Reason::Method => assert!(is_counted && statuses.contains(&"fwd=method".to_owned())),
            // The outcome of the body is counted later.
            Reason::Streaming => assert!(is_sent && !is_counted),
            // The client gets the error or the panic, and no response.
            Reason::HandlerError | Reason::HandlerPanic => assert!(is_counted, "{reason}: {stats:?}"),
            // It is counted in the other process.
            Reason::Forked => assert!(is_sent, "{statuses:?}"),
            _ => assert!(is_counted && is_sent, "{reason}: {statuses:?} {stats:?}"),
        }
    }
}

#[test]
fn every_reason_is_documented() {
    let page = include_str!("../../../../docs/cache-status.md");
    let (_, tables) = page.split_once("## Reasons").expect("the page has tables of reasons");
    let rows: Vec<_> =
        tables.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let names: Vec<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    for name in &names {
        assert_eq!(rows.iter().filter(|row| row == &name).count(), 1, "docs/cache-status.md: rows of {name}");
    }
    let unknown: Vec<_> = rows.iter().filter(|row| !names.contains(row)).collect();
    assert!(unknown.is_empty(), "docs/cache-status.md: {unknown:?} are no reasons");
}

/// What requests got, and the counters of their cache.
struct Seen {
    statuses: Vec<String>,
    stats: Stats,
}

/// Sends requests to a site, one after another.
async fn sent(site: Site, requests: impl IntoIterator<Item = Request<String>>) -> Seen {
    let mut statuses = Vec::new();
    for request in requests {
        statuses.push(site.send(request).await.cache_status().to_owned());
    }
    Seen { statuses, stats: site.cache.stats() }
}

/// Reaches the reason with one request to a site that caches everything.
async fn by_request(request: Request<String>) -> Seen {
    sent(Site::counting(), [request]).await
}

/// Reaches the reason with a request that a rule sends past the cache.
async fn by_rule() -> Seen {
    let site = Site::counting();
    let response = site.service.bypass(get("/", &[])).await.unwrap();
    let status = CollectedResponse::read(response).await.unwrap().cache_status().to_owned();
    Seen { statuses: vec![status], stats: site.cache.stats() }
}

async fn by_field(name: &str, value: &str) -> Seen {
    by_request(get("/", &[(name, value)])).await
}

/// Reaches the reason with a response.
async fn by_reply(make: impl Fn(CacheCtx) -> Reply + Clone + Send + Sync + 'static) -> Seen {
    let site = Site::new(move |request, _| {
        let make = make.clone();
        async move { make(request.extensions().get::<CacheCtx>().unwrap().clone()) }
    });
    sent(site, [get("/", &[])]).await
}

/// Reaches the reason with two requests to a site where the fields of its responses decide.
async fn by_origin(make: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Seen {
    let options = |builder: Builder| builder.profile(Profile::Rfc);
    let site = Site::with(options, move |_, call| std::future::ready(make(call)));
    sent(site, [get("/", &[]), get("/", &[])]).await
}

fn origin_reply(control: &str) -> Reply {
    field(plain("x"), "cache-control", control)
}

async fn by_reply_field(name: &'static str, value: &'static str) -> Seen {
    by_reply(move |_| field(cached("x"), name, value)).await
}

/// Reaches the reason with a body, sent in these frames.
async fn by_body(length: Option<&'static str>, frames: Vec<Part>) -> Seen {
    let (site, replies) = streaming(length);
    replies.send(reply(frames)).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    Seen { statuses: vec![status_of(&response)], stats: site.cache.stats() }
}

fn status_of<B>(response: &http::Response<B>) -> String {
    response.headers()["cache-status"].to_str().unwrap().replace("larder; ", "")
}

/// Reaches the reason with the body of a POST that has a rule.
async fn by_request_body(body: Body) -> Seen {
    let cache = HttpCache::builder().build().unwrap();
    let rules =
        BodyRules::new().route("/", BodyRule::post().max_bytes(2).max_reading_bytes(1).read_timeout(SECOND));
    let handler = service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(cached("x")) });
    let service = cache.layer().body_rules(rules).layer(handler);
    let request = Request::post("/").header("host", "site.example").body(body).unwrap();
    let response = service.oneshot(request).await.unwrap();
    Seen { statuses: vec![status_of(&response)], stats: cache.stats() }
}

/// Reaches the reason with a body sent to a GraphQL endpoint, whose response has errors or is not JSON if the body says
/// so.
async fn by_graphql(body: &str) -> Seen {
    let cache = HttpCache::builder().build().unwrap();
    let rules = BodyRules::new().route("/", BodyRule::graphql());
    let content_type = if body.contains("text") { "text/plain" } else { "application/json" };
    let response = if body.contains("errors") { r#"{"errors":[]}"# } else { r#"{"data":1}"# };
    let handler = service_fn(move |_: Request<Body>| async move {
        Ok::<_, Infallible>(field(cached(response), "content-type", content_type))
    });
    let service = cache.layer().body_rules(rules).layer(handler);
    let request =
        Request::post("/").header("host", "site.example").header("content-type", "application/json");
    let response = service.oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    Seen { statuses: vec![status_of(&response)], stats: cache.stats() }
}

/// Reaches the reason with two concurrent requests to a handler that replies after a minute.
async fn by_second_request(options: fn(Builder) -> Builder) -> Seen {
    let site = Site::with(options, |_, call| async move {
        tokio::time::sleep(MINUTE).await;
        if call == 1 { plain("x") } else { cached("x") }
    });
    let start = || tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    let tasks = [start(), start()];
    settle().await;
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(status_of(&task.await.unwrap().unwrap()));
    }
    Seen { statuses, stats: site.cache.stats() }
}

/// Reaches the reason with the gate's verdict on a request for a long response of this scope.
async fn by_gate(access: Access, scope: Scope) -> Seen {
    let site = Site::with(
        |b| b.max_bytes(1 << 20).gate(move |_| std::future::ready(access.clone())),
        move |_, _| async move { with_cached(plain(vec![1; 20_000]), Cached::ttl(MINUTE).scope(scope)) },
    );
    sent(site, [get("/", &[])]).await
}

/// Reaches the reason with requests to a replica whose Redis does not exist.
async fn without_redis() -> Seen {
    let redis = larder::Cache::builder("site").ttl(MINUTE).redis(closed_address());
    let redis = redis.disconnected(Duration::ZERO);
    let redis = redis.max_lag(Duration::from_millis(10)).build().unwrap();
    let cache = HttpCache::builder().shared(redis.shared("http")).build().unwrap();
    let handler = service_fn(|_: Request<String>| async { Ok::<_, Infallible>(cached("x")) });
    let (service, mut statuses) = (cache.layer().layer(handler), Vec::new());
    let deadline = std::time::Instant::now() + MINUTE;
    while !statuses.last().is_some_and(|status: &String| status.ends_with("redis-lost")) {
        assert!(std::time::Instant::now() < deadline, "redis is not lost: {statuses:?}");
        statuses.push(status_of(&service.clone().oneshot(get("/", &[])).await.unwrap()));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Seen { statuses, stats: cache.stats() }
}

/// Reaches the reason in a child of this process, while a body is being filled here.
async fn in_child() -> Seen {
    let (site, replies) = streaming(None);
    let (_frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let _filling = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    let cache = site.cache.clone();
    let handler = service_fn(|_: Request<String>| async { Ok::<_, Infallible>(cached("x")) });
    let service = cache.layer().layer(handler);
    let mut child = larder_testkit::fork(move |_| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let response = runtime.block_on(service.oneshot(get("/", &[]))).unwrap();
        assert!(cache.stats().bypassed.contains(&(Reason::Forked, 1)));
        status_of(&response)
    });
    Seen { statuses: vec![child.line.receive()], stats: site.cache.stats() }
}

async fn reach(reason: Reason) -> Seen {
    let long = "x".repeat(17 << 10);
    match reason {
        Reason::Method => by_request(request("POST", "/", &[])).await,
        Reason::MethodOverride => by_field("x-http-method-override", "DELETE").await,
        Reason::RequestBody => by_field("content-length", "3").await,
        Reason::RequestBodyTooLarge => by_request_body(Body::from("123")).await,
        // A body that is here at once is not being read.
        Reason::RequestBodyMemory => {
            by_request_body(Body::new(Streamed(reply(vec![data("1"), data("2")])))).await
        }
        Reason::RequestBodyTimeout => {
            let (_frames, receiver) = mpsc::unbounded_channel();
            by_request_body(Body::new(Streamed(receiver))).await
        }
        Reason::RequestBodyError => {
            by_request_body(Body::new(Streamed(reply(vec![Err(io::Error::other("cut"))])))).await
        }
        Reason::Authority => by_field("host", "other.example").await,
        Reason::TargetTooLong => by_request(get(&format!("/{long}"), &[])).await,
        Reason::Authorization => by_field("authorization", "Bearer x").await,
        Reason::Cookie => by_field("cookie", "a=b").await,
        Reason::PersonalExtension => {
            let site = Site::with(|b| b.personal_extension::<u8>(), |_, _| async { cached("x") });
            let mut request = get("/", &[]);
            request.extensions_mut().insert(7u8);
            sent(site, [request]).await
        }
        Reason::Gate => by_gate(Access::Denied, Scope::Gated).await,
        Reason::Scope => by_gate(Access::Allowed, Scope::Private).await,
        Reason::PrivateShare => by_gate(Access::AllowedAs("ann".to_owned()), Scope::Private).await,
        Reason::Upgrade => by_field("upgrade", "websocket").await,
        Reason::Rule => by_rule().await,
        Reason::Range => by_field("range", "bytes=0-0").await,
        Reason::Precondition => by_field("if-match", "*").await,
        Reason::RequestNoStore => by_field("cache-control", "no-store").await,
        Reason::OnlyIfCached => by_field("cache-control", "only-if-cached").await,
        Reason::Head => by_request(request("HEAD", "/", &[])).await,
        Reason::HitForMiss => {
            let site = Site::new(|_, _| async { plain("x") });
            sent(site, [get("/", &[]), get("/", &[])]).await
        }
        Reason::Released => by_second_request(|b| b.wait_timeout(MINUTE * 2).fill_timeout(MINUTE * 2)).await,
        Reason::WaitTimeout => by_second_request(|b| b).await,
        Reason::TooManyFills => {
            sent(Site::with(|b| b.max_fills(0), |_, _| async { cached("x") }), [get("/", &[])]).await
        }
        Reason::TooManyWaiters => by_second_request(|b| b.max_waiters(0)).await,
        Reason::FillTimeout => {
            let site = Site::with(
                |b| b.fill_timeout(SECOND),
                |_, _| async {
                    tokio::time::sleep(MINUTE).await;
                    cached("x")
                },
            );
            sent(site, [get("/", &[])]).await
        }
        Reason::Purged => {
            let site = Site::new(|_, _| async {
                tokio::time::sleep(SECOND).await;
                cached("x")
            });
            let task = tokio::spawn(site.service.clone().oneshot(get("/", &[])));
            settle().await;
            site.cache.purge_all();
            Seen { statuses: vec![status_of(&task.await.unwrap().unwrap())], stats: site.cache.stats() }
        }
        Reason::Streaming => {
            let (site, replies) = streaming(None);
            let (_frames, receiver) = mpsc::unbounded_channel();
            replies.send(receiver).unwrap();
            let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
            Seen { statuses: vec![status_of(&response)], stats: site.cache.stats() }
        }
        Reason::NotOptedIn => by_reply(|_| plain("x")).await,
        Reason::Forbidden => {
            by_reply(|ctx| {
                ctx.forbid("has a cart");
                cached("x")
            })
            .await
        }
        Reason::ZeroTtl => by_reply(|_| with_cached(plain("x"), Cached::ttl(Duration::ZERO))).await,
        Reason::Status => {
            by_reply(|_| {
                let mut reply = cached("x");
                *reply.status_mut() = StatusCode::NOT_FOUND;
                reply
            })
            .await
        }
        Reason::SetCookie => by_reply_field("set-cookie", "a=b").await,
        Reason::Private => by_reply_field("cache-control", "private").await,
        Reason::NoStore => by_reply_field("cache-control", "no-store").await,
        Reason::NoCache => by_reply_field("cache-control", "no-cache").await,
        Reason::VaryAny => by_reply_field("vary", "*").await,
        Reason::VaryCredentials => by_reply_field("vary", "cookie").await,
        Reason::VaryTooWide => by_reply_field("vary", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q").await,
        Reason::VariantTooLong => {
            let site = Site::new(|_, _| async { field(cached("x"), "vary", "x-long") });
            sent(site, [get("/", &[("x-long", &long)])]).await
        }
        Reason::UnkeyedField => {
            let site = Site::new(|request, _| async move {
                RequestFields::of(&request).get(&http::header::ACCEPT_LANGUAGE);
                cached("x")
            });
            sent(site, [get("/", &[])]).await
        }
        Reason::Cors => by_reply_field("access-control-allow-origin", "https://one.example").await,
        Reason::NoFreshness => by_origin(|_| plain("x")).await,
        Reason::QueryRule => {
            by_origin(|_| field(origin_reply("max-age=10"), "no-vary-search", "key-order")).await
        }
        Reason::Validation => {
            by_origin(|call| match call {
                1 => field(origin_reply("max-age=0"), "etag", "\"a\""),
                _ => {
                    let mut other = field(origin_reply("max-age=10"), "etag", "\"b\"");
                    *other.status_mut() = StatusCode::NOT_MODIFIED;
                    other
                }
            })
            .await
        }
        Reason::TooManyTags => {
            by_reply(|ctx| {
                (0..129).fold(cached("x"), |reply, tag| {
                    ctx.tag(tag.to_string());
                    reply
                })
            })
            .await
        }
        Reason::BodyTooLarge => by_body(None, vec![data("0123456789a")]).await,
        Reason::BodyMemory => {
            let site =
                Site::with(|b| b.max_bytes(4096).max_fill_bytes(0), |_, _| async { cached(vec![1; 5000]) });
            sent(site, [get("/", &[])]).await
        }
        Reason::Trailers => by_body(None, vec![data("1"), Ok(Frame::trailers(HeaderMap::new()))]).await,
        Reason::BodyLength => by_body(Some("2"), vec![data("1")]).await,
        Reason::BodyError => by_body(None, vec![data("1"), Err(io::Error::other("cut"))]).await,
        Reason::HandlerError => {
            let cache = HttpCache::builder().build().unwrap();
            let inner = service_fn(|_: Request<String>| async { Err::<Reply, _>(io::Error::other("down")) });
            assert!(cache.layer().layer(inner).oneshot(get("/", &[])).await.is_err());
            Seen { statuses: Vec::new(), stats: cache.stats() }
        }
        Reason::HandlerPanic => {
            let site = Site::new(|_, _| async { panic!("on purpose") });
            assert!(tokio::spawn(site.service.clone().oneshot(get("/", &[]))).await.is_err());
            Seen { statuses: Vec::new(), stats: site.cache.stats() }
        }
        Reason::Refused => {
            let site = Site::with(|b| b.max_bytes(8192), |_, _| async { cached(vec![b'x'; 10_000]) });
            sent(site, [get("/", &[])]).await
        }
        Reason::Replaced => {
            // Two variants at a time say that the resource varies by another field now.
            let site = Site::new(|_, call| async move {
                tokio::time::sleep(SECOND * call as u32).await;
                field(cached("x"), "vary", if call == 1 { "x-a" } else { "x-b" })
            });
            let variant = |value| site.send(get("/", &[("x-a", value), ("x-b", value)]));
            variant("1").await;
            let (first, second) = tokio::join!(variant("2"), variant("3"));
            let statuses = [first, second].iter().map(|reply| reply.cache_status().to_owned()).collect();
            Seen { statuses, stats: site.cache.stats() }
        }
        Reason::RedisLost => without_redis().await,
        Reason::Forked => in_child().await,
        Reason::GraphqlRequest => by_graphql("{}").await,
        Reason::GraphqlBatch => by_graphql("[]").await,
        Reason::GraphqlDocument => by_graphql(r#"{"query":"{a"}"#).await,
        Reason::GraphqlOperation => by_graphql(r#"{"query":"{a}","operationName":"B"}"#).await,
        Reason::GraphqlMutation => by_graphql(r#"{"query":"mutation{a}"}"#).await,
        Reason::GraphqlIncremental => by_graphql(r#"{"query":"{...@defer{a}}"}"#).await,
        Reason::GraphqlPersisted => {
            let hash = "0".repeat(64);
            let persisted = format!(r#"{{"persistedQuery":{{"version":1,"sha256Hash":"{hash}"}}}}"#);
            by_graphql(&format!(r#"{{"extensions":{persisted}}}"#)).await
        }
        Reason::GraphqlErrors => by_graphql(r#"{"query":"{errors}"}"#).await,
        Reason::GraphqlResponse => by_graphql(r#"{"query":"{text}"}"#).await,
        _ => panic!("add a request that reaches {reason}"),
    }
}
