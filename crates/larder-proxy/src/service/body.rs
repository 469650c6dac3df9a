//! The body of a response of the proxy.

use crate::origin::response_body::OriginBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use larder_http::BoxError;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// The body of a response: of the cache, of an origin, or a text of the proxy itself.
    #[derive(Debug)]
    #[project = KindProjection]
    pub(crate) enum ProxyBody {
        /// Of the cache.
        Cached { #[pin] body: larder_http::Body<OriginBody> },
        /// Of an origin, past the cache.
        Direct { #[pin] body: OriginBody },
        /// Of the proxy.
        Text { text: Bytes },
    }
}

impl ProxyBody {
    pub(crate) fn cached(body: larder_http::Body<OriginBody>) -> ProxyBody {
        ProxyBody::Cached { body }
    }

    pub(crate) fn text(text: impl Into<Bytes>) -> ProxyBody {
        ProxyBody::Text { text: text.into() }
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project() {
            KindProjection::Cached { body } => body.poll_frame(context),
            KindProjection::Direct { body } => body.poll_frame(context).map_err(BoxError::from),
            KindProjection::Text { text } if text.is_empty() => Poll::Ready(None),
            KindProjection::Text { text } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ProxyBody::Cached { body } => body.is_end_stream(),
            ProxyBody::Direct { body } => body.is_end_stream(),
            ProxyBody::Text { text } => text.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ProxyBody::Cached { body } => body.size_hint(),
            ProxyBody::Direct { body } => body.size_hint(),
            ProxyBody::Text { text } => SizeHint::with_exact(text.len() as u64),
        }
    }
}
