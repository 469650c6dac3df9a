//! `/api/session`: exchanges a token for a session cookie, which scripts of the page cannot read.

use crate::model::token::{Scope, hash_of_token};
use crate::service::Links;
use crate::service::access::Kind;
use crate::service::api_error::ApiError;
use crate::web::guard::{is_local, peer_of};
use crate::web::input::{self, MAX_BODY_BYTES};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, SET_COOKIE};
use http::{Request, StatusCode};
use serde::Serialize;

/// What the page needs to know to show the right controls.
#[derive(Serialize)]
struct SessionJson {
    /// Whether this client needs a token.
    required: bool,
    /// What its session allows, if it has one.
    scope: Option<Scope>,
}

/// `GET /api/session`: 200 with `{"required", "scope"}`.
pub(crate) async fn show(State(links): State<Links>, request: Request<Body>) -> Result<Response, ApiError> {
    let (peer, headers) = (peer_of(request.extensions()), request.headers().clone());
    drop(request);
    let access = links.access();
    let required = !is_local(&links, peer, &headers);
    let grant = if required { access.session(&headers, access.client(peer, &headers)).await? } else { None };
    Ok(respond(SessionJson { required, scope: grant.map(|grant| grant.scope) }, None))
}

/// `POST /api/session` with `{"token"}`: 200 and the cookie; 401 for a wrong token, 429 after too many of them.
pub(crate) async fn open(State(links): State<Links>, request: Request<Body>) -> Result<Response, ApiError> {
    let access = links.access();
    let client = access.client(peer_of(request.extensions()), request.headers());
    let input = input::read_json(request, MAX_BODY_BYTES).await?;
    let token = input::token(&input)?;
    let grant = access.grant(hash_of_token(token), client).await?;
    let cookie = match grant {
        Some(grant) => {
            access.take(client, Kind::Change)?;
            access.open_session(grant).await?
        }
        None => None,
    };
    match (grant, cookie) {
        (Some(grant), Some(cookie)) => {
            let session = SessionJson { required: true, scope: Some(grant.scope) };
            Ok(respond(session, Some(cookie)))
        }
        _ => Err(ApiError::unauthorized("the token is not valid", true)),
    }
}

/// `DELETE /api/session`: 204; the session ends.
pub(crate) async fn end(State(links): State<Links>, request: Request<Body>) -> Result<Response, ApiError> {
    let (parts, _) = request.into_parts();
    let access = links.access();
    let client = access.client(peer_of(&parts.extensions), &parts.headers);
    let cookie = access.end_session(&parts.headers, client).await?;
    let headers = [(SET_COOKIE, cookie), (CACHE_CONTROL, "no-store".into())];
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}

fn respond(session: SessionJson, cookie: Option<String>) -> Response {
    let no_store = [(CACHE_CONTROL, "no-store")];
    match cookie {
        Some(cookie) => (no_store, [(SET_COOKIE, cookie)], Json(session)).into_response(),
        None => (no_store, Json(session)).into_response(),
    }
}
