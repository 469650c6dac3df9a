//! What nodes tell each other, and what a node does when it hears it.
//!
//! ```text
//! byte  0      version, 1
//!       1      kind: 1 keys, 2 stamps
//!       2..18  the node that did it
//!       then   for each key or member its length in four bytes, little-endian, and its bytes
//!       then   stamps only: four bytes of ones, and the ledger's clock in decimal digits
//! ```
//! A message that cannot be read is as good as a missed one: everything becomes suspect.

use crate::cache::Inner;
use crate::events::Event;
use crate::tier::{Announcement, Push, PushHandler};
use std::sync::Weak;

const VERSION: u8 = 1;
const KEYS: u8 = 1;
const STAMPS: u8 = 2;
const END: [u8; 4] = [0xff; 4];
const HEAD_BYTES: usize = 18;

/// Which node this is: random, one for each cache that is built.
pub(crate) type Origin = [u8; 16];

/// Announces that keys changed.
pub(crate) fn keys<'k>(
    channel: &[u8],
    origin: Origin,
    keys: impl IntoIterator<Item = &'k [u8]>,
) -> Announcement {
    Announcement { channel: channel.to_vec(), message: written(KEYS, origin, keys) }
}

/// Announces that members of the ledger have a new stamp; the tier puts the clock behind it.
pub(crate) fn stamps(channel: &[u8], origin: Origin, members: &[Vec<u8>]) -> Announcement {
    let mut message = written(STAMPS, origin, members.iter().map(|member| &member[..]));
    message.extend_from_slice(&END);
    Announcement { channel: channel.to_vec(), message }
}

fn written<'a>(kind: u8, origin: Origin, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut message = vec![VERSION, kind];
    message.extend_from_slice(&origin);
    for part in parts {
        message.extend_from_slice(&(part.len() as u32).to_le_bytes());
        message.extend_from_slice(part);
    }
    message
}

/// A message that has been read.
#[derive(Debug, PartialEq, Eq)]
enum Heard<'a> {
    Keys(Origin, Vec<&'a [u8]>),
    Stamps(Origin, Vec<Vec<u8>>, u64),
}

fn read(message: &[u8]) -> Option<Heard<'_>> {
    let (head, mut rest) = message.split_at_checked(HEAD_BYTES)?;
    if head[0] != VERSION {
        return None;
    }
    let origin: Origin = head[2..].try_into().ok()?;
    let mut parts = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk() {
        rest = behind;
        if *length == END {
            break;
        }
        let (part, behind) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        parts.push(part);
        rest = behind;
    }
    match head[1] {
        KEYS if rest.is_empty() => Some(Heard::Keys(origin, parts)),
        STAMPS => {
            let clock = std::str::from_utf8(rest).ok()?.parse().ok()?;
            Some(Heard::Stamps(origin, parts.into_iter().map(<[u8]>::to_vec).collect(), clock))
        }
        _ => None,
    }
}

/// Hears for one cache, as long as there is one.
pub(crate) struct CachePushHandler {
    pub(crate) cache: Weak<Inner>,
    /// Told when the connection is gone.
    pub(crate) closed: tokio::sync::watch::Sender<bool>,
}

impl PushHandler for CachePushHandler {
    fn handle(&self, push: Push<'_>) {
        let Some(cache) = self.cache.upgrade() else { return };
        match push {
            Push::Announcement(message) => match read(message) {
                Some(heard) => cache.heard(heard),
                None => {
                    tracing::warn!(bytes = message.len(), "an announcement cannot be read");
                    cache.ledger.forget();
                    cache.trust.end_gap();
                }
            },
            Push::KeysWritten(keys) => keys.into_iter().for_each(|key| cache.suspect(key)),
            Push::Flushed => cache.trust.end_gap(),
            Push::Closed => _ = self.closed.send(true),
        }
    }
}

impl Inner {
    fn heard(&self, heard: Heard<'_>) {
        match heard {
            // What this node did, it did to its own memory first.
            Heard::Keys(origin, _) if origin == self.origin => {}
            Heard::Keys(_, keys) => {
                self.events.emit(|| Event::Announced { keys: keys.len() });
                keys.into_iter().for_each(|key| self.forget_redis_key(key));
            }
            Heard::Stamps(origin, ..) if origin == self.origin => {}
            Heard::Stamps(_, members, clock) => {
                self.events.emit(|| Event::AnnouncedTags { tags: members.len() });
                self.ledger.hear(&members, clock);
                self.forget_cleared(&members);
            }
        }
    }

    /// Somebody changed a key, maybe this node: the entry is compared with Redis before its next use.
    fn suspect(&self, redis_key: &[u8]) {
        let Some(key) = self.memory_key_of(redis_key) else { return };
        // Counted first: whoever fills memory at this moment looks here afterwards.
        self.changes.note(redis_key);
        self.memory.peek_with(&key, |entry| entry.value().facts().suspect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = [7; 16];

    #[test]
    fn what_is_announced_can_be_read() {
        let announced = keys(b"c", ORIGIN, [&b"a"[..], b"", b"\xff\xff\xff\xff"]);
        let expected = Heard::Keys(ORIGIN, vec![b"a", b"", b"\xff\xff\xff\xff"]);
        assert_eq!(read(&announced.message), Some(expected));
        let mut announced = stamps(b"c", ORIGIN, &[b"!t".to_vec()]).message;
        announced.extend_from_slice(b"1700000000000001");
        assert_eq!(
            read(&announced),
            Some(Heard::Stamps(ORIGIN, vec![b"!t".to_vec()], 1_700_000_000_000_001))
        );
    }

    #[test]
    fn anything_else_is_not_a_message() {
        let whole = keys(b"c", ORIGIN, [&b"abc"[..]]).message;
        for length in (0..whole.len()).filter(|length| *length != HEAD_BYTES) {
            assert_eq!(read(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(read(b"hello, this is somebody else"), None);
        assert_eq!(read(&stamps(b"c", ORIGIN, &[]).message), None, "no clock");
    }
}
