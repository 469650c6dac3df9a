//! Lends the body of a request to each attempt to send it.
//!
//! A body can be read once. An attempt that ends before it has read anything, because the origin cannot be reached, leaves the
//! body for the next one. The lender also knows who is waited for: a client that does not send, or an origin that does not take.

use crate::origin::request_body::RequestBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

/// How far the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Progress {
    /// Nobody has read it.
    Untouched,
    /// The next frame is awaited from the client.
    AwaitsClient,
    /// The origin has a frame to take.
    AwaitsOrigin,
    /// All of it was read.
    Ended,
}

#[derive(Debug)]
struct Shared {
    body: Mutex<Option<RequestBody>>,
    progress: AtomicU8,
    /// The number of bytes that were read.
    bytes: AtomicU64,
}

/// Owns a body until an attempt reads it.
#[derive(Clone, Debug)]
pub(super) struct Lender(Option<Arc<Shared>>);

impl Lender {
    /// Lends this body. An empty one needs no memory.
    pub(super) fn new(body: RequestBody) -> Lender {
        let shared = (!body.is_end_stream()).then(|| {
            Arc::new(Shared {
                body: Mutex::new(Some(body)),
                progress: AtomicU8::new(Progress::Untouched as u8),
                bytes: AtomicU64::new(0),
            })
        });
        Lender(shared)
    }

    /// Whether there is no body.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How far the body is; an empty one has ended.
    pub(super) fn progress(&self) -> Progress {
        match &self.0 {
            None => Progress::Ended,
            Some(shared) => match shared.progress.load(Ordering::Relaxed) {
                0 => Progress::Untouched,
                1 => Progress::AwaitsClient,
                2 => Progress::AwaitsOrigin,
                _ => Progress::Ended,
            },
        }
    }

    /// The number of bytes that were read.
    pub(super) fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.bytes.load(Ordering::Relaxed))
    }

    /// The body for one attempt. It is empty if another attempt has read from it.
    pub(super) fn lend(&self) -> LentBody {
        let hint = match &self.0 {
            None => SizeHint::with_exact(0),
            Some(shared) => shared.body.lock().as_ref().map_or(SizeHint::default(), Body::size_hint),
        };
        LentBody { shared: self.0.clone(), body: None, hint }
    }
}

/// The body of one attempt.
#[derive(Debug)]
pub(super) struct LentBody {
    shared: Option<Arc<Shared>>,
    /// Taken at the first read.
    body: Option<RequestBody>,
    /// Of the whole body.
    hint: SizeHint,
}

impl Body for LentBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let Some(shared) = &this.shared else { return Poll::Ready(None) };
        if this.body.is_none() {
            this.body = shared.body.lock().take();
        }
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let note = |progress: Progress| shared.progress.store(progress as u8, Ordering::Relaxed);
        note(Progress::AwaitsClient);
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            shared.bytes.fetch_add(frame.data_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
        }
        let is_last = frame.is_none() || body.is_end_stream();
        note(if is_last { Progress::Ended } else { Progress::AwaitsOrigin });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match (&self.shared, &self.body) {
            (None, _) => true,
            (Some(_), Some(body)) => body.is_end_stream(),
            (Some(_), None) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(self.hint, Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn body_that_was_not_read_is_there_for_the_next_attempt() {
        let lender = Lender::new(Bytes::from_static(b"once").into());
        drop(lender.lend());
        assert_eq!(lender.progress(), Progress::Untouched);
        let second = lender.lend();
        assert_eq!((second.size_hint().exact(), second.is_end_stream()), (Some(4), false));
        assert_eq!(second.collect().await.unwrap().to_bytes(), "once");
        assert_eq!(lender.progress(), Progress::Ended);
        assert_eq!(lender.bytes(), 4);
        assert_eq!(lender.lend().collect().await.unwrap().to_bytes(), "");
    }

    #[test]
    fn empty_body_has_ended() {
        let lender = Lender::new(Bytes::new().into());
        assert!(lender.is_empty() && lender.lend().is_end_stream());
        assert_eq!((lender.progress(), lender.lend().size_hint().exact()), (Progress::Ended, Some(0)));
    }
}
