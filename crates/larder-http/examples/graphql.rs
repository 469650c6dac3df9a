//! A GraphQL API behind the cache: `cargo run -p larder-http --features axum,async-graphql --example graphql`, then twice
//!
//! ```text
//! curl -i http://127.0.0.1:3000/graphql -H 'content-type: application/json' -d '{"query":"{ product(id: 1) { name } }"}'
//! curl -i http://127.0.0.1:3000/graphql -H 'content-type: application/json' \
//!      -d '{"query":"mutation { rename(id: 1, name: \"honey\") { name } }"}'
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::sync::Mutex;

use async_graphql::http::parse_query_string;
use async_graphql::{Context, EmptySubscription, Object, Request, Result, Schema, SimpleObject};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{Method, StatusCode, Uri, header};
use larder_http::{BodyRule, BodyRules, CacheCtx, CacheHints, HttpCache};

type Shop = Schema<Query, Mutation, EmptySubscription>;
type Names = Mutex<HashMap<i32, String>>;

#[derive(SimpleObject)]
struct Product {
    id: i32,
    name: String,
}

struct Query;

#[Object]
impl Query {
    /// The hint is the TTL of every query with this field; the resolver names what the response depends on.
    #[graphql(cache_control(max_age = 60))]
    async fn product(&self, ctx: &Context<'_>, id: i32) -> Result<Option<Product>> {
        ctx.data::<CacheCtx>()?.tag(format!("product:{id}"));
        let names = ctx.data::<Names>()?.lock().map_err(|_| "the shop is closed")?;
        Ok(names.get(&id).map(|name| Product { id, name: name.clone() }))
    }
}

struct Mutation;

#[Object]
impl Mutation {
    async fn rename(&self, ctx: &Context<'_>, id: i32, name: String) -> Result<Product> {
        ctx.data::<Names>()?.lock().map_err(|_| "the shop is closed")?.insert(id, name.clone());
        ctx.data::<CacheCtx>()?.purge_tag(format!("product:{id}"));
        Ok(Product { id, name })
    }
}

/// GET has the request in its URI, POST and QUERY in their body.
async fn graphql(
    State(shop): State<Shop>,
    cache: CacheCtx,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    let request: Result<Request, String> = match method.as_str() {
        "GET" => parse_query_string(uri.query().unwrap_or_default()).map_err(|error| error.to_string()),
        "POST" | "QUERY" => serde_json::from_slice(&body).map_err(|error| error.to_string()),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    match request {
        Ok(request) => {
            let response = shop.execute(request.data(cache)).await;
            let content_type = [(header::CONTENT_TYPE, "application/graphql-response+json")];
            (content_type, serde_json::to_string(&response).unwrap_or_default()).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error).into_response(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let names: Names = Mutex::new(HashMap::from([(1, "jam".to_owned()), (2, "pickles".to_owned())]));
    let shop = Schema::build(Query, Mutation, EmptySubscription).data(names).extension(CacheHints).finish();

    // axum has no route for QUERY, so the fallback of the route serves POST and QUERY.
    let router = Router::new().route("/graphql", get(graphql).fallback(graphql)).with_state(shop);
    let rules = BodyRules::new().route("/graphql", BodyRule::graphql());
    let cache = HttpCache::builder().max_bytes(64 << 20).build()?;
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}/graphql", listener.local_addr()?);
    axum::serve(listener, cache.layer().body_rules(rules).in_front_of(router)).await?;
    Ok(())
}
