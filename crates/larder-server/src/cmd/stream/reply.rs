//! Entries in replies.

use std::ops::RangeInclusive;

use larder_resp::{Encoder, Protocol};

use crate::cmd::Context;
use crate::values::stream::{Entry, Id, Stream};

/// Entries as they are sent: alike in all versions of the protocol.
pub(in crate::cmd) struct EncodedEntries {
    pub(in crate::cmd) count: usize,
    pub(in crate::cmd) bytes: Vec<u8>,
}

/// Which entries of a stream.
pub(in crate::cmd) struct Selection {
    pub(in crate::cmd) ids: RangeInclusive<Id>,
    pub(in crate::cmd) reversed: bool,
    /// The most entries.
    pub(in crate::cmd) most: Option<usize>,
}

/// Encodes entries of a stream. `None` if they would be longer than `most_bytes`.
pub(in crate::cmd) fn encode(
    stream: &Stream,
    selection: Selection,
    most_bytes: u64,
) -> Option<EncodedEntries> {
    let Selection { ids, reversed, most } = selection;
    let (mut count, mut bytes) = (0, Vec::new());
    if most != Some(0) {
        stream.visit(ids, reversed, |entry| {
            write_entry(&mut Encoder::new(&mut bytes, Protocol::Resp2), entry);
            count += 1;
            most != Some(count) && bytes.len() as u64 <= most_bytes
        });
    }
    (bytes.len() as u64 <= most_bytes).then_some(EncodedEntries { count, bytes })
}

/// The id of an entry, and its names and values by turns.
pub(super) fn write_entry(reply: &mut Encoder<'_>, entry: &Entry<'_>) {
    reply.array(2);
    reply.bulk(entry.id.to_string().as_bytes());
    reply.array(2 * entry.fields);
    entry.visit(|name, value| {
        reply.bulk(name);
        reply.bulk(value);
    });
}

impl EncodedEntries {
    /// Replies with an array of the entries.
    pub(in crate::cmd) fn reply(&self, cx: &mut Context<'_>) {
        cx.reply().array(self.count);
        cx.out.extend_from_slice(&self.bytes);
    }
}
