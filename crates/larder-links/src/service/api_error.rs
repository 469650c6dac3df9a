//! The errors that clients see: a status and one JSON format for every error of the API.
//!
//! ```json
//! {"error": {"field": "url", "message": "must begin with http:// or https://; ftp: is not allowed", "value": "ftp://a.example"}}
//! ```
//!
//! `field` and `value` are present if one part of the input is wrong.

use crate::model::address::AddressError;
use crate::model::slug::SlugError;
use crate::model::token::Scope;
use crate::store::StoreError;
use http::StatusCode;
use serde::Serialize;
use std::time::Duration;

/// How many characters of a wrong value the response contains.
const EXCERPT_CHARS: usize = 200;

/// An error response of the API.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ApiError {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// The value of `WWW-Authenticate`.
    #[serde(skip)]
    pub(crate) challenge: Option<&'static str>,
    #[serde(skip)]
    pub(crate) retry_after_seconds: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            field: None,
            message: message.into(),
            value: None,
            challenge: None,
            retry_after_seconds: (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        }
    }

    /// 401: a token is needed, or the one that was `presented` is not valid (RFC 6750, section 3).
    pub(crate) fn unauthorized(message: &str, presented: bool) -> ApiError {
        let challenge = if presented { "Bearer error=\"invalid_token\"" } else { "Bearer" };
        ApiError { challenge: Some(challenge), ..ApiError::new(StatusCode::UNAUTHORIZED, message) }
    }

    /// 403: the token is valid and does not allow this.
    pub(crate) fn insufficient_scope(needed: Scope) -> ApiError {
        let challenge = match needed {
            Scope::Read => "Bearer error=\"insufficient_scope\", scope=\"read\"",
            Scope::Write => "Bearer error=\"insufficient_scope\", scope=\"write\"",
        };
        let message = format!("this needs a token with the scope {needed}");
        ApiError { challenge: Some(challenge), ..ApiError::new(StatusCode::FORBIDDEN, message) }
    }

    /// Sets `Retry-After`, in whole seconds.
    pub(crate) fn retry_after(self, wait: Duration) -> ApiError {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        ApiError { retry_after_seconds: Some(seconds.max(1)), ..self }
    }

    /// 422: a field of well-formed input breaks a rule.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>, value: &str) -> ApiError {
        let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message);
        ApiError { field: Some(field.into()), value: Some(excerpt(value)), ..error }
    }

    pub(crate) fn address(error: &AddressError, value: &str) -> ApiError {
        ApiError::invalid("url", error.to_string(), value)
    }

    pub(crate) fn slug(error: SlugError, value: &str) -> ApiError {
        ApiError::invalid("slug", error.to_string(), value)
    }

    /// 409: the slug belongs to another link.
    pub(crate) fn slug_taken(slug: &str) -> ApiError {
        ApiError {
            status: StatusCode::CONFLICT,
            ..ApiError::invalid("slug", "is taken; choose another", slug)
        }
    }

    pub(crate) fn no_link(slug: &str) -> ApiError {
        let error = ApiError::new(StatusCode::NOT_FOUND, "there is no link with this slug");
        ApiError { field: Some("slug".into()), value: Some(excerpt(slug)), ..error }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn forbidden(message: &str, value: Option<&str>) -> ApiError {
        ApiError { value: value.map(excerpt), ..ApiError::new(StatusCode::FORBIDDEN, message) }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Field and message, for a report of an import.
    pub(crate) fn to_text(&self) -> String {
        match &self.field {
            Some(field) => format!("{field} {}", self.message),
            None => self.message.clone(),
        }
    }

    /// 405: the path has no such method.
    pub(crate) fn wrong_method() -> ApiError {
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not support this method")
    }

    pub(crate) fn internal() -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the service failed; see its log")
    }
}

impl From<StoreError> for ApiError {
    /// 503: the request is valid and can be sent again later.
    fn from(error: StoreError) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

fn excerpt(value: &str) -> String {
    match value.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}
