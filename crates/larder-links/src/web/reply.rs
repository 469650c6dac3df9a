//! The errors of the API as responses and as errors of GraphQL.

use crate::service::api_error::ApiError;
use async_graphql::ErrorExtensions;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;

/// The error of one field of a GraphQL query. The status is that which the JSON API would have.
impl From<ApiError> for async_graphql::Error {
    fn from(error: ApiError) -> async_graphql::Error {
        async_graphql::Error::new(error.message).extend_with(|_, extensions| {
            extensions.set("status", error.status.as_u16());
            for (name, value) in [("field", error.field), ("value", error.value)] {
                if let Some(value) = value {
                    extensions.set(name, value);
                }
            }
        })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body {
            error: ApiError,
        }
        let (status, challenge, retry_after) = (self.status, self.challenge, self.retry_after_seconds);
        let mut response = (status, Json(Body { error: self })).into_response();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}
