//! `/api/graphql`: GraphQL requests by GET, POST and QUERY. The schema is in `web/graphql.rs`.

use crate::service::Links;
use crate::service::api_error::ApiError;
use crate::web::graphql::{LinksSchema, RequestData, check_document};
use crate::web::input::{self, MAX_BODY_BYTES};
use async_graphql::http::parse_query_string;
use async_graphql::{Request as GraphqlRequest, Value};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use larder_http::CacheCtx;

/// Reads the body in front of the response cache, with the limits and errors of the JSON API.
pub(crate) async fn buffer_body(request: Request<Body>, next: Next) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let body = input::read_body(&head.headers, body, MAX_BODY_BYTES).await?;
    Ok(next.run(Request::from_parts(head, body.into())).await)
}

/// Executes a request: 200 with `data`, or 400 if the schema does not accept it.
pub(crate) async fn answer(
    State((links, schema)): State<(Links, LinksSchema)>,
    cache: CacheCtx,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let request = match method.as_str() {
        "GET" | "HEAD" => {
            parse_query_string(uri.query().unwrap_or_default()).map_err(|error| invalid_request(&error))?
        }
        "POST" | "QUERY" => {
            serde_json::from_slice::<GraphqlRequest>(&body).map_err(|error| invalid_request(&error))?
        }
        _ => return Err(ApiError::wrong_method()),
    };
    if request.query.is_empty() {
        return Err(ApiError::bad_request("the request has no query; persisted queries are not supported"));
    }
    check_document(&request.query)?;
    let base = links.hosts().base(&headers);
    let mut response = schema.execute(request.data(RequestData { links, base, cache })).await;
    if response.is_ok() && response.data == Value::Null {
        // All fields are left out by `@skip` or `@include`.
        response.data = Value::Object(Default::default());
    }
    let status = if response.data == Value::Null { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let body = serde_json::to_string(&response).map_err(|_| ApiError::internal())?;
    Ok((status, [(CONTENT_TYPE, "application/graphql-response+json")], body).into_response())
}

fn invalid_request(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("this is not a GraphQL request: {error}"))
}
