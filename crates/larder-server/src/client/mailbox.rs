//! The mailbox of a connection: messages for its client from other connections, on any thread.
//!
//! ```text
//! sender, any thread                         thread of the connection
//! lock: append the encoded message           execute a command
//! has_mail = true                            has_mail? lock: take all messages, put them before its reply
//! first since the last take: wake the thread
//! ```
//!
//! A sender that changes keys puts its messages into the mailboxes while it holds the locks of these keys. So whoever
//! reads the new value finds the message in its own mailbox, and its client gets the message before the value.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use larder_resp::{Encoder, Protocol};
use parking_lot::Mutex;

use super::invalidations::Invalidations;

/// Messages that wait for the thread of their connection.
#[derive(Debug)]
pub(crate) struct Mailbox {
    has_mail: AtomicBool,
    /// Bytes of messages that the memory of all clients includes. Each change of it is reported once.
    counted_bytes: AtomicU64,
    /// Bytes of messages that were taken, and are perhaps not written to the socket. Only the thread of the connection
    /// changes it.
    taken_bytes: AtomicU64,
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    /// Messages in the protocol version of the client.
    bytes: Vec<u8>,
    /// Changed keys, whose messages come after these.
    invalidations: Invalidations,
    /// Whether those messages are for a channel.
    is_for_channel: bool,
    protocol: Protocol,
    /// Whether the thread was woken since the last take.
    is_announced: bool,
    /// Whether it was closed: messages are dropped.
    is_closed: bool,
    /// Since when it has been above the soft limit.
    above_soft_limit_since: Option<Instant>,
}

impl Content {
    /// The bytes of all messages.
    fn len(&self) -> usize {
        self.bytes.len() + self.invalidations.bytes()
    }

    /// Writes the messages about changed keys.
    fn write_invalidations(&mut self) {
        self.invalidations.write(&mut Encoder::new(&mut self.bytes, self.protocol), self.is_for_channel);
    }
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// It was appended. `is_first`: the thread of the connection has to be woken. `bytes` are counted now, `before` were.
    Appended { bytes: u64, before: u64, is_first: bool },
    /// The limit is exceeded: the mailbox is closed now, and the connection must be.
    Overflow,
    /// The connection is closed.
    Closed,
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        Mailbox {
            has_mail: AtomicBool::new(false),
            counted_bytes: AtomicU64::new(0),
            taken_bytes: AtomicU64::new(0),
            content: Mutex::default(),
        }
    }

    /// Appends a message of about `message_bytes`, unless the messages that are not written exceed their limit. Replies
    /// that the client does not read do not count. Messages from one thread stay in order.
    pub(crate) fn post(
        &self,
        message_bytes: usize,
        limits: &OutputLimits,
        encode: impl FnOnce(&mut Encoder<'_>),
    ) -> Posted {
        self.append(message_bytes, limits, |content| {
            content.write_invalidations();
            encode(&mut Encoder::new(&mut content.bytes, content.protocol));
        })
    }

    /// Appends a message that a key with a prefix has changed. If the last message is such a one, and is not taken, the key
    /// becomes a part of it.
    pub(crate) fn post_invalidation(
        &self,
        prefix: &[u8],
        name: &[u8],
        is_for_channel: bool,
        limits: &OutputLimits,
    ) -> Posted {
        self.append(Invalidations::bytes_of(prefix, name), limits, |content| {
            if content.is_for_channel != is_for_channel {
                content.write_invalidations();
                content.is_for_channel = is_for_channel;
            }
            content.invalidations.add(prefix, name);
        })
    }

    fn append(
        &self,
        message_bytes: usize,
        limits: &OutputLimits,
        append: impl FnOnce(&mut Content),
    ) -> Posted {
        let mut content = self.content.lock();
        if content.is_closed {
            return Posted::Closed;
        }
        let taken_bytes = self.taken_bytes.load(Ordering::Relaxed);
        let total = (content.len() + message_bytes) as u64 + taken_bytes;
        if limits.are_exceeded(total, &mut content.above_soft_limit_since) {
            *content = Content { is_closed: true, ..Content::default() };
            return Posted::Overflow;
        }
        append(&mut content);
        // The other half of this is in `has_mail`: see `Client::post`.
        self.has_mail.store(true, Ordering::SeqCst);
        let is_first = !std::mem::replace(&mut content.is_announced, true);
        let bytes = content.len() as u64;
        Posted::Appended { bytes, before: self.counted_bytes.swap(bytes, Ordering::Relaxed), is_first }
    }

    /// Closes the mailbox if its messages exceed their limit without a further one: time has passed, or the limit is lower
    /// now. Returns whether it did.
    pub(crate) fn close_if_full(&self, limits: &OutputLimits) -> bool {
        let mut content = self.content.lock();
        let total = content.len() as u64 + self.taken_bytes.load(Ordering::Relaxed);
        let is_full = !content.is_closed && limits.are_exceeded(total, &mut content.above_soft_limit_since);
        if is_full {
            *content = Content { is_closed: true, ..Content::default() };
        }
        is_full
    }

    /// Whether there are messages. After the lock of a key was acquired, this includes those of earlier changes of it.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::SeqCst)
    }

    /// Moves all messages into `out` at the offset `at`; returns the bytes that were counted.
    pub(crate) fn take(&self, out: &mut Vec<u8>, at: usize) -> u64 {
        let (bytes, counted) = {
            let mut content = self.content.lock();
            self.has_mail.store(false, Ordering::SeqCst);
            content.is_announced = false;
            content.write_invalidations();
            self.taken_bytes.fetch_add(content.bytes.len() as u64, Ordering::Relaxed);
            (std::mem::take(&mut content.bytes), self.stop_counting())
        };
        if out.is_empty() {
            *out = bytes;
        } else {
            out.splice(at..at, bytes);
        }
        counted
    }

    /// So many bytes of the connection, messages and replies, are not written yet: of what was taken, not more.
    #[inline]
    pub(crate) fn record_unsent(&self, unsent_bytes: u64, limits: &OutputLimits) {
        if self.taken_bytes.load(Ordering::Relaxed) > unsent_bytes {
            self.record_written(unsent_bytes, limits);
        }
    }

    /// Of what was taken, so many bytes are left.
    fn record_written(&self, left_bytes: u64, limits: &OutputLimits) {
        let mut content = self.content.lock();
        self.taken_bytes.store(left_bytes, Ordering::Relaxed);
        let (_, soft_bytes, _) = limits.get();
        if content.len() as u64 + left_bytes <= soft_bytes {
            // The next message may come after the time of the soft limit.
            content.above_soft_limit_since = None;
        }
    }

    /// Bytes of messages that the client has not got.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.content.lock().len() as u64 + self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of messages that are counted.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.counted_bytes.load(Ordering::Relaxed)
    }

    /// Counts the present messages no more; returns the bytes that were counted.
    pub(crate) fn stop_counting(&self) -> u64 {
        self.counted_bytes.swap(0, Ordering::Relaxed)
    }

    /// Changes the protocol version of later messages.
    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        let mut content = self.content.lock();
        content.write_invalidations();
        content.protocol = protocol;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.content.lock().is_closed
    }

    /// Drops the messages, and later ones.
    pub(crate) fn close(&self) {
        *self.content.lock() = Content { is_closed: true, ..Content::default() };
    }
}

/// The limits of the messages for a connection that are not written yet: `client-output-buffer-limit pubsub`.
#[derive(Debug)]
pub(crate) struct OutputLimits {
    hard_bytes: AtomicU64,
    soft_bytes: AtomicU64,
    soft_secs: AtomicU64,
    /// Whether the mailboxes have to be checked: one may exceed them without a further message.
    check_is_due: AtomicBool,
}

impl Default for OutputLimits {
    /// The defaults of Redis: 32 MiB, or 8 MiB for a minute.
    fn default() -> Self {
        OutputLimits {
            hard_bytes: AtomicU64::new(32 << 20),
            soft_bytes: AtomicU64::new(8 << 20),
            soft_secs: AtomicU64::new(60),
            check_is_due: AtomicBool::new(false),
        }
    }
}

impl OutputLimits {
    /// Sets the limits; zero is none.
    pub(crate) fn set(&self, hard_bytes: u64, soft_bytes: u64, soft_secs: u64) {
        self.hard_bytes.store(hard_bytes, Ordering::Relaxed);
        self.soft_bytes.store(soft_bytes, Ordering::Relaxed);
        self.soft_secs.store(soft_secs, Ordering::Relaxed);
        self.check_is_due.store(true, Ordering::Release);
    }

    /// The hard limit and the soft limit in bytes, and the seconds that the soft limit may be exceeded.
    pub(crate) fn get(&self) -> (u64, u64, u64) {
        let get = |limit: &AtomicU64| limit.load(Ordering::Relaxed);
        (get(&self.hard_bytes), get(&self.soft_bytes), get(&self.soft_secs))
    }

    /// Whether the mailboxes have to be checked. Whoever asks has to do so.
    pub(crate) fn take_due_check(&self) -> bool {
        self.check_is_due.swap(false, Ordering::Acquire)
    }

    fn are_exceeded(&self, bytes: u64, above_soft_limit_since: &mut Option<Instant>) -> bool {
        let (hard, soft, secs) = self.get();
        if hard > 0 && bytes > hard {
            return true;
        }
        if soft == 0 || bytes <= soft {
            *above_soft_limit_since = None;
            return false;
        }
        self.check_is_due.store(true, Ordering::Release);
        above_soft_limit_since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(mailbox: &Mailbox, limits: &OutputLimits, text: &str) -> Posted {
        mailbox.post(text.len(), limits, |message| message.simple(text))
    }

    #[test]
    fn take_puts_messages_in_order_at_the_offset() {
        let (mailbox, limits) = (Mailbox::new(), OutputLimits::default());
        assert_eq!(post(&mailbox, &limits, "a"), Posted::Appended { bytes: 4, before: 0, is_first: true });
        assert_eq!(post(&mailbox, &limits, "b"), Posted::Appended { bytes: 8, before: 4, is_first: false });
        assert!(mailbox.has_mail());
        let mut out = b"+1\r\n+2\r\n".to_vec();
        assert_eq!(mailbox.take(&mut out, 4), 8);
        assert_eq!(out, b"+1\r\n+a\r\n+b\r\n+2\r\n");
        assert!(!mailbox.has_mail());
        assert_eq!(post(&mailbox, &limits, "c"), Posted::Appended { bytes: 4, before: 0, is_first: true });
    }

    #[test]
    fn message_is_encoded_in_the_protocol_of_its_time() {
        let (mailbox, limits) = (Mailbox::new(), OutputLimits::default());
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            mailbox.set_protocol(protocol);
            mailbox.post(0, &limits, |message| message.push(1));
        }
        let mut out = Vec::new();
        mailbox.take(&mut out, 0);
        assert_eq!(out, b"*1\r\n>1\r\n");
    }

    #[test]
    fn keys_join_the_last_message_until_another_comes_or_it_is_taken() {
        let (mailbox, limits) = (Mailbox::new(), OutputLimits::default());
        mailbox.set_protocol(Protocol::Resp3);
        let invalidate = |name: &[u8]| mailbox.post_invalidation(b"", name, false, &limits);
        let message = |names: &[&str]| {
            let names: String = names.iter().map(|name| format!("${}\r\n{name}\r\n", name.len())).collect();
            format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n{names}", names.matches('$').count())
        };
        for name in [b"b", b"a", b"b"] {
            invalidate(name);
        }
        post(&mailbox, &limits, "x");
        invalidate(b"c");
        let mut out = Vec::new();
        mailbox.take(&mut out, 0);
        assert_eq!(String::from_utf8_lossy(&out), message(&["a", "b"]) + "+x\r\n" + &message(&["c"]));
        assert!(matches!(invalidate(b"d"), Posted::Appended { before: 0, is_first: true, .. }));
        out.clear();
        mailbox.take(&mut out, 0);
        assert_eq!(String::from_utf8_lossy(&out), message(&["d"]));
        limits.set(200, 0, 0);
        let full = (0..9).map(|_| invalidate(&[b'n'; 50])).find(|posted| *posted == Posted::Overflow);
        assert!(full.is_some() && mailbox.is_closed());
    }

    #[test]
    fn full_mailbox_closes_and_drops_its_messages() {
        let (mailbox, limits) = (Mailbox::new(), OutputLimits::default());
        limits.set(10, 0, 0);
        assert!(matches!(post(&mailbox, &limits, "123456"), Posted::Appended { .. }));
        assert_eq!(mailbox.post(2, &limits, |_| panic!("not encoded")), Posted::Overflow);
        assert_eq!(post(&mailbox, &limits, "x"), Posted::Closed);
        let mut out = Vec::new();
        mailbox.take(&mut out, 0);
        assert!(out.is_empty());
    }

    #[test]
    fn messages_count_until_they_are_written() {
        let (mailbox, limits) = (Mailbox::new(), OutputLimits::default());
        limits.set(10, 0, 0);
        let mut out = b"a reply that is longer".to_vec();
        post(&mailbox, &limits, "12345");
        mailbox.take(&mut out, 0);
        // Of the reply and the message.
        mailbox.record_unsent(25, &limits);
        mailbox.record_unsent(7, &limits);
        assert!(matches!(post(&mailbox, &limits, "abc"), Posted::Appended { .. }));
        mailbox.take(&mut out, 0);
        assert_eq!(mailbox.post(1, &limits, |_| panic!("not encoded")), Posted::Overflow);
    }

    #[test]
    fn time_above_the_soft_limit_ends_when_messages_are_written() {
        let (mailbox, limits) = (Mailbox::new(), OutputLimits::default());
        limits.set(0, 10, 60);
        let is_above = || mailbox.content.lock().above_soft_limit_since.is_some();
        post(&mailbox, &limits, "123456789012");
        mailbox.take(&mut Vec::new(), 0);
        mailbox.record_unsent(11, &limits);
        assert!(is_above());
        mailbox.record_unsent(10, &limits);
        assert!(!is_above());
        // Those that are not taken count as well, here four bytes.
        post(&mailbox, &limits, "x");
        mailbox.record_unsent(7, &limits);
        assert!(is_above());
        mailbox.record_unsent(6, &limits);
        assert!(!is_above());
    }

    #[test]
    fn soft_limit_allows_a_burst() {
        let limits = OutputLimits::default();
        limits.set(0, 10, 1);
        let mut since = None;
        assert!(!limits.are_exceeded(11, &mut since) && since.is_some());
        assert!(!limits.are_exceeded(10, &mut since) && since.is_none());
        since = Instant::now().checked_sub(Duration::from_secs(2));
        assert!(limits.are_exceeded(11, &mut since));
    }
}
