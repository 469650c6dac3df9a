//! `POST /api/purge`: validates origin, token and body, and purges a part.

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::AUTHORIZATION;
use larder_web::has_json_type;
use serde::Deserialize;
use serde_json::json;

use crate::parts::purge::Target;
use crate::routes::guard;
use crate::routes::query;
use crate::routes::state::AppState;
use crate::unwind::caught_async;

/// The maximum length of a request body. URIs and tags are much shorter.
const MAX_BODY_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PurgeRequest {
    part: String,
    tag: Option<String>,
    uri: Option<String>,
    prefix: Option<String>,
    principal: Option<String>,
    #[serde(default)]
    all: bool,
    /// What is purged becomes stale, instead of being dropped.
    #[serde(default)]
    soft: bool,
}

impl PurgeRequest {
    /// The part and the target; `None` if there is no target or more than one.
    fn target(self) -> Option<(String, Target)> {
        let mut targets = [
            self.tag.map(Target::Tag),
            self.uri.map(Target::Uri),
            self.prefix.map(Target::Prefix),
            self.principal.map(Target::Principal),
            self.all.then_some(Target::All),
        ]
        .into_iter()
        .flatten();
        let target = targets.next()?;
        targets.next().is_none().then_some((self.part, target))
    }
}

pub(crate) async fn purge(State(state): State<AppState>, request: Request) -> Response {
    match authorized_purge(&state, request).await {
        Ok(()) => Json(json!({ "purged": true })).into_response(),
        Err((status, error)) => query::error(status, &error),
    }
}

async fn authorized_purge(state: &AppState, request: Request) -> Result<(), (StatusCode, String)> {
    let refuse = |status, reason: &str| Err((status, reason.to_owned()));
    let headers = request.headers();
    if !guard::same_origin(headers) {
        return refuse(StatusCode::FORBIDDEN, "the request is from another origin");
    }
    let Some(token) = &state.token else {
        return refuse(StatusCode::FORBIDDEN, "purging is disabled: there is no admin token");
    };
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if !sent.is_some_and(|sent| token.matches(sent)) {
        return refuse(StatusCode::UNAUTHORIZED, "the admin token is missing or wrong");
    }
    if !has_json_type(headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json");
    }
    let (part, target, is_soft) = read(request.into_body()).await?;
    let purger = match state.registry.purger(&part) {
        None => return Err((StatusCode::NOT_FOUND, format!("there is no part {part:?}"))),
        Some(None) => return Err((StatusCode::CONFLICT, format!("the part {part:?} cannot be purged"))),
        Some(Some(purger)) => purger,
    };
    let what = target.to_string();
    let softly = if is_soft { " softly" } else { "" };
    let purge = || if is_soft { purger.soft_purge(target) } else { purger.purge(target) };
    let purged = match caught_async(purge).await {
        Some(purged) => purged.map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, error)),
        None => {
            let error = format!("the purger of the part {part:?} panicked; what it has purged is unknown");
            Err((StatusCode::INTERNAL_SERVER_ERROR, error))
        }
    };
    state.history.add_event(
        &part,
        match &purged {
            Ok(()) => format!("purged {what}{softly}"),
            Err((_, error)) => format!("could not purge {what}{softly}: {error}"),
        },
    );
    purged
}

/// The part, the target, and whether the purge is soft.
async fn read(body: Body) -> Result<(String, Target, bool), (StatusCode, String)> {
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body must be complete and at most 64 KiB long".to_owned(),
        ));
    };
    let request: PurgeRequest = serde_json::from_slice(&body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("the body is not a purge request: {error}")))?;
    let expected = "expected a part and one of tag, uri, prefix, principal, or all: true";
    let is_soft = request.soft;
    let (part, target) = request.target().ok_or((StatusCode::BAD_REQUEST, expected.to_owned()))?;
    Ok((part, target, is_soft))
}
