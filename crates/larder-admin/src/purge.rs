//! `POST /api/purge`: what may be asked, by whom, and the parts that answer.

use std::future::Future;
use std::pin::Pin;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::json;

use crate::guard;
use crate::router::Shared;

/// Longest body of a purge; a URI or tag is far shorter.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// What a part is asked to purge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// Everything that carries a tag.
    Tag(String),
    /// One resource.
    Uri(String),
    /// All resources whose URI begins so.
    Prefix(String),
    /// Everything.
    All,
}

/// The outcome of a purge; the error is shown to whoever asked.
pub type PurgeFuture<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A part that can be purged.
pub trait Purger: Send + Sync {
    /// Purges; resolves once nothing that was covered is served any more.
    ///
    /// # Errors
    /// One clear sentence: what the part cannot purge, or what went wrong.
    fn purge(&self, target: Target) -> PurgeFuture<'_>;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    part: String,
    tag: Option<String>,
    uri: Option<String>,
    prefix: Option<String>,
    #[serde(default)]
    all: bool,
}

impl Asked {
    /// The one target named.
    fn target(self) -> Option<(String, Target)> {
        let mut targets = [
            self.tag.map(Target::Tag),
            self.uri.map(Target::Uri),
            self.prefix.map(Target::Prefix),
            self.all.then_some(Target::All),
        ]
        .into_iter()
        .flatten();
        let target = targets.next()?;
        targets.next().is_none().then_some((self.part, target))
    }
}

pub(crate) async fn purge(State(shared): State<Shared>, request: Request) -> Response {
    match answer(&shared, request).await {
        Ok(()) => Json(json!({ "purged": true })).into_response(),
        Err((status, error)) => (status, Json(json!({ "error": error }))).into_response(),
    }
}

async fn answer(shared: &Shared, request: Request) -> Result<(), (StatusCode, String)> {
    let refuse = |status, why: &str| Err((status, why.to_owned()));
    let headers = request.headers();
    if !guard::same_origin(headers) {
        return refuse(StatusCode::FORBIDDEN, "the request comes from another site");
    }
    let Some(token) = &shared.token else {
        return refuse(StatusCode::FORBIDDEN, "purging is off: the server has no admin token");
    };
    let offered = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if !offered.is_some_and(|offered| token.matches(offered)) {
        return refuse(StatusCode::UNAUTHORIZED, "the admin token is missing or wrong");
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json");
    }
    let (part, target) = read(request.into_body()).await?;
    let purger = match shared.registry.purger(&part) {
        None => return Err((StatusCode::NOT_FOUND, format!("there is no part {part:?}"))),
        Some(None) => return Err((StatusCode::CONFLICT, format!("the part {part:?} cannot be purged"))),
        Some(Some(purger)) => purger,
    };
    purger.purge(target).await.map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, error))
}

async fn read(body: Body) -> Result<(String, Target), (StatusCode, String)> {
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "the body must be whole and at most 64 KiB".to_owned()));
    };
    let asked: Asked = serde_json::from_slice(&body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("the body is not a purge: {error}")))?;
    let one = "give a part and one of tag, uri, prefix, or all: true";
    asked.target().ok_or((StatusCode::BAD_REQUEST, one.to_owned()))
}
