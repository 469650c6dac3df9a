//! The pages, called without a server: contents, headers, and refused requests.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use larder_admin::{
    Admin, Degradation, ExplainFuture, Explainer, Explanation, Figure, PurgeFuture, Purger, Registry, Sample,
    State, Target, TargetKind, Tier, Token, Unit,
};
use larder_engine::stats::Histogram;
use serde_json::{Value, json};
use tower::ServiceExt;

struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

async fn send(router: &Router, request: Request<Body>) -> Response {
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response { status: head.status, headers: head.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

async fn get(router: &Router, path: &str) -> Response {
    send(router, Request::get(path).header("host", "127.0.0.1:8081").body(Body::empty()).unwrap()).await
}

fn registry() -> Registry {
    let registry = Registry::new();
    registry.register("links", "cache", || {
        let latency = Histogram::new();
        latency.record_n(Duration::from_micros(10), 100);
        let memory = Tier::new("memory")
            .lookups([("hit", 90), ("miss", 10), ("bypass", 5)])
            .operations([("get", 105)])
            .latency(latency.snapshot());
        Sample { restarts: 3, ..Sample::running() }
            .tier(memory.entries(10).bytes(4096, 65_536))
            .tier(Tier::new("redis"))
            .reasons("bypass", [("cookie", 5)])
            .figure(Figure::current("connections", Unit::Count, 4.0, "Clients connected."))
    });
    registry
}

#[tokio::test]
async fn stats_have_the_documented_shape() {
    let router = larder_admin::router(registry());
    let answer = get(&router, "/api/stats").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["cache-control"], "no-store");
    let mut stats: Value = serde_json::from_str(&answer.body).unwrap();
    assert!(stats["server"]["uptime_seconds"].as_f64().unwrap() >= 0.0);
    assert!(stats["server"]["started_at"].as_f64().unwrap() > 1.7e9);
    assert_eq!(stats["server"]["version"], env!("CARGO_PKG_VERSION"));
    let latency = stats["parts"][0]["tiers"][0].as_object_mut().unwrap().remove("latency").unwrap();
    assert_eq!(latency["count"], 100);
    for field in ["sum_seconds", "p50_seconds", "p99_seconds", "p999_seconds", "max_seconds"] {
        assert!(latency[field].as_f64().unwrap() >= 9e-6, "{field}");
    }
    assert_eq!(latency["buckets"][0][1], 100);
    let expected = json!({
        "part": "links", "kind": "cache", "state": "running", "restarts": 3, "can_purge": false,
        "tiers": [
            {
                "tier": "memory", "lookups": { "hit": 90, "miss": 10, "bypass": 5 }, "operations": { "get": 105 },
                "hit_ratio": 0.9, "entries": 10, "bytes": 4096, "capacity_bytes": 65_536,
            },
            { "tier": "redis", "lookups": {}, "operations": {} },
        ],
        "reasons": { "bypass": { "cookie": 5 } },
        "figures": [
            { "name": "connections", "unit": "count", "total": false, "value": 4.0, "help": "Clients connected." },
        ],
    });
    assert_eq!((&stats["version"], &stats["parts"]), (&json!(1), &json!([expected])));
}

#[tokio::test]
async fn metrics_are_in_the_prometheus_text_format() {
    let answer = get(&larder_admin::router(registry()), "/metrics").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let line = r#"larder_tier_lookups_total{part="links",tier="memory",outcome="hit"} 90"#;
    assert!(answer.body.lines().any(|own| own == line), "{}", answer.body);
}

#[tokio::test]
async fn health_is_503_with_the_names_of_parts_that_do_not_run() {
    let registry = registry();
    let router = larder_admin::router(registry.clone());
    assert_eq!(
        (get(&router, "/healthz").await.status, get(&router, "/healthz").await.body),
        (StatusCode::OK, "ok\n".into())
    );
    registry.register("server", "server", || Sample {
        state: State::Restarting,
        last_failure: Some("address in use".to_owned()),
        ..Sample::running()
    });
    let answer = get(&router, "/healthz").await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "server restarting: address in use\n")
    );
    assert_eq!(get(&router, "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn degraded_part_is_alive_and_ready_unless_its_answers_need_what_it_lacks() {
    let (registry, lacking) = (registry(), Arc::new(Mutex::new(Vec::new())));
    let source = lacking.clone();
    registry.register("shop", "cache", move || Sample {
        degradations: source.lock().unwrap().clone(),
        ..Sample::running()
    });
    let router = larder_admin::router(registry);
    let set = |degradations: &[Degradation]| *lacking.lock().unwrap() = degradations.to_vec();
    let answer = async |path| {
        let answer = get(&router, path).await;
        (answer.status.as_u16(), answer.body)
    };
    assert_eq!(answer("/readyz").await, (200, "ready\n".to_owned()));

    let redis = Degradation::new("redis", "every fetch loads").lasting(Duration::from_secs(35));
    set(std::slice::from_ref(&redis));
    let line = "shop degraded by redis for 35 s: every fetch loads\n";
    assert_eq!(answer("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(answer("/readyz").await, (200, format!("ready\n{line}")));
    let metrics = answer("/metrics").await.1;
    for expected in [
        r#"larder_part_state{part="shop",kind="cache",state="degraded"} 1"#,
        r#"larder_part_state{part="shop",kind="cache",state="running"} 0"#,
        "larder_ready 1",
    ] {
        assert!(metrics.lines().any(|line| line == expected), "{expected}\n{metrics}");
    }
    assert!(metrics.contains(r#"larder_part_degraded_seconds{part="shop",cause="redis"} 35"#), "{metrics}");
    let stats: Value = serde_json::from_str(&answer("/api/stats").await.1).unwrap();
    let part = &stats["parts"][1];
    let [own] = &part["degradations"].as_array().unwrap()[..] else { panic!("{part}") };
    assert_eq!(
        (&part["state"], &own["name"], &own["ready"]),
        (&json!("degraded"), &json!("redis"), &json!(true))
    );
    let began = stats["server"]["started_at"].as_f64().unwrap() - own["since"].as_f64().unwrap();
    assert!((30.0..40.0).contains(&began), "{own}");

    set(&[redis, Degradation::new("database", "it is closed").not_ready()]);
    let lines = format!("{line}shop degraded by database for 0 s: it is closed\n");
    assert_eq!(answer("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(answer("/readyz").await, (503, lines));
    assert!(answer("/metrics").await.1.lines().any(|line| line == "larder_ready 0"));
    set(&[]);
    assert_eq!(answer("/readyz").await, (200, "ready\n".to_owned()));
}

#[tokio::test]
async fn dashboard_has_no_external_references() {
    let router = larder_admin::router(registry());
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/elements.js", "text/javascript; charset=utf-8"),
        ("/format.js", "text/javascript; charset=utf-8"),
        ("/purge.js", "text/javascript; charset=utf-8"),
        ("/samples.js", "text/javascript; charset=utf-8"),
        ("/views.js", "text/javascript; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
    ] {
        let answer = get(&router, path).await;
        assert_eq!(answer.headers["content-type"], content_type);
        assert_eq!(answer.headers["cache-control"], "no-cache");
        for outside in
            ["https://", "//cdn", "@import", "innerHTML", "insertAdjacentHTML", "outerHTML", "document.write"]
        {
            assert!(!answer.body.contains(outside), "{path} contains {outside}");
        }
        let etag = answer.headers["etag"].to_str().unwrap().to_owned();
        let again = Request::get(path)
            .header("host", "localhost")
            .header("if-none-match", format!("\"x\", W/{etag}"));
        let answer = send(&router, again.body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
    }
    let page = get(&router, "/").await.body;
    assert!(!page.contains("style=") && !page.contains("onclick") && page.matches("<script").count() == 1);
}

#[tokio::test]
async fn every_response_has_security_headers() {
    let router = larder_admin::router(registry());
    for path in ["/", "/api/stats", "/metrics", "/nowhere"] {
        let answer = get(&router, path).await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    assert_eq!(get(&router, "/nowhere").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn foreign_hosts_are_refused_on_every_path() {
    let router = Admin::new(registry()).allow_host("admin.internal").router();
    for path in ["/", "/api/stats", "/metrics", "/healthz", "/nowhere"] {
        for (host, allowed) in
            [("rebound.example", false), ("admin.internal:8081", true), ("[::1]:8081", true)]
        {
            let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
            let refused = send(&router, request).await.status == StatusCode::MISDIRECTED_REQUEST;
            assert_eq!(refused, !allowed, "{host} {path}");
        }
        let without = Request::get(path).body(Body::empty()).unwrap();
        assert_eq!(send(&router, without).await.status, StatusCode::MISDIRECTED_REQUEST);
    }
}

#[tokio::test]
async fn refused_host_is_told_what_its_owner_can_do() {
    let router = larder_admin::router(registry());
    let request = Request::get("/").header("host", "rebound.example").body(Body::empty()).unwrap();
    let text = send(&router, request).await.body;
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "this host is not allowed",
            "on the same machine: use localhost or a loopback address",
            "to allow another name: --admin-hosts of larder, or admin_hosts in its configuration file",
            "in a program of your own: Admin::allow_host of larder-admin",
        ]
    );
}

#[tokio::test]
async fn other_methods_than_get_and_head_are_refused() {
    let router = larder_admin::router(registry());
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let request = Request::builder().method(method).uri("/api/stats").header("host", "localhost");
        let answer = send(&router, request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    let head = Request::head("/api/stats").header("host", "localhost").body(Body::empty()).unwrap();
    let answer = send(&router, head).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
}

/// Records the targets of purges, the hard and the soft ones.
#[derive(Clone, Default)]
struct RecordingPurger(Arc<Mutex<Vec<Target>>>, Arc<Mutex<Vec<Target>>>);

impl Purger for RecordingPurger {
    fn purge(&self, target: Target) -> PurgeFuture<'_> {
        Box::pin(async move {
            if target == Target::Uri("bad".to_owned()) {
                return Err("cannot purge \"bad\"".to_owned());
            }
            self.0.lock().unwrap().push(target);
            Ok(())
        })
    }

    fn soft_purge(&self, target: Target) -> PurgeFuture<'_> {
        self.1.lock().unwrap().push(target);
        Box::pin(std::future::ready(Ok(())))
    }

    fn has_soft_purges(&self) -> bool {
        true
    }
}

struct Site {
    router: Router,
    token: String,
    purged: RecordingPurger,
    _folder: tempfile::TempDir,
}

fn site() -> Site {
    site_with(registry())
}

fn site_with(registry: Registry) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let token = Token::load_or_create(folder.path()).unwrap();
    let purged = RecordingPurger::default();
    registry.register_with_purger("http", "http", Sample::running, purged.clone());
    let router = Admin::new(registry).token(token.clone()).router();
    Site { router, token: token.as_str().to_owned(), purged, _folder: folder }
}

impl Site {
    async fn request(&self, fields: &[(&str, &str)], body: &str) -> (u16, Value) {
        let mut request = Request::post("/api/purge").header("host", "127.0.0.1:8081");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let answer = send(&self.router, request.body(Body::from(body.to_owned())).unwrap()).await;
        (answer.status.as_u16(), serde_json::from_str(&answer.body).unwrap())
    }

    async fn authorized_request(&self, body: &str) -> (u16, Value) {
        let token = format!("Bearer {}", self.token);
        self.request(&[("authorization", &token), ("content-type", "application/json; charset=utf-8")], body)
            .await
    }
}

#[tokio::test]
async fn purge_calls_the_purger_of_the_part() {
    let site = site();
    for body in [
        r#"{"part":"http","tag":"products"}"#,
        r#"{"part":"http","uri":"http://a/"}"#,
        r#"{"part":"http","prefix":"http://a/b"}"#,
        r#"{"part":"http","principal":"user-1","soft":false}"#,
        r#"{"part":"http","all":true}"#,
        r#"{"part":"http","tag":"products","soft":true}"#,
    ] {
        assert_eq!(site.authorized_request(body).await, (200, json!({ "purged": true })), "{body}");
    }
    let text = |text: &str| text.to_owned();
    assert_eq!(
        *site.purged.0.lock().unwrap(),
        [
            Target::Tag(text("products")),
            Target::Uri(text("http://a/")),
            Target::Prefix(text("http://a/b")),
            Target::Principal(text("user-1")),
            Target::All
        ]
    );
    assert_eq!(*site.purged.1.lock().unwrap(), [Target::Tag(text("products"))]);
}

/// Panics in the call, or only when its future is polled.
enum Broken {
    Call,
    Poll,
}

impl Purger for Broken {
    fn purge(&self, _: Target) -> PurgeFuture<'_> {
        match self {
            Broken::Call => panic!("no purge"),
            Broken::Poll => Box::pin(async { panic!("no purge") }),
        }
    }
}

impl Explainer for Broken {
    fn explain<'a>(&'a self, _: &'a str) -> ExplainFuture<'a> {
        match self {
            Broken::Call => panic!("no explanation"),
            Broken::Poll => Box::pin(async { panic!("no explanation") }),
        }
    }
}

/// The panic unwound through the request: the connection closed without an answer.
#[tokio::test]
async fn purger_that_panics_is_reported() {
    let registry = registry();
    registry.register_with_purger("call", "cache", Sample::running, Broken::Call);
    registry.register_with_purger("poll", "cache", Sample::running, Broken::Poll);
    let site = site_with(registry);
    for part in ["call", "poll"] {
        let answer = site.authorized_request(&format!(r#"{{"part":"{part}","all":true}}"#)).await;
        let error = format!("the purger of the part {part:?} panicked; what it has purged is unknown");
        assert_eq!(answer, (500, json!({ "error": error })));
    }
    let history: Value = serde_json::from_str(&get(&site.router, "/api/history").await.body).unwrap();
    let events = history["events"].as_array().unwrap();
    let has_event = |part: &str| events.iter().any(|event| event.to_string().contains(part));
    assert!(has_event("call") && has_event("poll"), "{history}");
}

/// The panic unwound through the request: no other part could explain.
#[tokio::test]
async fn explainer_that_panics_does_not_affect_others() {
    let registry = registry();
    registry.register("server", "server", Sample::running);
    registry.register("call", "cache", Sample::running);
    registry.register("poll", "cache", Sample::running);
    registry.explain_with("call", Broken::Call);
    registry.explain_with("poll", Broken::Poll);
    registry.explain_with("server", |_: &str| Some(Explanation::new("no such key")));
    let answer = get(&larder_admin::router(registry), "/api/explain?target=a").await;
    let parts = serde_json::from_str::<Value>(&answer.body).unwrap()["parts"].take();
    let verdict = |part: &str, verdict: &str| json!({ "part": part, "verdict": verdict, "facts": {} });
    let failed = "unknown: the explainer of this part panicked";
    assert_eq!(
        (answer.status, parts),
        (
            StatusCode::OK,
            json!([verdict("server", "no such key"), verdict("call", failed), verdict("poll", failed)])
        )
    );
}

/// Says whether the other explainer was asked before its own reply.
struct Waiting(Arc<AtomicBool>);

impl Explainer for Waiting {
    fn explain<'a>(&'a self, _: &'a str) -> ExplainFuture<'a> {
        Box::pin(async {
            for _ in 0..100 {
                if self.0.load(Relaxed) {
                    return Some(Explanation::new("both were asked"));
                }
                tokio::task::yield_now().await;
            }
            Some(Explanation::new("the other one was not asked"))
        })
    }
}

/// They were asked one after the other, so that a slow one delayed all.
#[tokio::test]
async fn explainers_are_asked_at_once_and_reply_in_the_order_of_their_parts() {
    let registry = registry();
    registry.register("server", "server", Sample::running);
    let is_asked = Arc::new(AtomicBool::new(false));
    registry.explain_with("links", Waiting(is_asked.clone()));
    registry.explain_with("server", move |_: &str| {
        is_asked.store(true, Relaxed);
        Some(Explanation::new("no such key"))
    });
    let answer = get(&larder_admin::router(registry), "/api/explain?target=a").await;
    let parts = serde_json::from_str::<Value>(&answer.body).unwrap()["parts"].take();
    let verdict = |part: &str, verdict: &str| json!({ "part": part, "verdict": verdict, "facts": {} });
    assert_eq!(parts, json!([verdict("links", "both were asked"), verdict("server", "no such key")]));
}

#[tokio::test]
async fn invalid_purges_are_refused_with_the_reason() {
    let site = site();
    for (body, status, error) in [
        (r#"{"part":"absent","all":true}"#, 404, "there is no part \"absent\""),
        (r#"{"part":"links","all":true}"#, 409, "the part \"links\" cannot be purged"),
        (r#"{"part":"http","uri":"bad"}"#, 422, "cannot purge \"bad\""),
        (r#"{"part":"http"}"#, 400, "expected a part and one of tag, uri, prefix, principal, or all: true"),
        (
            r#"{"part":"http","all":false}"#,
            400,
            "expected a part and one of tag, uri, prefix, principal, or all: true",
        ),
        (
            r#"{"part":"http","tag":"a","all":true}"#,
            400,
            "expected a part and one of tag, uri, prefix, principal, or all: true",
        ),
    ] {
        assert_eq!(site.authorized_request(body).await, (status, json!({ "error": error })), "{body}");
    }
    for body in ["", "{", r#"{"part":"http","tags":"x"}"#, r#"{"all":true}"#] {
        let (status, answer) = site.authorized_request(body).await;
        assert!(
            status == 400 && answer["error"].as_str().unwrap().starts_with("the body is not a purge request"),
            "{body}"
        );
    }
    let (status, _) =
        site.authorized_request(&format!(r#"{{"part":"http","tag":"{}"}}"#, "x".repeat(70_000))).await;
    assert_eq!(status, 413);
    assert!(site.purged.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn purge_requires_token_content_type_and_same_origin() {
    let site = site();
    let body = r#"{"part":"http","all":true}"#;
    let token = format!("Bearer {}", site.token);
    let (json_type, own, wrong) =
        (("content-type", "application/json"), ("authorization", token.as_str()), format!("{token}0"));
    for (fields, status) in [
        (vec![json_type], 401),
        (vec![json_type, ("authorization", "Bearer x")], 401),
        (vec![json_type, ("authorization", &wrong)], 401),
        (vec![json_type, ("authorization", &site.token)], 401),
        (vec![own], 415),
        (vec![own, ("content-type", "text/plain")], 415),
        (vec![own, json_type, ("origin", "http://evil.example")], 403),
        (vec![own, json_type, ("origin", "null")], 403),
        (vec![own, json_type, ("origin", "http://127.0.0.1:8081")], 200),
    ] {
        assert_eq!(site.request(&fields, body).await.0, status, "{fields:?}");
    }
    assert_eq!(site.purged.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn purge_without_a_configured_token_is_refused() {
    let registry = registry();
    registry.register_with_purger("http", "http", Sample::running, RecordingPurger::default());
    let request = Request::post("/api/purge").header("host", "localhost").header("authorization", "Bearer ");
    let answer = send(&larder_admin::router(registry), request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

/// Purges by tag only.
struct TagPurger;

impl Purger for TagPurger {
    fn purge(&self, _: Target) -> PurgeFuture<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn targets(&self) -> &[TargetKind] {
        &[TargetKind::Tag]
    }
}

/// The form offered every target, and was there although every purge was refused for want of a token.
#[tokio::test]
async fn stats_have_the_targets_that_each_part_can_purge() {
    let registry = registry();
    registry.register_with_purger("tags", "cache", Sample::running, TagPurger);
    let site = site_with(registry.clone());
    let targets = async |router: &Router| {
        let stats: Value = serde_json::from_str(&get(router, "/api/stats").await.body).unwrap();
        let parts = stats["parts"].as_array().unwrap().clone();
        parts
            .iter()
            .map(|part| (part["can_purge"].clone(), part["purge_targets"].clone()))
            .collect::<Vec<_>>()
    };
    let none = || (json!(false), Value::Null);
    let every = (json!(true), json!(["tag", "uri", "prefix", "principal", "all"]));
    assert_eq!(targets(&site.router).await, [none(), (json!(true), json!(["tag"])), every]);
    let stats: Value = serde_json::from_str(&get(&site.router, "/api/stats").await.body).unwrap();
    let soft_purges = [&stats["parts"][1]["soft_purges"], &stats["parts"][2]["soft_purges"]];
    assert_eq!(soft_purges, [&Value::Null, &json!(true)]);
    let refused = site.authorized_request(r#"{"part":"tags","tag":"a","soft":true}"#).await;
    let reason = "cannot purge tag \"a\" softly: this part has hard purges only";
    assert_eq!(refused, (422, json!({ "error": reason })));
    assert_eq!(targets(&larder_admin::router(registry)).await, [none(), none(), none()]);
}

#[tokio::test]
async fn purges_are_events_of_the_history() {
    let site = site();
    let started: Value = serde_json::from_str(&get(&site.router, "/api/history").await.body).unwrap();
    assert_eq!((&started["version"], &started["events"]), (&json!(1), &json!([])));
    assert!(started["now"].as_f64().unwrap() > 1.7e9 && started["intervals"].is_array());
    for body in [
        r#"{"part":"http","tag":"a\nb"}"#,
        r#"{"part":"http","uri":"bad"}"#,
        r#"{"part":"http","all":true,"soft":true}"#,
    ] {
        site.authorized_request(body).await;
    }
    let history: Value = serde_json::from_str(&get(&site.router, "/api/history").await.body).unwrap();
    let events = history["events"].as_array().unwrap();
    let texts: Vec<_> = events.iter().map(|event| (&event["part"], &event["text"])).collect();
    let failed = json!("could not purge URI \"bad\": cannot purge \"bad\"");
    let soft = json!("purged everything softly");
    let first = json!("purged tag \"a\\nb\"");
    let http = json!("http");
    assert_eq!(texts, [(&http, &first), (&http, &failed), (&http, &soft)]);
    let last = history["last"].as_u64().unwrap();
    let later = get(&site.router, &format!("/api/history?after={last}")).await;
    assert!(later.body.ends_with("\"events\":[]}"), "{}", later.body);
}

#[tokio::test]
async fn errors_of_the_api_are_json() {
    let site = site();
    for (path, status) in [
        ("/api/history?after=x", 400),
        ("/api/history?after=-1", 400),
        ("/api/history?before=1", 400),
        ("/api/explain", 400),
        ("/api/explain?target=a&other=1", 400),
        ("/api/explain?target=a&part=absent", 404),
        ("/api/absent", 404),
        ("/api/purge", 405),
    ] {
        let answer = get(&site.router, path).await;
        assert_eq!(
            (answer.status.as_u16(), answer.headers["content-type"].to_str().unwrap()),
            (status, "application/json"),
            "{path}"
        );
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(!body["error"].as_str().unwrap().is_empty(), "{path}: {body}");
    }
}

#[tokio::test]
async fn explanations_of_the_parts_are_listed() {
    let registry = registry();
    registry.register("server", "server", Sample::running);
    registry.explain_with("links", |target: &str| {
        let explanation = || Explanation::new("from memory").fact("tier", "memory").fact("age_seconds", 2.5);
        target.starts_with("http://").then(explanation)
    });
    registry.explain_with("server", |target: &str| Some(Explanation::new("no such key").fact("key", target)));
    registry.explain_with("absent", |_: &str| panic!("no such part"));
    let router = larder_admin::router(registry);
    let explain = async |query: &str| {
        let answer = get(&router, &format!("/api/explain?{query}")).await;
        (answer.status.as_u16(), serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    let facts = json!({ "tier": "memory", "age_seconds": 2.5 });
    let links = json!({ "part": "links", "verdict": "from memory", "facts": facts });
    let server = |key: &str| json!({ "part": "server", "verdict": "no such key", "facts": { "key": key } });
    let both = json!({ "version": 1, "target": "http://a/b", "parts": [links, server("http://a/b")] });
    assert_eq!(explain("target=http%3A%2F%2Fa%2Fb").await, (200, both));
    assert_eq!(explain("target=a&part=server").await.1["parts"], json!([server("a")]));
    let error = json!({ "error": "the part \"links\" does not exist or cannot explain \"a\"" });
    assert_eq!(explain("target=a&part=links").await, (404, error));
    for wrong in ["", "part=links", "target=a&other=1"] {
        assert_eq!(explain(wrong).await.0, 400, "{wrong}");
    }
    // A map of `serde_json` would have sorted the facts.
    let text = get(&router, "/api/explain?target=http%3A%2F%2Fa&part=links").await.body;
    assert_eq!(
        text,
        r#"{"version":1,"target":"http://a","parts":[{"part":"links","verdict":"from memory","#.to_owned()
            + r#""facts":{"tier":"memory","age_seconds":2.5}}]}"#
    );
}
