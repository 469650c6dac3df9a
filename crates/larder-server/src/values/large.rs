//! Large values on their way: received and copied piece by piece, sent piece by piece, and freed on a thread of their own.
//!
//! To write, to copy or to free half a gigabyte takes a tenth of a second, most of it in the system, which provides and
//! takes back the pages. No other connection of the thread must wait for that. So a turn receives, copies or sends one
//! piece, and whoever gives up a large value calls [`release`] instead of dropping it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use larder_engine::raw::{LongValue, SharedBytes};

/// A value of this length or more is large: it is not copied in one piece. That would take a third of a millisecond.
pub(crate) const LARGE_BYTES: usize = 1 << 20;
/// Bytes that a command reads, checks, copies or writes in one slice: about half a millisecond. Each page of a new value is
/// provided by the system, which takes a microsecond or more.
pub(crate) const SLICE_BYTES: usize = 256 << 10;
/// Interval at which the thread looks whether removed values that clients still receive have other owners.
const OWNERS_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes that are freed at a time: the system locks the memory of the process meanwhile.
#[cfg(target_os = "linux")]
const FREED_PIECE_BYTES: usize = 1 << 20;

/// A large value that is not complete. Dropping it does not wait until it is freed.
#[derive(Debug)]
pub(crate) struct PartialValue(Option<LongValue>);

impl PartialValue {
    pub(crate) fn new(total_bytes: usize) -> Self {
        PartialValue(Some(LongValue::new(total_bytes)))
    }

    /// One that may grow when it is complete.
    pub(crate) fn with_room(total_bytes: usize, capacity: usize) -> Self {
        PartialValue(Some(LongValue::with_room(total_bytes, capacity)))
    }

    /// The value, for the next pieces.
    pub(crate) fn get_mut(&mut self) -> &mut LongValue {
        self.0.as_mut().expect("only the last step takes it")
    }

    /// Bytes that are written, and so need memory.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, LongValue::len)
    }

    pub(crate) fn missing(&self) -> usize {
        self.0.as_ref().map_or(0, LongValue::missing)
    }

    /// The complete value.
    pub(crate) fn finish(mut self) -> Arc<[u8]> {
        self.0.take().expect("only the last step takes it").finish()
    }

    /// The same, as a value of an entry.
    pub(crate) fn into_shared(mut self) -> SharedBytes {
        self.0.take().expect("only the last step takes it").into_shared()
    }
}

impl Drop for PartialValue {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            release_on_thread(Released::Partial(value));
        }
    }
}

/// The large values that commands build in slices. They are no buffers of clients: a value may be as large as the store, which
/// has it at the end.
#[derive(Debug, Default)]
pub(crate) struct Builds(Arc<AtomicU64>);

/// Other values are being built, and all together would exceed the capacity.
#[derive(Debug)]
pub(crate) struct TooMuchBuilt;

impl Builds {
    /// Counts a value of this length, while the result exists.
    ///
    /// # Errors
    /// Nothing is counted.
    pub(crate) fn begin(&self, bytes: usize, max_bytes: u64) -> Result<Building, TooMuchBuilt> {
        let mut building = Building { total: Arc::clone(&self.0), bytes: 0, max_bytes };
        building.resize(bytes).map(|()| building)
    }
}

/// The memory of a value that is being built.
#[derive(Debug)]
pub(crate) struct Building {
    total: Arc<AtomicU64>,
    bytes: u64,
    max_bytes: u64,
}

impl Building {
    /// Changes the length of the value. A single one always fits: its length is checked where it is known.
    ///
    /// # Errors
    /// The former length counts still.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), TooMuchBuilt> {
        let bytes = bytes as u64;
        let resized = |total: u64| {
            let others = total - self.bytes;
            (others == 0 || others.saturating_add(bytes) <= self.max_bytes).then_some(others + bytes)
        };
        let update = self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, resized);
        update.map_err(|_| TooMuchBuilt)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Gives up a value, which may be large. If it was in the store, [`release_removed`] is called when it is removed.
pub(crate) fn release(value: impl Into<SharedBytes>) {
    let value = value.into();
    // Another owner is the store, or the thread, which waits until it is the last one.
    if value.len() >= LARGE_BYTES && value.owners() == 1 {
        release_on_thread(Released::Value(value));
    }
}

/// Gives up a large value that is removed from the store, and may have other owners.
#[cold]
pub(crate) fn release_removed(value: SharedBytes) {
    release_on_thread(Released::Value(value));
}

enum Released {
    Value(SharedBytes),
    Partial(LongValue),
}

/// The number of values that wait for the thread that frees them.
pub(crate) fn pending() -> usize {
    PENDING.load(Ordering::Relaxed)
}

static PENDING: AtomicUsize = AtomicUsize::new(0);

/// Passes memory to the thread that frees it. It starts with the first call, and serves the whole process.
fn release_on_thread(released: Released) {
    static THREAD: OnceLock<Option<Sender<Released>>> = OnceLock::new();
    let sender = THREAD.get_or_init(|| {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("larder-release".to_owned());
        thread.spawn(move || free_all(&receiver)).ok().map(|_| sender)
    });
    PENDING.fetch_add(1, Ordering::Relaxed);
    // Without the thread it is freed here.
    if sender.as_ref().is_none_or(|sender| sender.send(released).is_err()) {
        PENDING.fetch_sub(1, Ordering::Relaxed);
    }
}

fn free_all(receiver: &Receiver<Released>) {
    let mut waiting: Vec<Released> = Vec::new();
    loop {
        let received = match waiting.is_empty() {
            true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => receiver.recv_timeout(OWNERS_CHECK_INTERVAL),
        };
        let before = waiting.len() + usize::from(received.is_ok());
        match received {
            // Two entries may have had the same value: each share that waits would be another owner for the other.
            Ok(released) if waiting.iter().any(|other| other.is_same(&released)) => drop(released),
            Ok(released) => waiting.push(released),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waiting.retain_mut(|released| !released.discard());
        PENDING.fetch_sub(before - waiting.len(), Ordering::Relaxed);
    }
}

impl Released {
    /// Whether these are two shares of one value.
    fn is_same(&self, other: &Released) -> bool {
        matches!((self, other), (Released::Value(value), Released::Value(other)) if value.is_same(other))
    }

    /// Returns its pages to the system, unless it has another owner.
    fn discard(&mut self) -> bool {
        match self {
            Released::Partial(value) => discard(value.written_mut()),
            Released::Value(value) => match value.get_mut() {
                Some(bytes) => discard(bytes),
                // It is freed as it is if the other owner has just gone.
                None => return value.owners() == 1,
            },
        }
        true
    }
}

/// Returns the pages of these bytes to the system, piece by piece, so that nothing is left to do for the allocator. The
/// bytes become unspecified.
#[cfg(target_os = "linux")]
fn discard(bytes: &mut [u8]) {
    use rustix::mm::{Advice, madvise};

    let page = rustix::param::page_size();
    let skipped = bytes.as_ptr().align_offset(page).min(bytes.len());
    let pages = (bytes.len() - skipped) / page * page;
    for piece in bytes[skipped..][..pages].chunks_mut(FREED_PIECE_BYTES) {
        // SAFETY: the pages lie within bytes that are borrowed exclusively, and become zeros, which are valid. If the
        // system refuses, they stay as they are.
        let _ = unsafe { madvise(piece.as_mut_ptr().cast(), piece.len(), Advice::LinuxDontNeed) };
    }
}

#[cfg(not(target_os = "linux"))]
fn discard(_: &mut [u8]) {}

/// The large values of replies, which are sent from where they are stored: only what surrounds them is in the buffer of
/// replies.
#[derive(Debug, Default)]
pub(crate) struct LargeReplies {
    replies: VecDeque<LargeReply>,
    bytes: u64,
    held_bytes: u64,
}

#[derive(Debug)]
struct LargeReply {
    /// Where it comes in the buffer of replies.
    position: usize,
    value: SharedBytes,
    /// The part of the value that is left to send.
    range: Range<usize>,
    /// The length of the part.
    bytes: u64,
}

impl LargeReplies {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// The bytes of the replies, until they are sent as a whole.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes of the values. Each counts as a whole, because it may be in no store any more.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Adds a part of a value, which comes after all others.
    pub(crate) fn push(&mut self, position: usize, value: SharedBytes, range: Range<usize>) {
        let bytes = range.len() as u64;
        self.bytes += bytes;
        self.held_bytes += value.len() as u64;
        self.replies.push_back(LargeReply { position, value, range, bytes });
    }

    /// The buffer is cut off at this position.
    pub(crate) fn truncate(&mut self, position: usize) {
        while self.replies.back().is_some_and(|reply| reply.position > position) {
            let dropped = self.replies.pop_back();
            self.forget(dropped);
        }
    }

    /// So many bytes are inserted into the buffer at this position.
    pub(crate) fn shift(&mut self, position: usize, bytes: usize) {
        for reply in self.replies.iter_mut().filter(|reply| reply.position > position) {
            reply.position += bytes;
        }
    }

    /// The position of the next value.
    pub(crate) fn next_position(&self) -> Option<usize> {
        self.replies.front().map(|reply| reply.position)
    }

    /// What is left of the next value.
    pub(crate) fn next_bytes(&self) -> &[u8] {
        self.replies.front().map_or(&[], |reply| &reply.value[reply.range.clone()])
    }

    /// So many bytes of the next value are sent.
    pub(crate) fn advance(&mut self, sent: usize) {
        let Some(reply) = self.replies.front_mut() else { return };
        reply.range.start += sent;
        if reply.range.is_empty() {
            let sent = self.replies.pop_front();
            self.forget(sent);
        }
    }

    fn forget(&mut self, reply: Option<LargeReply>) {
        if let Some(LargeReply { value, bytes, .. }) = reply {
            self.bytes -= bytes;
            self.held_bytes -= value.len() as u64;
            release(value);
        }
    }
}

impl Drop for LargeReplies {
    fn drop(&mut self) {
        self.replies.drain(..).for_each(|reply| release(reply.value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Weak;
    use std::time::Instant;

    fn value(byte: u8) -> Arc<[u8]> {
        vec![byte; LARGE_BYTES].into()
    }

    #[test]
    fn large_replies_stay_where_they_belong() {
        let mut replies = LargeReplies::default();
        replies.push(10, value(1).into(), 0..5);
        replies.push(20, value(2).into(), 7..LARGE_BYTES);
        // A message at the start of the second reply.
        replies.shift(15, 100);
        assert_eq!((replies.next_position(), replies.next_bytes()), (Some(10), &[1; 5][..]));
        replies.advance(3);
        assert_eq!(replies.next_bytes().len(), 2);
        replies.advance(2);
        let bytes = LARGE_BYTES as u64;
        assert_eq!((replies.bytes(), replies.held_bytes()), (bytes - 7, bytes));
        assert_eq!(replies.next_position(), Some(120));
        replies.truncate(120);
        assert!(!replies.is_empty());
        replies.truncate(119);
        assert!(replies.is_empty() && replies.next_bytes().is_empty());
        assert_eq!((replies.bytes(), replies.held_bytes()), (0, 0));
    }

    #[test]
    fn built_values_fit_together_or_alone() {
        let builds = Builds::default();
        let mut first = builds.begin(60, 100).expect("alone");
        let second = builds.begin(40, 100).expect("together");
        assert!(builds.begin(1, 100).is_err() && first.resize(61).is_err());
        drop(second);
        first.resize(200).expect("alone");
        drop(first);
        assert_eq!(builds.0.load(Ordering::Relaxed), 0);
    }

    /// The pages are returned while a reader of the bytes around them could still exist: neighbours must stay.
    #[test]
    #[cfg(target_os = "linux")]
    fn discard_returns_whole_pages_and_keeps_what_surrounds_them() {
        let mut bytes = vec![7; 3 * LARGE_BYTES];
        let inner = 100..3 * LARGE_BYTES - 100;
        discard(&mut bytes[inner.clone()]);
        assert!(bytes[..inner.start].iter().chain(&bytes[inner.end..]).all(|byte| *byte == 7));
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        assert!(zeros > 2 * LARGE_BYTES, "{zeros} bytes were returned");
    }

    /// The thread keeps a value until it is the last owner, so that no other one frees it.
    #[test]
    fn removed_value_is_freed_by_the_thread_after_its_last_reader() {
        let value = value(1);
        let weak = Arc::downgrade(&value);
        release_removed(Arc::clone(&value).into());
        // When this one is freed, the thread has seen the other, too.
        let (later, start) = (Arc::downgrade(&send_away()), Instant::now());
        let wait_for = |weak: &Weak<[u8]>| {
            while weak.strong_count() > 0 {
                assert!(start.elapsed() < larder_testkit::PATIENCE, "it is not freed");
                std::thread::yield_now();
            }
        };
        wait_for(&later);
        assert_eq!((weak.strong_count(), value[0]), (2, 1));
        release(value);
        wait_for(&weak);
    }

    /// As when both entries of a copied value are removed, or an entry that a script has removed and its end has restored.
    #[test]
    fn value_that_is_removed_twice_is_freed() {
        let value = value(3);
        let (weak, start) = (Arc::downgrade(&value), Instant::now());
        release_removed(Arc::clone(&value).into());
        release_removed(value.into());
        while weak.strong_count() > 0 {
            assert!(start.elapsed() < larder_testkit::PATIENCE, "it is not freed");
            std::thread::yield_now();
        }
    }

    fn send_away() -> Arc<[u8]> {
        let value = value(2);
        release_removed(Arc::clone(&value).into());
        value
    }
}
