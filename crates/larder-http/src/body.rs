//! The body of the layer's responses: stored bytes, the body of the inner service, or the buffer of a running fill,
//! which the client reads while the fill appends to it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::status::Outcome;

pin_project! {
    /// The body type of the layer's responses; `B` is the body type of the inner service.
    pub struct Body<B>
    where
        B: http_body::Body,
    {
        #[pin]
        kind: Kind<B>,
        outcome: Option<Outcome>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B>
    where
        B: http_body::Body,
    {
        Full { bytes: Bytes },
        Inner { #[pin] body: B },
        Shared { reader: Reader<B> },
    }
}

impl<B: http_body::Body> Body<B> {
    pub(crate) fn empty() -> Body<B> {
        Body::full(Bytes::new())
    }

    pub(crate) fn full(bytes: Bytes) -> Body<B> {
        Body { kind: Kind::Full { bytes }, outcome: None }
    }

    pub(crate) fn inner(body: B) -> Body<B> {
        Body { kind: Kind::Inner { body }, outcome: None }
    }

    /// What the cache did with the request, for loggers outside of the layer. Every response of the layer has it.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    pub(crate) fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project().kind.project() {
            KindProjection::Full { bytes } if bytes.is_empty() => Poll::Ready(None),
            KindProjection::Full { bytes } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            KindProjection::Inner { body } => body.poll_frame(cx),
            KindProjection::Shared { reader } => reader.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Full { bytes } => bytes.is_empty(),
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Shared { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Full { bytes } => SizeHint::with_exact(bytes.len() as u64),
            Kind::Inner { body } => body.size_hint(),
            Kind::Shared { reader } => reader.hint,
        }
    }
}

impl<B: http_body::Body> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.kind {
            Kind::Full { .. } => "Body(stored bytes)",
            Kind::Inner { .. } => "Body(inner service)",
            Kind::Shared { .. } => "Body(running fill)",
        })
    }
}

/// The part of a body that a fill has read. The fill never waits for the reader, the client reads at its own speed. It
/// is bounded: above the limit the fill hands the rest of the body over to the reader.
struct Buffer<B: http_body::Body>(Mutex<State<B>>);

struct State<B: http_body::Body> {
    chunks: Vec<Bytes>,
    end: End<B>,
    reader: Option<Waker>,
}

enum End<B: http_body::Body> {
    /// The fill is running.
    Open,
    /// The buffer contains the complete body.
    Complete,
    /// The fill has stopped: the reader continues with this frame and then with the rest of the body.
    HandedOver(Option<FrameResult<B>>, Pin<Box<B>>),
    /// The fill's task has panicked or was dropped.
    Aborted,
}

type FrameResult<B> = Result<Frame<Bytes>, <B as http_body::Body>::Error>;

impl<B: http_body::Body> Buffer<B> {
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, update: impl FnOnce(&mut State<B>)) {
        let reader = {
            let mut state = self.lock();
            update(&mut state);
            state.reader.take()
        };
        if let Some(waker) = reader {
            waker.wake();
        }
    }
}

/// The fill's side of a shared buffer. If it is dropped before the end of the body, the reader's response fails.
pub(crate) struct Writer<B: http_body::Body>(Arc<Buffer<B>>);

impl<B: http_body::Body<Data = Bytes>> Writer<B> {
    /// A buffer that contains `chunks`, and the body that reads it. `hint` is the size hint of the inner body before
    /// the first read.
    pub(crate) fn open(chunks: Vec<Bytes>, hint: SizeHint) -> (Writer<B>, Body<B>) {
        let buffer = Arc::new(Buffer(Mutex::new(State { chunks, end: End::Open, reader: None })));
        let reader = Reader { source: Source::Buffer(buffer.clone(), 0), hint };
        (Writer(buffer), Body { kind: Kind::Shared { reader }, outcome: None })
    }

    pub(crate) fn push(&self, chunk: Bytes) {
        self.0.update(|state| state.chunks.push(chunk));
    }

    /// The body is complete.
    pub(crate) fn complete(self) {
        self.0.update(|state| state.end = End::Complete);
    }

    /// Stops collecting: the reader gets the frame `last` and the rest of the body.
    pub(crate) fn hand_over(self, last: Option<FrameResult<B>>, rest: Pin<Box<B>>) {
        self.0.update(|state| state.end = End::HandedOver(last, rest));
    }
}

impl<B: http_body::Body> Drop for Writer<B> {
    fn drop(&mut self) {
        self.0.update(|state| {
            if matches!(state.end, End::Open) {
                state.end = End::Aborted;
            }
        });
    }
}

struct Reader<B: http_body::Body> {
    source: Source<B>,
    hint: SizeHint,
}

enum Source<B: http_body::Body> {
    /// The buffer, and the index of the next chunk.
    Buffer(Arc<Buffer<B>>, usize),
    Rest(Pin<Box<B>>),
}

impl<B: http_body::Body<Data = Bytes>> Reader<B> {
    /// # Panics
    /// If the fill has panicked in the inner body. The response must not look complete, so the reader panics too, as it
    /// would without the layer.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<FrameResult<B>>> {
        let frame = match &mut self.source {
            Source::Rest(body) => body.as_mut().poll_frame(cx),
            Source::Buffer(buffer, next) => {
                let mut state = buffer.lock();
                if let Some(chunk) = state.chunks.get(*next) {
                    *next += 1;
                    Poll::Ready(Some(Ok(Frame::data(chunk.clone()))))
                } else {
                    match std::mem::replace(&mut state.end, End::Complete) {
                        End::Open => {
                            state.end = End::Open;
                            state.reader = Some(cx.waker().clone());
                            Poll::Pending
                        }
                        End::Complete => Poll::Ready(None),
                        End::Aborted => {
                            drop(state);
                            panic!("the task that reads the response body has ended early");
                        }
                        End::HandedOver(last, rest) => {
                            drop(state);
                            self.source = Source::Rest(rest);
                            match last {
                                Some(frame) => Poll::Ready(Some(frame)),
                                None => return self.poll_frame(cx),
                            }
                        }
                    }
                }
            }
        };
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.shrink_hint(frame.data_ref().map_or(0, Bytes::len));
        }
        frame
    }

    /// Subtracts the bytes just read from the size hint, from which a server derives `Content-Length`.
    fn shrink_hint(&mut self, read: usize) {
        let read = read as u64;
        let mut hint = SizeHint::new();
        if let Some(upper) = self.hint.upper() {
            hint.set_upper(upper.saturating_sub(read));
        }
        hint.set_lower(self.hint.lower().saturating_sub(read));
        self.hint = hint;
    }
}
