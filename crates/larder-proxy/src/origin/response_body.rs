//! The body of an origin's response. It has a deadline for each frame, and returns its connection at its end.

use crate::origin::connect::Http1Sender;
use crate::origin::lender::{Lender, Progress};
use crate::origin::pool::Pool;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};

/// Why the body of a response is incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OriginBodyError {
    /// The connection failed, or the body is not valid.
    #[error("the body of the origin's response ended early: {0}")]
    Failed(#[from] hyper::Error),
    /// Nothing came for too long.
    #[error("the origin sent nothing of the body for {} ms", .0.as_millis())]
    Timeout(Duration),
}

/// The body of an origin's response.
#[derive(Debug)]
pub(crate) struct OriginBody {
    body: Incoming,
    timeout: Duration,
    /// The deadline of the next frame; it is set while the frame is awaited.
    deadline: Option<Pin<Box<Sleep>>>,
    is_awaiting: bool,
    lease: Option<Lease>,
}

/// What a request has of its origin until its response has ended. If it is dropped, its connection is closed.
pub(super) struct Lease {
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) pool: Arc<Pool>,
    /// `None` with HTTP/2, whose connection is shared.
    pub(super) sender: Option<Http1Sender>,
    pub(super) lender: Lender,
}

impl Lease {
    /// The response has ended.
    fn end(self) {
        // With a request that goes on, the connection cannot have another one.
        if let Some(sender) = self.sender
            && self.lender.progress() == Progress::Ended
        {
            self.pool.put(sender);
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl OriginBody {
    pub(super) fn new(body: Incoming, timeout: Duration, lease: Lease) -> OriginBody {
        let mut body = OriginBody::of_upgrade(body, timeout, lease);
        body.release_at_end();
        body
    }

    /// The body of a response that switched protocols: the tunnel has its lease until it ends.
    pub(super) fn of_upgrade(body: Incoming, timeout: Duration, lease: Lease) -> OriginBody {
        OriginBody { body, timeout, deadline: None, is_awaiting: false, lease: Some(lease) }
    }

    fn release_at_end(&mut self) {
        if self.body.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.end();
        }
    }

    /// Ready when no frame has come in time.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let deadline = Instant::now() + self.timeout;
        let sleep = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if !std::mem::replace(&mut self.is_awaiting, true) {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(context)
    }
}

impl Body for OriginBody {
    type Data = Bytes;
    type Error = OriginBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OriginBodyError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            ready!(this.poll_deadline(context));
            this.lease = None;
            return Poll::Ready(Some(Err(OriginBodyError::Timeout(this.timeout))));
        };
        this.is_awaiting = false;
        match frame {
            Some(Ok(frame)) => {
                this.release_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                this.lease = None;
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                this.release();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
