//! The body of a request, as the cache and the origins read it.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a request: read from the client as it is needed, or bytes that the cache has read already.
#[derive(Debug)]
pub(crate) struct RequestBody(Kind);

#[derive(Debug)]
enum Kind {
    Bytes(Bytes),
    Client(Incoming),
}

impl RequestBody {
    /// The body that a client sends.
    pub(crate) fn of_client(body: Incoming) -> RequestBody {
        match body.is_end_stream() {
            true => RequestBody(Kind::Bytes(Bytes::new())),
            false => RequestBody(Kind::Client(body)),
        }
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> RequestBody {
        RequestBody(Kind::Bytes(bytes))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Kind::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Client(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Bytes(bytes) => bytes.is_empty(),
            Kind::Client(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Client(body) => body.size_hint(),
        }
    }
}
