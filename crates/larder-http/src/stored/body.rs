//! The body of the layer's responses: stored bytes, the body of the inner service, or the buffer of a running fill,
//! which clients read while the fill appends to it.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::status::{Outcome, Reason};
use crate::stored::buffer::{FillBuffer, ReadStep, Reader};
use crate::stored::chunks::ChunkReader;

/// Any error.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The error of a body whose end is missing: the client must not take it as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fill of the response body ended early: {reason}")]
pub struct IncompleteBody {
    reason: Reason,
}

impl IncompleteBody {
    /// The reason why the fill ended: its body failed or was too large, it was too slow, or it was purged.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

pin_project! {
    /// The body type of the layer's responses; `B` is the body type of the inner service.
    ///
    /// Its errors are the errors of `B`, and [`IncompleteBody`].
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
        Chunks { reader: ChunkReader },
        Inner { #[pin] body: B },
        // The client of a running fill, or one that follows it.
        Client { source: ClientSource<B>, hint: SizeHint },
        Follower { reader: Reader, hint: SizeHint },
    }
}

impl<B: http_body::Body> Body<B> {
    pub(crate) fn empty() -> Body<B> {
        Body::full(Bytes::new())
    }

    pub(crate) fn full(bytes: Bytes) -> Body<B> {
        Body { kind: Kind::Full { bytes }, outcome: None }
    }

    pub(crate) fn chunks(reader: ChunkReader) -> Body<B> {
        Body { kind: Kind::Chunks { reader }, outcome: None }
    }

    pub(crate) fn inner(body: B) -> Body<B> {
        Body { kind: Kind::Inner { body }, outcome: None }
    }

    /// The body of the client of a running fill, and what continues it if the fill stops. `hint` is the size hint of
    /// the inner body before the first read.
    pub(crate) fn client(buffer: &Arc<FillBuffer>, hint: SizeHint) -> (Body<B>, Arc<Continuation<B>>) {
        let continuation = Arc::new(Continuation(Mutex::new(None)));
        let source = ClientSource::Buffer(buffer.reader(false), continuation.clone());
        (Body { kind: Kind::Client { source, hint }, outcome: None }, continuation)
    }

    pub(crate) fn follower(buffer: &Arc<FillBuffer>) -> Body<B> {
        let hint = buffer.declared().map(SizeHint::with_exact).unwrap_or_default();
        Body { kind: Kind::Follower { reader: buffer.reader(true), hint }, outcome: None }
    }

    /// The outcome of the request, for loggers outside of the layer. Every response of the layer has it.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    pub(crate) fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl<B> http_body::Body for Body<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match self.project().kind.project() {
            KindProjection::Full { bytes } => {
                let bytes = std::mem::take(bytes);
                (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
            }
            KindProjection::Chunks { reader } => reader.next().map(|chunk| Ok(Frame::data(chunk))),
            KindProjection::Inner { body } => {
                ready!(body.poll_frame(cx)).map(|frame| frame.map_err(Into::into))
            }
            KindProjection::Client { source, hint } => {
                let frame = ready!(source.poll_frame(cx));
                shrink_hint(hint, &frame);
                frame
            }
            KindProjection::Follower { reader, hint } => {
                let frame = match ready!(reader.poll(cx)) {
                    ReadStep::Chunk(chunk) => Some(Ok(Frame::data(chunk))),
                    ReadStep::End => None,
                    ReadStep::Failed(reason) => Some(Err(IncompleteBody { reason }.into())),
                };
                shrink_hint(hint, &frame);
                frame
            }
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Full { bytes } => bytes.is_empty(),
            Kind::Chunks { reader } => reader.remaining() == 0,
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Client { .. } | Kind::Follower { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Full { bytes } => SizeHint::with_exact(bytes.len() as u64),
            Kind::Chunks { reader } => SizeHint::with_exact(reader.remaining() as u64),
            Kind::Inner { body } => body.size_hint(),
            Kind::Client { hint, .. } | Kind::Follower { hint, .. } => *hint,
        }
    }
}

impl<B: http_body::Body> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.kind {
            Kind::Full { .. } | Kind::Chunks { .. } => "Body(stored bytes)",
            Kind::Inner { .. } => "Body(inner service)",
            Kind::Client { .. } | Kind::Follower { .. } => "Body(running fill)",
        })
    }
}

/// Subtracts the bytes just read from the size hint, from which a server derives `Content-Length`.
fn shrink_hint<E>(hint: &mut SizeHint, frame: &Option<Result<Frame<Bytes>, E>>) {
    let Some(Ok(frame)) = frame else { return };
    let read = frame.data_ref().map_or(0, Bytes::len) as u64;
    let mut shrunk = SizeHint::new();
    if let Some(upper) = hint.upper() {
        shrunk.set_upper(upper.saturating_sub(read));
    }
    shrunk.set_lower(hint.lower().saturating_sub(read));
    *hint = shrunk;
}

type FrameResult<B> = Result<Frame<Bytes>, <B as http_body::Body>::Error>;

/// How the body of a fill's client continues after the buffer, if the fill has failed. Set before that.
pub(crate) struct Continuation<B: http_body::Body>(Mutex<Option<Rest<B>>>);

pub(crate) enum Rest<B: http_body::Body> {
    /// The handler's body has ended, and the buffer has all of it.
    Nothing,
    /// This frame, and then the rest of the handler's body.
    Inner(Option<FrameResult<B>>, Pin<Box<B>>),
}

impl<B: http_body::Body> Continuation<B> {
    pub(crate) fn set(&self, rest: Rest<B>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }

    fn take(&self) -> Option<Rest<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

enum ClientSource<B: http_body::Body> {
    Buffer(Reader, Arc<Continuation<B>>),
    Inner(Pin<Box<B>>),
    End,
}

impl<B> ClientSource<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let (reader, continuation) = match self {
            ClientSource::Inner(body) => return body.as_mut().poll_frame(cx).map_err(Into::into),
            ClientSource::End => return Poll::Ready(None),
            ClientSource::Buffer(reader, continuation) => (reader, continuation),
        };
        let reason = match ready!(reader.poll(cx)) {
            ReadStep::Chunk(chunk) => return Poll::Ready(Some(Ok(Frame::data(chunk)))),
            ReadStep::End => return Poll::Ready(None),
            ReadStep::Failed(reason) => reason,
        };
        let rest = continuation.take();
        *self = ClientSource::End;
        match rest {
            None => Poll::Ready(Some(Err(IncompleteBody { reason }.into()))),
            Some(Rest::Nothing) => Poll::Ready(None),
            Some(Rest::Inner(frame, body)) => {
                *self = ClientSource::Inner(body);
                match frame {
                    Some(frame) => Poll::Ready(Some(frame.map_err(Into::into))),
                    None => self.poll_frame(cx),
                }
            }
        }
    }
}
