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
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::future::{Future, ready};
use std::pin::Pin;

use crate::routes::api::VERSION;
use crate::routes::query::{self, ApiQuery};
use crate::routes::state::AppState;

/// What a part would do with a key or a URL.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What a request would get, and why, in one sentence.
    pub verdict: String,
    /// What the part knows, by names in lower-case words joined by `_` with the unit last, such as `age_seconds`. JSON and
    /// `larder explain` have them in this order.
    #[serde(serialize_with = "as_object")]
    pub facts: Vec<(&'static str, Value)>,
}

impl Explanation {
    /// An explanation without facts.
    pub fn new(verdict: impl Into<String>) -> Explanation {
        Explanation { verdict: verdict.into(), facts: Vec::new() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl Into<Value>) -> Explanation {
        self.facts.push((name, value.into()));
        self
    }
}

/// An explanation, or `None` for a target that is none of the part.
pub type ExplainFuture<'a> = Pin<Box<dyn Future<Output = Option<Explanation>> + Send + 'a>>;

/// Explains keys or URLs of a part. Implemented by every closure that does so without waiting.
pub trait Explainer: Send + Sync {
    /// What the part would do with a target; `None` if it is no target of this part. It must not change anything. One that
    /// asks a database must bound the time that it waits: the parts are asked at once, and the answer has all of them. If it
    /// panics, the answer says so in place of an explanation.
    fn explain<'a>(&'a self, target: &'a str) -> ExplainFuture<'a>;
}

impl<F: Fn(&str) -> Option<Explanation> + Send + Sync> Explainer for F {
    fn explain<'a>(&'a self, target: &'a str) -> ExplainFuture<'a> {
        Box::pin(ready(self(target)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainQuery {
    target: String,
    part: Option<String>,
}

pub(crate) async fn explain(
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

/// The answer, serialized without a [`Value`] in between: that would sort the facts by their names, unless some dependency
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

fn as_object<S: Serializer>(facts: &[(&'static str, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(facts.iter().map(|(name, value)| (name, value)))
}
