//! `GET /api/events`: the events as a stream of server-sent events (WHATWG, "HTML Standard", section 9.2).
//!
//! | event | data |
//! |---|---|
//! | `visits` | `{"links": [{"slug", "visits"}, …]}`: totals in the database |
//! | `changed` | `{}`: links were created, changed, deleted or restored |
//! | `lagged` | `{}`: events were left out; load the list again |

use crate::service::Links;
use crate::service::api_error::ApiError;
use crate::service::events::Event;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http_body_util::BodyExt;
use http_body_util::channel::Channel;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// A comment after this time without an event shows proxies that the stream is open.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(crate) async fn show(State(links): State<Links>) -> Result<Response, ApiError> {
    let busy = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many event streams");
    let permit = links.stream_permit().ok_or_else(busy)?;
    let mut events = links.events().subscribe().ok_or_else(busy)?;
    let (mut sender, body) = Channel::<Bytes, axum::Error>::new(1);
    let mut task = JoinSet::new();
    task.spawn(async move {
        // The first bytes tell the client that it is connected.
        let mut text = ": connected\n\n".to_owned();
        while sender.send_data(text.into()).await.is_ok() {
            text = match timeout(HEARTBEAT, events.recv()).await {
                Ok(Ok(event)) => to_text(&event),
                Ok(Err(RecvError::Lagged(_))) => "event: lagged\ndata: {}\n\n".to_owned(),
                Ok(Err(RecvError::Closed)) => return,
                Err(_) => ": heartbeat\n\n".to_owned(),
            };
        }
    });
    let headers = [
        (CONTENT_TYPE, EVENT_STREAM),
        (CACHE_CONTROL, "no-store"),
        // nginx would collect the events.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    // The end of the page drops the body, and with it the task and the permit, without waiting for an event.
    let open = (permit, task);
    let body = body.map_frame(move |frame| {
        let _open = &open;
        frame
    });
    Ok((headers, Body::new(body)).into_response())
}

fn to_text(event: &Event) -> String {
    match event {
        Event::Visits(links) => {
            // JSON has no line ends outside of strings, and inside they are escaped.
            format!("event: visits\ndata: {}\n\n", serde_json::json!({ "links": links }))
        }
        Event::Changed => "event: changed\ndata: {}\n\n".to_owned(),
    }
}
