//! The body of a response while a fill reads it: up to a limit, and as long as it may be stored.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Frame;

use crate::graphql::ResponseScan;
use crate::headers::control::split_list;
use crate::status::Reason;
use crate::stored::chunks::Chunks;
use crate::stored::memory::BodyMemory;

/// The part of a body that has been read.
pub(crate) struct CollectedBody {
    memory: Arc<BodyMemory>,
    pub(crate) chunks: Vec<Bytes>,
    size: usize,
    /// The exact length that the body announced, if it did.
    announced: Option<u64>,
    /// For the response to a GraphQL query.
    scan: Option<ResponseScan>,
}

/// What a frame means for the body.
pub(crate) enum CollectStep<E> {
    /// The chunks at these positions are new.
    Kept(Range<usize>),
    End,
    Stop(Reason, Result<Frame<Bytes>, E>),
}

impl CollectedBody {
    pub(crate) fn new(
        memory: Arc<BodyMemory>,
        announced: Option<u64>,
        scan: Option<ResponseScan>,
    ) -> CollectedBody {
        CollectedBody { memory, chunks: Vec::new(), size: 0, announced, scan }
    }

    /// The bytes of the body so far.
    pub(crate) fn len(&self) -> usize {
        self.size
    }

    /// Whether only the end of the body shows that the response may be stored.
    pub(crate) fn has_scan(&self) -> bool {
        self.scan.is_some()
    }

    pub(crate) fn push<E>(&mut self, frame: Option<Result<Frame<Bytes>, E>>, limit: usize) -> CollectStep<E> {
        let frame = match frame {
            None => return CollectStep::End,
            Some(Err(error)) => return CollectStep::Stop(Reason::BodyError, Err(error)),
            Some(Ok(frame)) => frame,
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(trailers) => return CollectStep::Stop(Reason::Trailers, Ok(trailers)),
        };
        let (len, start) = (data.len(), self.chunks.len());
        if len > limit - self.size {
            return CollectStep::Stop(Reason::BodyTooLarge, Ok(Frame::data(data)));
        }
        match self.memory.keep(data, &mut self.chunks) {
            Ok(()) => {
                self.size += len;
                let kept = start..self.chunks.len();
                if let Some(scan) = &mut self.scan {
                    self.chunks[kept.clone()].iter().for_each(|chunk| scan.read(chunk));
                }
                CollectStep::Kept(kept)
            }
            Err(data) => CollectStep::Stop(Reason::BodyMemory, Ok(Frame::data(data))),
        }
    }

    /// Fails if the length of the body differs from its `Content-Length` or from what it announced, or its content may not be
    /// stored.
    pub(crate) fn check_end(&self, headers: &HeaderMap) -> Result<(), Reason> {
        let size = self.size.to_string();
        let mut declared = headers.get_all(CONTENT_LENGTH).iter();
        let matches = self.announced.is_none_or(|length| length == self.size as u64)
            // Several lengths that are equal mean that one (RFC 9110, 8.6).
            && declared.all(|line| split_list(line.as_bytes()).all(|length| length == size.as_bytes()));
        if !matches {
            return Err(Reason::BodyLength);
        }
        self.scan.as_ref().map_or(Ok(()), ResponseScan::finish)
    }

    pub(crate) fn into_chunks(self) -> Chunks {
        Chunks::new(self.memory.join(self.chunks))
    }
}
