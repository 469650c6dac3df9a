//! A shop with a GraphQL API behind the cache, and requests to it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};

use async_graphql::{BatchRequest, Context, EmptySubscription, Object, Result, Schema};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body::Frame;
use http_body_util::BodyExt;
use larder_http::{Access, BodyRule, BodyRules, Builder, CacheCtx, CacheHints, Clock, HttpCache, Scope};
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt;

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

/// The shop's state, and what the tests observe and control.
#[derive(Default)]
pub(crate) struct Shop {
    pub(crate) names: Mutex<HashMap<i32, String>>,
    /// How often a resolver of the root has run.
    pub(crate) resolved: AtomicUsize,
    /// The requests that reached the handler.
    pub(crate) received: Mutex<Vec<(Method, String)>>,
    documents: Mutex<HashMap<String, String>>,
    /// Users by the value of `Authorization`.
    pub(crate) sessions: Mutex<HashMap<String, String>>,
    pub(crate) steps: Steps,
}

/// Lets a mutation that waits go on.
pub(crate) struct Steps {
    pub(crate) started: Semaphore,
    pub(crate) commit: Semaphore,
    pub(crate) committed: Semaphore,
    pub(crate) end: Semaphore,
}

impl Default for Steps {
    fn default() -> Steps {
        let closed = || Semaphore::new(0);
        Steps { started: closed(), commit: closed(), committed: closed(), end: closed() }
    }
}

pub(crate) struct Query;

#[Object]
impl Query {
    #[graphql(cache_control(max_age = 60))]
    async fn product(&self, ctx: &Context<'_>, id: i32) -> Result<Product> {
        let shop = shop(ctx);
        ctx.data::<CacheCtx>()?.tag(format!("product:{id}"));
        let name = shop.names.lock().unwrap().get(&id).cloned().unwrap_or_else(|| format!("product {id}"));
        Ok(Product { id, name })
    }

    #[graphql(cache_control(max_age = 60))]
    async fn echo(&self, ctx: &Context<'_>, text: Option<String>) -> String {
        shop(ctx);
        text.unwrap_or_default()
    }

    #[graphql(cache_control(max_age = 60))]
    async fn broken(&self, ctx: &Context<'_>) -> Result<Option<i32>> {
        shop(ctx);
        Err("the shelf has fallen".into())
    }

    #[graphql(cache_control(max_age = 5))]
    async fn stock(&self, ctx: &Context<'_>) -> i32 {
        shop(ctx);
        3
    }

    /// The user of the request, and the number of the call.
    #[graphql(cache_control(max_age = 60, private))]
    async fn basket(&self, ctx: &Context<'_>) -> String {
        let resolved = shop(ctx).resolved.load(Ordering::SeqCst);
        format!("{} {resolved}", ctx.data_opt::<User>().map_or("nobody", |user| &user.0))
    }

    /// For all who are signed in.
    #[graphql(cache_control(max_age = 60))]
    async fn prices(&self, ctx: &Context<'_>) -> Result<i32> {
        shop(ctx);
        ctx.data::<CacheCtx>()?.scope(Scope::Gated);
        ctx.data::<User>().map(|_| 7)
    }

    #[graphql(cache_control(no_cache))]
    async fn now(&self, ctx: &Context<'_>) -> usize {
        shop(ctx).resolved.load(Ordering::SeqCst)
    }

    async fn unhinted(&self, ctx: &Context<'_>) -> i32 {
        shop(ctx);
        0
    }
}

pub(crate) struct Mutation;

#[Object]
impl Mutation {
    #[graphql(cache_control(max_age = 60))]
    async fn rename(&self, ctx: &Context<'_>, id: i32, name: String) -> Result<Product> {
        let shop = shop(ctx);
        shop.names.lock().unwrap().insert(id, name.clone());
        ctx.data::<CacheCtx>()?.purge_tag(format!("product:{id}"));
        Ok(Product { id, name })
    }

    /// Purges, commits when it is let, and ends when it is let.
    async fn rename_slowly(&self, ctx: &Context<'_>, id: i32, name: String, fail: bool) -> Result<i32> {
        let shop = shop(ctx);
        ctx.data::<CacheCtx>()?.purge_tag(format!("product:{id}"));
        shop.steps.started.add_permits(1);
        shop.steps.commit.acquire().await?.forget();
        shop.names.lock().unwrap().insert(id, name);
        shop.steps.committed.add_permits(1);
        shop.steps.end.acquire().await?.forget();
        if fail { Err("renamed, and then failed".into()) } else { Ok(id) }
    }
}

pub(crate) struct Product {
    id: i32,
    name: String,
}

#[Object]
impl Product {
    async fn id(&self) -> i32 {
        self.id
    }

    async fn name(&self) -> &str {
        &self.name
    }
}

fn shop<'a>(ctx: &Context<'a>) -> &'a Arc<Shop> {
    let shop = ctx.data_unchecked::<Arc<Shop>>();
    shop.resolved.fetch_add(1, Ordering::SeqCst);
    shop
}

#[derive(Clone)]
struct Endpoint {
    schema: Schema<Query, Mutation, EmptySubscription>,
    shop: Arc<Shop>,
}

/// Who has sent the request: the value of its `Authorization`, while that is one of [`Shop::sessions`].
#[derive(Clone)]
struct User(String);

/// The handler of all methods.
async fn graphql(
    State(endpoint): State<Endpoint>,
    cache: CacheCtx,
    headers: HeaderMap,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    let text = String::from_utf8_lossy(&body).into_owned();
    endpoint.shop.received.lock().unwrap().push((method.clone(), text));
    let batch = match method.as_str() {
        "GET" => async_graphql::http::parse_query_string(uri.query().unwrap_or_default())
            .map(BatchRequest::Single)
            .map_err(|error| error.to_string()),
        "POST" | "QUERY" => serde_json::from_slice::<BatchRequest>(&body).map_err(|error| error.to_string()),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    let batch = match batch {
        Ok(BatchRequest::Single(request)) => match endpoint.shop.find_document(request) {
            Ok(request) => BatchRequest::Single(request),
            Err(errors) => return json(errors),
        },
        Ok(batch) => batch,
        Err(error) => return (StatusCode::BAD_REQUEST, error).into_response(),
    };
    let batch = match endpoint.shop.user(&headers) {
        Some(user) => batch.data(cache).data(User(user)),
        None => batch.data(cache),
    };
    json(serde_json::to_string(&endpoint.schema.execute_batch(batch).await).unwrap())
}

fn json(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/graphql-response+json")], body).into_response()
}

impl Shop {
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<String> {
        let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        self.sessions.lock().unwrap().get(token).cloned()
    }

    /// Automatic persisted queries: registers the document, or finds that of a hash.
    fn find_document(&self, mut request: async_graphql::Request) -> Result<async_graphql::Request, String> {
        let Some(extension) = request.extensions.get("persistedQuery").cloned() else { return Ok(request) };
        let extension = extension.into_json().unwrap();
        let hash = extension["sha256Hash"].as_str().unwrap_or_default().to_owned();
        let mut documents = self.documents.lock().unwrap();
        if request.query.is_empty() {
            match documents.get(&hash) {
                Some(document) => request.query = document.clone(),
                None => return Err(r#"{"errors":[{"message":"PersistedQueryNotFound"}]}"#.to_owned()),
            }
        } else if hash == sha256(&request.query) {
            documents.insert(hash, request.query.clone());
        } else {
            return Err(r#"{"errors":[{"message":"provided sha does not match query"}]}"#.to_owned());
        }
        Ok(request)
    }
}

pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The API behind a cache.
pub(crate) struct Site {
    pub(crate) shop: Arc<Shop>,
    pub(crate) cache: HttpCache,
    pub(crate) router: Router,
}

impl Site {
    pub(crate) fn new() -> Site {
        Site::with_rule(BodyRule::graphql())
    }

    pub(crate) fn with_rule(rule: BodyRule) -> Site {
        Site::with(rule, Arc::new(Shop::default()), |builder| builder)
    }

    /// A site with a gate that allows the sessions of the shop.
    pub(crate) fn with_sessions(sessions: &[(&str, &str)]) -> Site {
        let shop = Arc::new(Shop::default());
        let sessions = sessions.iter().map(|(token, user)| ((*token).to_owned(), (*user).to_owned()));
        shop.sessions.lock().unwrap().extend(sessions);
        let of_gate = shop.clone();
        Site::with(BodyRule::graphql(), shop, |builder| {
            builder.gate(move |head| {
                let user = of_gate.user(&head.headers);
                std::future::ready(user.map_or(Access::Denied, Access::AllowedAs))
            })
        })
    }

    fn with(rule: BodyRule, shop: Arc<Shop>, options: impl FnOnce(Builder) -> Builder) -> Site {
        let schema = Schema::build(Query, Mutation, EmptySubscription)
            .data(shop.clone())
            .extension(CacheHints)
            .finish();
        let endpoint = Endpoint { schema, shop: shop.clone() };
        let router = Router::new().route("/graphql", get(graphql).fallback(graphql)).with_state(endpoint);
        Site::around(router, shop, rule, options)
    }

    pub(crate) fn around(
        router: Router,
        shop: Arc<Shop>,
        rule: BodyRule,
        options: impl FnOnce(Builder) -> Builder,
    ) -> Site {
        // Time stands still, so that a TTL is exact.
        let (clock, _) = Clock::manual();
        let cache = options(HttpCache::builder().clock(clock)).build().unwrap();
        let rules = BodyRules::new().route("/graphql", rule);
        let router = cache.layer().body_rules(rules).in_front_of(router);
        Site { shop, cache, router }
    }

    pub(crate) fn resolved(&self) -> usize {
        self.shop.resolved.load(Ordering::SeqCst)
    }

    pub(crate) async fn post(&self, body: impl Into<String>) -> Reply {
        self.send("POST", "/graphql", &[JSON], body).await
    }

    /// Sends a document without anything else.
    pub(crate) async fn query(&self, document: &str) -> Reply {
        self.post(serde_json::json!({ "query": document }).to_string()).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: impl Into<String>,
    ) -> Reply {
        Reply::read(self.router.clone().oneshot(request(method, target, fields, body)).await.unwrap()).await
    }
}

pub(crate) fn request(
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
    body: impl Into<String>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(target).header("host", "shop.example");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body.into())).unwrap()
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) cache_status: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) async fn read(response: Response) -> Reply {
        let status = response.status();
        let cache_status = response.headers()["cache-status"].to_str().unwrap();
        let cache_status = cache_status.strip_prefix("larder; ").unwrap().to_owned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Reply { status, cache_status, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    pub(crate) fn is_hit(&self) -> bool {
        self.cache_status.starts_with("hit")
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.cache_status.ends_with("; stored")
    }
}

/// A body without a declared length, whose chunks arrive through a channel.
pub(crate) struct Streamed(pub(crate) mpsc::UnboundedReceiver<&'static str>);

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(Bytes::from(chunk)))))
    }
}
