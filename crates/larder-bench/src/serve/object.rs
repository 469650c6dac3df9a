//! One large object that a handler sends in pieces, with a response cache in front of it.

use super::{listen, runtime};
use anyhow::Result;
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http_body::Frame;
use larder_http::{Cached, HttpCache};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(3_600);
const PIECE: usize = 64 << 10;
const BACKLOG: u32 = 128;

/// Serves the object of so many bytes at `/`; with `stored`, `larder-http` stores it while it is sent.
pub(super) fn serve(bytes: usize, stored: bool) -> Result<()> {
    runtime()?.block_on(async {
        let router = Router::new().route("/", get(async move || respond(bytes, stored)));
        let room = (2 * bytes).max(1 << 20);
        let router = match stored {
            true => {
                let cache = HttpCache::builder().max_bytes(room as u64).max_body_bytes(bytes);
                cache.max_fill_bytes(room as u64).build()?.in_front_of(router)
            }
            false => router,
        };
        Ok(axum::serve(listen(BACKLOG)?, router).await?)
    })
}

fn respond(bytes: usize, stored: bool) -> Response {
    let fields = [(CONTENT_TYPE, "application/octet-stream".to_owned()), (CONTENT_LENGTH, bytes.to_string())];
    let response = (fields, Body::new(Pieces { left: bytes, is_ready: false }));
    if stored { (Cached::ttl(TTL), response).into_response() } else { response.into_response() }
}

/// A body whose pieces are never ready at once, as those that a handler reads from elsewhere.
struct Pieces {
    left: usize,
    is_ready: bool,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.is_ready = !self.is_ready;
        if self.is_ready {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let length = PIECE.min(self.left);
        self.left -= length;
        // Not zeros, for which the system would need no memory.
        Poll::Ready((length > 0).then(|| Ok(Frame::data(Bytes::from(vec![1; length])))))
    }
}
