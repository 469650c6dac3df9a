//! `GET /api/explain`: what the parts would do with a key or a URL now, and why. Nothing is changed or counted.
//!
//! ```json
//! {
//!   "version": 1,
//!   "target": "http://127.0.0.1:8080/abc",
//!   "parts": [ { "part": "links", "verdict": "answered from memory", "facts": { "tier": "memory", "age_seconds": 3.2 } } ]
//! }
//! ```

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::parts::explain::Explanation;
use crate::routes::api::VERSION;
use crate::routes::query::{self, ApiQuery};
use crate::routes::state::AppState;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainQuery {
    target: String,
    part: Option<String>,
}

pub(crate) async fn answer(
    State(state): State<AppState>,
    ApiQuery(ExplainQuery { target, part }): ApiQuery<ExplainQuery>,
) -> Response {
    let parts = state.registry.explain(&target, part.as_deref()).await;
    if parts.is_empty() {
        let error = match part {
            Some(part) => format!("the part {part:?} does not exist or cannot explain {target:?}"),
            None => format!("no part can explain {target:?}"),
        };
        return query::error(StatusCode::NOT_FOUND, &error);
    }
    let views = parts.iter().map(|(part, explanation)| PartView { part, explanation }).collect::<Vec<_>>();
    Json(AnswerView { version: VERSION, target: &target, parts: views }).into_response()
}

/// The answer, serialized without a `Value` in between: that would sort the facts by their names, unless some dependency
/// enables `preserve_order` of `serde_json`.
#[derive(Serialize)]
struct AnswerView<'a> {
    version: u32,
    target: &'a str,
    parts: Vec<PartView<'a>>,
}

#[derive(Serialize)]
struct PartView<'a> {
    part: &'a str,
    #[serde(flatten)]
    explanation: &'a Explanation,
}
