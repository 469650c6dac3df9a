//! The queries and errors of the API: every answer below `/api/` is JSON, also one to a query that cannot be read.

use axum::Json;
use axum::extract::{FromRequestParts, Query};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::json;

/// The fields of a query.
pub(crate) struct ApiQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ApiQuery<T>, Response> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(fields)) => Ok(ApiQuery(fields)),
            Err(rejection) => Err(error(rejection.status(), &rejection.body_text())),
        }
    }
}

/// An error of the API.
pub(crate) fn error(status: StatusCode, reason: &str) -> Response {
    (status, Json(json!({ "error": reason }))).into_response()
}
