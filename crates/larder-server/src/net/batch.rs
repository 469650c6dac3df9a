//! The connections whose turns have begun: they are read one after the other, then the memory of the keys in their requests
//! is prefetched, then the requests are executed, and only then the replies are written.
//!
//! A system call displaces what the processor has cached, and a reply wakes its client, so it takes less time to do the
//! same for several connections in a row. Only replies to short requests wait for each other: a reply must not wait for a
//! command that may take long, nor for a pipeline.

use std::ops::Range;

use larder_resp::{Limits, Progress, RequestParser};

use crate::cmd;
use crate::db::{Database, PrefetchBatch};

/// The most connections of a batch: as many as keys are prefetched at a time.
const BATCH: usize = 16;
/// The most bytes of a short request.
const MAX_SHORT_BYTES: usize = 2 << 10;
/// Bytes of the input buffer that have to be free for another connection.
const MIN_READ_BYTES: usize = 16 << 10;
/// Bytes of replies that may wait. Longer ones are written at once.
pub(crate) const MAX_DEFERRED_BYTES: usize = 16 << 10;

/// A connection of the batch.
#[derive(Default)]
pub(crate) struct Slot {
    /// The position of the connection among those of its thread.
    pub(crate) position: usize,
    /// Where in the input buffer its bytes are.
    pub(crate) received: Range<usize>,
    /// Whether its bytes are one short request, and nothing else. Before [`Batch::prefetch`], whether they may be.
    pub(crate) is_short: bool,
    /// The short request, parsed.
    pub(crate) request: RequestParser,
    pub(crate) replies: Vec<u8>,
    /// Whether the replies wait to be written.
    pub(crate) is_deferred: bool,
}

/// The batch of a thread.
#[derive(Default)]
pub(crate) struct Batch {
    /// They are reused; the first `len` of them have connections.
    slots: Vec<Slot>,
    len: usize,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn slots(&mut self) -> &mut [Slot] {
        &mut self.slots[..self.len]
    }

    /// Where the bytes of the last connection end in the input buffer.
    pub(crate) fn input_end(&self) -> usize {
        self.len.checked_sub(1).map_or(0, |last| self.slots[last].received.end)
    }

    /// Whether no other connection can be read into an input buffer of this length.
    pub(crate) fn is_full(&self, input_bytes: usize) -> bool {
        self.len == BATCH || input_bytes - self.input_end() < MIN_READ_BYTES
    }

    /// Adds a connection whose bytes are in this range of the input buffer. `is_between_requests`: they begin a request.
    pub(crate) fn push(&mut self, position: usize, received: Range<usize>, is_between_requests: bool) {
        if self.len == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let slot = &mut self.slots[self.len];
        self.len += 1;
        (slot.position, slot.received, slot.is_short) = (position, received, is_between_requests);
    }

    /// Parses the short requests, and prefetches the memory of their keys in the databases of their connections.
    pub(crate) fn prefetch<'d>(&mut self, input: &[u8], database: impl Fn(usize) -> Database<'d>) {
        let mut keys = PrefetchBatch::new();
        for slot in self.slots().iter_mut().filter(|slot| slot.is_short) {
            let bytes = &input[slot.received.clone()];
            slot.is_short = is_short_request(&mut slot.request, bytes);
            // If a command has keys, the first argument is a key.
            if slot.is_short
                && let Some(key) = slot.request.args(bytes).get(1)
            {
                database(slot.position).add_to_batch(&mut keys, key);
            }
        }
        database(self.slots[0].position).prefetch(&keys);
    }

    /// Takes the position and the bytes of the connection, if it is the only one: it has nobody to wait for.
    #[inline]
    pub(crate) fn take_only(&mut self) -> Option<(usize, Range<usize>)> {
        if self.len != 1 {
            return None;
        }
        self.len = 0;
        let slot = &self.slots[0];
        Some((slot.position, slot.received.clone()))
    }

    pub(crate) fn clear(&mut self) {
        for slot in self.slots() {
            slot.request.release();
            slot.replies.shrink_to(MAX_DEFERRED_BYTES);
        }
        self.len = 0;
    }
}

/// Whether these bytes are one short request, and nothing else. It is in the parser then.
fn is_short_request(parser: &mut RequestParser, bytes: &[u8]) -> bool {
    if bytes.len() > MAX_SHORT_BYTES {
        return false;
    }
    match parser.parse(bytes, &Limits::unauthenticated()) {
        Ok(Progress::Complete { consumed, .. }) => {
            consumed == bytes.len() && cmd::is_short(parser.args(bytes))
        }
        _ => {
            parser.restart();
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_short_requests_are_short() {
        let many_keys = format!("UNLINK{}\r\n", " k".repeat(100));
        let long_value = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\n{}\r\n", "x".repeat(5000));
        let mut parser = RequestParser::new();
        for (bytes, expected) in [
            ("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", true),
            ("*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\nv\r\n", true),
            ("INCR n\r\n", true),
            ("PING\r\nPING\r\n", false),
            ("*2\r\n$3\r\nGET\r\n$1\r\n", false),
            ("*1\r\n!3\r\n", false),
            ("\r\n", false),
            ("EVAL x 0\r\n", false),
            ("KEYS *\r\n", false),
            ("UNKNOWN\r\n", false),
            (&many_keys, false),
            (&long_value, false),
        ] {
            // Twice: what was not short must leave no state in the parser.
            for _ in 0..2 {
                assert_eq!(is_short_request(&mut parser, bytes.as_bytes()), expected, "{bytes:.40}");
            }
        }
    }
}
