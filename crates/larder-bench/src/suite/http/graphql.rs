//! GraphQL answers: a schema of async-graphql, which resolves a list of products for each request.

use super::bodies::{Body, Content};
use super::kind::Kind;
use anyhow::Result;
use async_graphql::{EmptyMutation, EmptySubscription, Object, Request, Schema, SimpleObject};
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use larder_http::{BodyRule, BodyRules, Cached, HttpCache};
use std::hint::black_box;

type Shop = Schema<Query, EmptyMutation, EmptySubscription>;

pub(super) const PATH: &str = "/graphql";

/// The names of the answers, and the bodies of their requests.
const ANSWERS: [(&str, &str); 2] = [
    (
        "graphql-1kb",
        r#"{"operationName":"Products","variables":{"first":8},"query":"query Products($first: Int!) { products(first: $first) { id name description cents available } }"}"#,
    ),
    (
        "graphql-16mb",
        r#"{"operationName":"Products","variables":{"first":117000},"query":"query Products($first: Int!) { products(first: $first) { id name description cents available } }"}"#,
    ),
];

struct Query;

#[Object]
impl Query {
    async fn products(&self, first: u32) -> Vec<Product> {
        (0..first).map(Product::new).collect()
    }
}

#[derive(SimpleObject)]
struct Product {
    id: u32,
    name: String,
    description: String,
    cents: u32,
    available: bool,
}

impl Product {
    fn new(id: u32) -> Product {
        let description = "An oak shelf for jars of pickled lemons, with a lid that keeps.".to_owned();
        Product {
            id,
            name: format!("Shelf {id}"),
            description,
            cents: 990 + id % 100,
            available: !id.is_multiple_of(7),
        }
    }
}

/// The answers up to `limit` bytes, smallest first.
pub(super) fn all(limit: usize) -> Result<Vec<Body>> {
    let mut bodies = Vec::new();
    for (name, query) in ANSWERS {
        let size = answer(query)?.len();
        if size <= limit {
            bodies.push(Body { name, content: Content::Graphql(query), size });
        }
    }
    Ok(bodies)
}

/// The answer to a request, without a server.
fn answer(query: &str) -> Result<Vec<u8>> {
    tokio::runtime::Builder::new_current_thread().build()?.block_on(resolve(&shop(), query.as_bytes()))
}

fn shop() -> Shop {
    Schema::new(Query, EmptyMutation, EmptySubscription)
}

/// Parses, resolves and encodes, as a handler without a cache does for each request.
async fn resolve(shop: &Shop, body: &[u8]) -> Result<Vec<u8>> {
    let request: Request = serde_json::from_slice(body)?;
    Ok(serde_json::to_vec(&shop.execute(request).await)?)
}

/// The router of a server that answers this query.
pub(super) fn router(kind: Kind, query: &str, cache: HttpCache) -> Result<Router> {
    let json = [("content-type", "application/json")];
    let shop = shop();
    let resolved = async move |body: Bytes, settings: Option<Cached>| -> Response {
        match resolve(&shop, &body).await {
            Ok(answer) => (settings, json, answer).into_response(),
            Err(_) => StatusCode::BAD_REQUEST.into_response(),
        }
    };
    Ok(match kind {
        Kind::Bare => {
            let bytes = Bytes::from(answer(query)?);
            let read = async move |body: Bytes| {
                black_box(body);
                (json, bytes)
            };
            Router::new().route(PATH, post(read))
        }
        Kind::Encoded => Router::new().route(PATH, post(async move |body| resolved(body, None).await)),
        Kind::Cached | Kind::Full => {
            let stored = async move |body| resolved(body, Some(Cached::ttl(super::kind::TTL))).await;
            let rules = BodyRules::new().route(PATH, BodyRule::graphql());
            cache.layer().body_rules(rules).in_front_of(Router::new().route(PATH, post(stored)))
        }
        #[cfg(feature = "bench-peers")]
        Kind::Peer => anyhow::bail!("the peer caches no responses to POST"),
    })
}
