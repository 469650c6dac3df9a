//! Messages about changed keys, for clients that cache them. A client that tracks prefixes gets one message for each prefix,
//! with all keys that have changed since its last one, as in Redis.

use std::collections::{BTreeMap, BTreeSet};

use larder_resp::{Encoder, Protocol};

/// Bytes of a message beside the names of its keys, at most.
pub(crate) const FRAME_BYTES: usize = 80;
/// Bytes of a name beside its text, at most: while it waits, and in the message.
const NAME_BYTES: usize = 40;
/// The channel in which clients with RESP2 receive messages.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// The keys of messages that are not written yet. Each is there once, and they are in order.
#[derive(Debug, Default)]
pub(crate) struct Invalidations {
    by_prefix: BTreeMap<Box<[u8]>, BTreeSet<Box<[u8]>>>,
    bytes: usize,
}

impl Invalidations {
    /// The most bytes by which a key lengthens the messages.
    pub(crate) fn bytes_of(prefix: &[u8], name: &[u8]) -> usize {
        FRAME_BYTES + prefix.len() + NAME_BYTES + name.len()
    }

    pub(crate) fn add(&mut self, prefix: &[u8], name: &[u8]) {
        if !self.by_prefix.contains_key(prefix) {
            self.by_prefix.insert(prefix.into(), BTreeSet::new());
            self.bytes += FRAME_BYTES + prefix.len();
        }
        if let Some(names) = self.by_prefix.get_mut(prefix)
            && !names.contains(name)
        {
            names.insert(name.into());
            self.bytes += NAME_BYTES + name.len();
        }
    }

    /// The memory that they need, in bytes, and the length of the messages at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the messages. None are left.
    pub(crate) fn write(&mut self, out: &mut Encoder<'_>, is_for_channel: bool) {
        for names in std::mem::take(self).by_prefix.values() {
            write_keys(out, names.len(), names.iter().map(|name| &**name), is_for_channel);
        }
    }
}

/// Writes a message that all keys may have changed.
pub(crate) fn write_all(out: &mut Encoder<'_>, is_for_channel: bool) {
    if begin(out, is_for_channel) {
        out.null();
    }
}

/// Writes a message that these keys have changed.
pub(crate) fn write_keys<'a>(
    out: &mut Encoder<'_>,
    count: usize,
    names: impl Iterator<Item = &'a [u8]>,
    is_for_channel: bool,
) {
    if begin(out, is_for_channel) {
        out.array(count);
        names.for_each(|name| out.bulk(name));
    }
}

/// Writes all of a message but its keys. A client with RESP2 gets it as one of a channel, if another connection redirects it
/// to a subscriber, and else none: then this returns false.
fn begin(out: &mut Encoder<'_>, is_for_channel: bool) -> bool {
    match out.protocol() {
        Protocol::Resp3 => {
            out.push(2);
            out.bulk(b"invalidate");
        }
        Protocol::Resp2 if is_for_channel => {
            out.array(3);
            out.bulk(b"message");
            out.bulk(CHANNEL);
        }
        Protocol::Resp2 => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_prefix_are_in_one_message_once() {
        let mut invalidations = Invalidations::default();
        for (prefix, name) in [("a", "ab"), ("", "ab"), ("a", "aa"), ("a", "ab")] {
            invalidations.add(prefix.as_bytes(), name.as_bytes());
        }
        let (bytes, mut out) = (invalidations.bytes(), Vec::new());
        invalidations.write(&mut Encoder::new(&mut out, Protocol::Resp3), false);
        let first = "*1\r\n$2\r\nab\r\n";
        let second = "*2\r\n$2\r\naa\r\n$2\r\nab\r\n";
        let start = ">2\r\n$10\r\ninvalidate\r\n";
        assert_eq!(out, format!("{start}{first}{start}{second}").as_bytes());
        assert!(out.len() <= bytes && invalidations.bytes() == 0);
    }
}
