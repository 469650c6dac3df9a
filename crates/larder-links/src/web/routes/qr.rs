//! `GET /api/links/{slug}/qr.svg` and `qr.png`: the QR code of a short link.

use crate::model::qr;
use crate::service::Links;
use crate::service::api_error::ApiError;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

pub(crate) async fn show(
    State(links): State<Links>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Ok(Path((slug, file))) = path else { return Err(super::api::unknown().await) };
    let draw = match file.as_str() {
        "qr.svg" => qr::svg,
        "qr.png" => qr::png,
        _ => return Err(super::api::unknown().await),
    };
    if links.store().find(&slug).await?.is_none() {
        return Err(ApiError::no_link(&slug));
    }
    let address = format!("{}{slug}", links.hosts().base(&headers));
    // A host and a slug are far below the 2,331 bytes that a code of this level can contain.
    let image = draw(&address).map_err(|_| ApiError::internal())?;
    // The prefix, because a slug alone may be an option of a command or a device of Windows: `--help`, `con`.
    let name = format!("inline; filename=\"qr-{slug}.{}\"", &file[3..]);
    Ok(([(CONTENT_TYPE, image.content_type.to_owned()), (CONTENT_DISPOSITION, name)], image.bytes)
        .into_response())
}
