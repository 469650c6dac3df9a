//! The body of a running fill: chunks that are appended by the fill and read by many clients, each at its own speed.
//!
//! The client of the fill reads every chunk at once, and continues with the handler's body if the fill stops. Followers
//! read the same chunks, but their body ends only once the response is known to be complete and not purged: if its
//! length was declared, they get the chunk that reaches it only then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::{Duration, Instant};

use crate::status::Reason;

/// A body that is being filled.
#[derive(Debug)]
pub(crate) struct FillBuffer {
    state: Mutex<State>,
    /// The length that the head declares.
    declared: Option<u64>,
}

#[derive(Debug)]
struct State {
    chunks: Vec<Bytes>,
    /// When the last chunk came.
    grown_at: Instant,
    end: End,
    /// One place for each reader, with its waker while it waits.
    wakers: Vec<Option<Waker>>,
    free_places: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Open,
    /// The client of the fill has all of the body. Whether followers may have it too is not known yet.
    Whole,
    Complete,
    /// Followers must not take the body as complete.
    Failed(Reason),
}

impl FillBuffer {
    pub(crate) fn new(chunks: Vec<Bytes>, declared: Option<u64>) -> Arc<FillBuffer> {
        let state = State {
            chunks,
            grown_at: Instant::now(),
            end: End::Open,
            wakers: Vec::new(),
            free_places: Vec::new(),
        };
        Arc::new(FillBuffer { state: Mutex::new(state), declared })
    }

    pub(crate) fn declared(&self) -> Option<u64> {
        self.declared
    }

    pub(crate) fn append(&self, chunks: &[Bytes]) {
        self.update(|state| {
            state.chunks.extend_from_slice(chunks);
            state.grown_at = Instant::now();
        });
    }

    /// Whether nothing has come for so long.
    pub(crate) fn is_stalled(&self, limit: Duration) -> bool {
        self.lock().grown_at.elapsed() >= limit
    }

    pub(crate) fn end_for_client(&self) {
        self.end(End::Whole);
    }

    pub(crate) fn complete(&self) {
        self.end(End::Complete);
    }

    /// Ends the bodies of the followers with an error. Without effect after the end.
    pub(crate) fn fail(&self, reason: Reason) {
        self.end(End::Failed(reason));
    }

    /// A reader from the first chunk on.
    pub(crate) fn reader(self: &Arc<FillBuffer>, is_follower: bool) -> Reader {
        Reader { buffer: self.clone(), next: 0, read: 0, place: None, is_follower }
    }

    fn end(&self, end: End) {
        self.update(|state| {
            if let End::Open | End::Whole = state.end {
                state.end = end;
            }
        });
    }

    fn update(&self, update: impl FnOnce(&mut State)) {
        let wakers: Vec<_> = {
            let mut state = self.lock();
            update(&mut state);
            state.wakers.iter_mut().filter_map(Option::take).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's position in a [`FillBuffer`].
#[derive(Debug)]
pub(crate) struct Reader {
    buffer: Arc<FillBuffer>,
    /// The index of the next chunk.
    next: usize,
    /// Bytes that were read.
    read: u64,
    place: Option<usize>,
    is_follower: bool,
}

pub(crate) enum ReadStep {
    Chunk(Bytes),
    End,
    Failed(Reason),
}

impl Reader {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ReadStep> {
        let mut state = self.buffer.lock();
        if let Some(chunk) = state.chunks.get(self.next) {
            let read = self.read + chunk.len() as u64;
            let reaches_end = self.buffer.declared.is_some_and(|declared| read >= declared);
            if !self.is_follower || !reaches_end || matches!(state.end, End::Complete) {
                (self.next, self.read) = (self.next + 1, read);
                return Poll::Ready(ReadStep::Chunk(chunk.clone()));
            }
        }
        match state.end {
            End::Complete => return Poll::Ready(ReadStep::End),
            End::Failed(reason) => return Poll::Ready(ReadStep::Failed(reason)),
            End::Whole if !self.is_follower => return Poll::Ready(ReadStep::End),
            End::Open | End::Whole => {}
        }
        let place = *self.place.get_or_insert_with(|| {
            state.free_places.pop().unwrap_or_else(|| {
                state.wakers.push(None);
                state.wakers.len() - 1
            })
        });
        let former = state.wakers[place].replace(cx.waker().clone());
        // Dropped after the unlock: a waker is foreign code.
        drop(state);
        drop(former);
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let mut state = self.buffer.lock();
            state.free_places.push(place);
            let waker = state.wakers[place].take();
            drop(state);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut Reader) -> String {
        match reader.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => "pending".to_owned(),
            Poll::Ready(ReadStep::Chunk(chunk)) => String::from_utf8(chunk.to_vec()).unwrap(),
            Poll::Ready(ReadStep::End) => "end".to_owned(),
            Poll::Ready(ReadStep::Failed(reason)) => format!("failed: {reason}"),
        }
    }

    #[test]
    fn readers_at_different_positions_get_every_chunk() {
        let buffer = FillBuffer::new(vec![Bytes::from("a")], None);
        let (mut early, mut late) = (buffer.reader(true), buffer.reader(true));
        assert_eq!((read(&mut early), read(&mut early)), ("a".into(), "pending".into()));
        buffer.append(&[Bytes::from("b")]);
        assert_eq!(
            (read(&mut early), read(&mut late), read(&mut late)),
            ("b".into(), "a".into(), "b".into())
        );
        buffer.complete();
        buffer.fail(Reason::Purged);
        assert_eq!((read(&mut early), read(&mut late)), ("end".into(), "end".into()));
    }

    #[test]
    fn follower_gets_last_declared_chunk_only_with_the_end() {
        let buffer = FillBuffer::new(vec![Bytes::from("a")], Some(2));
        let (mut client, mut follower) = (buffer.reader(false), buffer.reader(true));
        assert_eq!((read(&mut client), read(&mut follower)), ("a".into(), "a".into()));
        buffer.append(&[Bytes::from("b")]);
        assert_eq!((read(&mut client), read(&mut follower)), ("b".into(), "pending".into()));
        let mut failed = FillBuffer::new(vec![Bytes::from("ab")], Some(2)).reader(true);
        failed.buffer.fail(Reason::Purged);
        assert_eq!(read(&mut failed), "failed: purged");
        buffer.complete();
        assert_eq!((read(&mut follower), read(&mut follower)), ("b".into(), "end".into()));
    }

    #[test]
    fn follower_never_reaches_a_declared_length_that_is_exceeded() {
        let buffer = FillBuffer::new(["1", "2", "3"].map(Bytes::from).into(), Some(2));
        let mut follower = buffer.reader(true);
        assert_eq!((read(&mut follower), read(&mut follower)), ("1".into(), "pending".into()));
        buffer.fail(Reason::BodyLength);
        assert_eq!(read(&mut follower), "failed: body-length");
    }

    #[test]
    fn places_of_dropped_readers_are_used_again() {
        let buffer = FillBuffer::new(Vec::new(), None);
        for _ in 0..100 {
            let mut readers = [buffer.reader(true), buffer.reader(true)];
            readers.iter_mut().for_each(|reader| assert_eq!(read(reader), "pending"));
        }
        assert_eq!(buffer.lock().wakers.len(), 2);
    }
}
