//! `GET /api/export?format=csv`: all links as a stream.

use crate::service::Links;
use crate::service::api_error::ApiError;
use crate::service::export::{Export, Format};
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http_body_util::channel::Channel;

/// Pieces that wait for a slow client.
const QUEUED_PIECES: usize = 1;

/// `format` is `csv`, the default, or `json`. A failure of the database ends the stream with an error, so that no client
/// takes a part for the whole.
pub(crate) async fn show(
    State(links): State<Links>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let mut format = Format::Csv;
    for (name, value) in url::form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes()) {
        match &*name {
            "format" => {
                format =
                    value.parse().map_err(|_| ApiError::invalid("format", "must be csv or json", &value))?;
            }
            other => return Err(ApiError::invalid(other, "is unknown; expected format", &value)),
        }
    }
    let mut export = Export::new(links.store().clone(), format);
    // The first piece is read before the status is sent.
    let mut piece = export.next().await?;
    let (mut sender, body) = Channel::<Bytes, axum::Error>::new(QUEUED_PIECES);
    tokio::spawn(async move {
        while let Some(bytes) = piece {
            if sender.send_data(bytes.into()).await.is_err() {
                return;
            }
            piece = match export.next().await {
                Ok(piece) => piece,
                Err(error) => return sender.abort(axum::Error::new(error)),
            };
        }
    });
    let content_type = match format {
        Format::Csv => "text/csv; charset=utf-8",
        Format::Json => "application/json",
    };
    let disposition = format!("attachment; filename=\"links.{}\"", format.as_str());
    let headers = [(CONTENT_TYPE, content_type.to_owned()), (CONTENT_DISPOSITION, disposition)];
    Ok((headers, Body::new(body)).into_response())
}
