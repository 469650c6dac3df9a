//! The body of a response that passed the layer: stored bytes, the inner service's own body, or the growing
//! buffer of a fill that the client reads while it is collected.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::status::Outcome;

pin_project! {
    /// The body type of the layer's responses; `B` is the inner service's.
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

    /// What the cache did with the request; every response that leaves the layer knows it, for loggers outside.
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
            Kind::Inner { .. } => "Body(of the inner service)",
            Kind::Shared { .. } => "Body(of a running fill)",
        })
    }
}

/// What a fill has read of a body, shared by the fill, which never waits for a reader, and the client that the
/// response is for, which reads at its own pace. It is bounded: past the limit the fill hands the rest over.
struct Buffer<B: http_body::Body>(Mutex<State<B>>);

struct State<B: http_body::Body> {
    chunks: Vec<Bytes>,
    end: End<B>,
    reader: Option<Waker>,
}

enum End<B: http_body::Body> {
    /// The fill goes on.
    Open,
    /// All has been read.
    Complete,
    /// The fill gave up: after this frame the reader goes on with the body itself.
    Rest(Option<FrameResult<B>>, Pin<Box<B>>),
    /// The fill's task died.
    Dead,
}

type FrameResult<B> = Result<Frame<Bytes>, <B as http_body::Body>::Error>;

impl<B: http_body::Body> Buffer<B> {
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State<B>)) {
        let reader = {
            let mut state = self.lock();
            change(&mut state);
            state.reader.take()
        };
        if let Some(waker) = reader {
            waker.wake();
        }
    }
}

/// The fill's end of a shared buffer. Dropped before its time, it breaks the reader's response off.
pub(crate) struct Writer<B: http_body::Body>(Arc<Buffer<B>>);

impl<B: http_body::Body<Data = Bytes>> Writer<B> {
    /// A buffer that holds `chunks`, and the body that reads it; `hint` is the inner body's own, taken before it
    /// was read.
    pub(crate) fn open(chunks: Vec<Bytes>, hint: SizeHint) -> (Writer<B>, Body<B>) {
        let buffer = Arc::new(Buffer(Mutex::new(State { chunks, end: End::Open, reader: None })));
        let reader = Reader { source: Source::Buffer(buffer.clone(), 0), hint };
        (Writer(buffer), Body { kind: Kind::Shared { reader }, outcome: None })
    }

    pub(crate) fn push(&self, chunk: Bytes) {
        self.0.change(|state| state.chunks.push(chunk));
    }

    /// The body ended well.
    pub(crate) fn complete(self) {
        self.0.change(|state| state.end = End::Complete);
    }

    /// The fill stops here, with what it read last and will not keep.
    pub(crate) fn hand_over(self, last: Option<FrameResult<B>>, rest: Pin<Box<B>>) {
        self.0.change(|state| state.end = End::Rest(last, rest));
    }
}

impl<B: http_body::Body> Drop for Writer<B> {
    fn drop(&mut self) {
        self.0.change(|state| {
            if matches!(state.end, End::Open) {
                state.end = End::Dead;
            }
        });
    }
}

struct Reader<B: http_body::Body> {
    source: Source<B>,
    hint: SizeHint,
}

enum Source<B: http_body::Body> {
    /// The buffer, and the number of the chunk to read next.
    Buffer(Arc<Buffer<B>>, usize),
    Rest(Pin<Box<B>>),
}

impl<B: http_body::Body<Data = Bytes>> Reader<B> {
    /// # Panics
    /// When the fill died, by a panic of the inner body: the response must not look complete, so the panic goes on
    /// in the client's task, where it would have happened without the layer.
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
                        End::Dead => {
                            drop(state);
                            panic!("the task that read the response's body has died");
                        }
                        End::Rest(last, rest) => {
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

    /// Keeps the promise about what is still to come: a server derives `Content-Length` from it.
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
