//! The read of a request body, within limits: its bytes, its time, and the memory of all bodies that are being read.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pin_project_lite::pin_project;
use tokio::task::coop::{consume_budget, unconstrained};
use tokio::time::{Sleep, sleep};

use crate::status::Reason;

/// How far a body is read.
#[derive(Clone, Debug)]
pub(crate) struct ReadLimits {
    pub(crate) max_bytes: usize,
    /// For the whole body.
    pub(crate) timeout: Duration,
    pub(crate) memory: ReadMemory,
}

/// The bytes of bodies that are being read for one rule.
#[derive(Clone, Debug)]
pub(crate) struct ReadMemory {
    charged: Arc<AtomicUsize>,
    limit: usize,
}

impl ReadMemory {
    pub(crate) fn new(limit: usize) -> ReadMemory {
        ReadMemory { charged: Arc::default(), limit }
    }
}

/// The part of them that one body has, until it is dropped.
struct Charge {
    memory: ReadMemory,
    bytes: usize,
}

impl Charge {
    fn add(&mut self, bytes: usize) -> Result<(), Reason> {
        self.bytes += bytes;
        let before = self.memory.charged.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.memory.limit { Err(Reason::RequestBodyMemory) } else { Ok(()) }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.charged.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

pin_project! {
    /// A body that is being read. No future of its own: the limits belong to the rule, and most bodies need only one poll.
    pub struct BodyReader<B> {
        #[pin]
        body: B,
        // The first frame, until there is a second one.
        first: Bytes,
        collected: BytesMut,
        charge: Option<Charge>,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<B: http_body::Body> BodyReader<B> {
    pub(crate) fn new(body: B) -> BodyReader<B> {
        BodyReader { body, first: Bytes::new(), collected: BytesMut::new(), charge: None, timer: None }
    }

    /// Reads the body to its end.
    ///
    /// # Errors
    /// The limit that it exceeds, or `RequestBodyError`.
    pub(crate) fn poll(
        mut self: Pin<&mut Self>,
        limits: &ReadLimits,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Reason>> {
        if let Poll::Ready(result) = self.as_mut().poll_body(limits, cx) {
            return Poll::Ready(result);
        }
        // Most bodies are here already: only a body that is not needs a timer.
        let timer = self.project().timer.get_or_insert_with(|| Box::pin(sleep(limits.timeout)));
        // A body that is always ready uses up the budget of the task, which is to end it too.
        ready!(pin!(unconstrained(timer)).poll(cx));
        Poll::Ready(Err(Reason::RequestBodyTimeout))
    }

    /// Without copying if the body is in one frame; such a body is here already, and does not count as being read. The
    /// buffer of several frames grows with the bytes received, never with the length declared. It yields now and then:
    /// otherwise the timeout would not be noticed while empty frames are always ready.
    fn poll_body(
        self: Pin<&mut Self>,
        limits: &ReadLimits,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Reason>> {
        let mut this = self.project();
        while let Some(frame) = ready!(this.body.as_mut().poll_frame(cx)) {
            let frame = frame.map_err(|_| Reason::RequestBodyError)?;
            if let Ok(mut data) = frame.into_data() {
                let (len, received) = (data.remaining(), this.first.len() + this.collected.len());
                if len > limits.max_bytes - received {
                    return Poll::Ready(Err(Reason::RequestBodyTooLarge));
                }
                if received == 0 && this.body.is_end_stream() {
                    return Poll::Ready(Ok(data.copy_to_bytes(len)));
                }
                let uncharged = || Charge { memory: limits.memory.clone(), bytes: 0 };
                this.charge.get_or_insert_with(uncharged).add(len)?;
                if received == 0 {
                    *this.first = data.copy_to_bytes(len);
                } else {
                    this.collected.put(std::mem::take(this.first));
                    this.collected.put(data.take(len));
                }
            }
            ready!(pin!(consume_budget()).poll(cx));
        }
        *this.charge = None;
        let (first, collected) = (std::mem::take(this.first), std::mem::take(this.collected));
        Poll::Ready(Ok(if collected.is_empty() { first } else { collected.freeze() }))
    }
}
