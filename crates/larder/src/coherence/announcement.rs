//! The messages by which nodes announce their mutations, and what a node does when it receives one.
//!
//! ```text
//! byte  0      version, 1
//!       1      kind: 1 keys, 2 stamps, 3 a glob over keys
//!       2..18  the origin: the node that announces
//!       then   for each key, member or glob: its length in four bytes, little-endian, and its bytes
//!       then   stamps only: four bytes 0xff, and the ledger's clock in decimal digits
//! ```
//! A message that is not readable counts as a missed one: every entry becomes suspect. Nor is one readable that names what is not
//! of the namespace: it would be replayed after a failure, by patterns of others too.

use super::Coordinator;
use super::replay_log::Invalidated;
use crate::key::glob::Glob;
use crate::node::Node;
use crate::node::keyspace::Keyspace;
use crate::node::listeners::RemoteInvalidation;
use crate::report::events::Event;
use crate::tier::{Announcement, Push, PushHandler};
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

const VERSION: u8 = 1;
const KEYS: u8 = 1;
const STAMPS: u8 = 2;
const MATCHING: u8 = 3;
const END: [u8; 4] = [0xff; 4];
const HEADER_BYTES: usize = 18;
/// The highest clock that is taken from a message: a stamp of a ledger is less than 2^53, and a new ledger begins above the clock
/// that its maker knows. In microseconds since 1970 it is in the year 2112.
const LAST_CLOCK: u64 = 1 << 52;

/// The identity of a node: random, one for each cache that is built.
pub(crate) type Origin = [u8; 16];

/// Announces mutations of keys.
pub(crate) fn keys<'k>(
    channel: &[u8],
    origin: Origin,
    keys: impl IntoIterator<Item = &'k [u8]>,
) -> Announcement {
    Announcement { channel: channel.to_vec(), message: encode(KEYS, origin, keys) }
}

/// Announces the invalidation of all keys that match a glob.
pub(super) fn matching(channel: &[u8], origin: Origin, glob: &[u8]) -> Announcement {
    Announcement { channel: channel.to_vec(), message: encode(MATCHING, origin, [glob]) }
}

/// Announces new stamps of members of the ledger. The tier appends the clock.
pub(crate) fn stamps(channel: &[u8], origin: Origin, members: &[Vec<u8>]) -> Announcement {
    let mut message = encode(STAMPS, origin, members.iter().map(|member| &member[..]));
    message.extend_from_slice(&END);
    Announcement { channel: channel.to_vec(), message }
}

fn encode<'a>(kind: u8, origin: Origin, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut message = vec![VERSION, kind];
    message.extend_from_slice(&origin);
    for part in parts {
        message.extend_from_slice(&(part.len() as u32).to_le_bytes());
        message.extend_from_slice(part);
    }
    message
}

/// A parsed message.
#[derive(Debug, PartialEq, Eq)]
enum Message<'a> {
    Keys(Origin, Vec<&'a [u8]>),
    Stamps(Origin, Vec<Vec<u8>>, u64),
    Matching(Origin, &'a [u8]),
}

impl Message<'_> {
    /// Whether all that it names is of the namespace: keys begin with its name, and so does the only glob.
    fn is_of(&self, keyspace: &Keyspace) -> bool {
        match self {
            Message::Keys(_, keys) => keys.iter().all(|key| keyspace.has(key)),
            Message::Matching(_, glob) => glob.starts_with(keyspace.glob("").as_bytes()),
            Message::Stamps(..) => true,
        }
    }

    fn origin(&self) -> Origin {
        let (Message::Keys(origin, _) | Message::Stamps(origin, ..) | Message::Matching(origin, _)) = self;
        *origin
    }
}

fn parse(message: &[u8]) -> Option<Message<'_>> {
    let (header, mut rest) = message.split_at_checked(HEADER_BYTES)?;
    if header[0] != VERSION {
        return None;
    }
    let origin: Origin = header[2..].try_into().ok()?;
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
    match header[1] {
        KEYS if rest.is_empty() => Some(Message::Keys(origin, parts)),
        MATCHING if rest.is_empty() => match parts[..] {
            [glob] => Some(Message::Matching(origin, glob)),
            _ => None,
        },
        STAMPS => {
            let clock = std::str::from_utf8(rest).ok()?.parse().ok()?;
            // A node adopts it: there must be room above it for the clocks of all ledgers to come.
            if !(1..=LAST_CLOCK).contains(&clock) {
                return None;
            }
            Some(Message::Stamps(origin, parts.into_iter().map(<[u8]>::to_vec).collect(), clock))
        }
        _ => None,
    }
}

/// Handles the pushes of one subscription of a cache, as long as the cache exists.
pub(crate) struct CachePushHandler {
    coordinator: Weak<Coordinator>,
    /// Set when the connection is closed.
    closed: watch::Sender<bool>,
    /// The replay epoch since which the subscription is in use.
    replay_epoch: AtomicU64,
}

impl CachePushHandler {
    pub(super) fn new(coordinator: Weak<Coordinator>, closed: watch::Sender<bool>) -> Self {
        // Its server is accepted after it was opened: what it announces until then is not late.
        CachePushHandler { coordinator, closed, replay_epoch: AtomicU64::new(u64::MAX) }
    }

    pub(super) fn set_replay_epoch(&self, replay_epoch: u64) {
        self.replay_epoch.store(replay_epoch, Ordering::Release);
    }

    fn receive(&self, coordinator: &Coordinator, message: Message<'_>) {
        let node = &coordinator.node;
        let record = |targets: &mut dyn Iterator<Item = Invalidated>| {
            let epoch = self.replay_epoch.load(Ordering::Acquire);
            if let Some(queued) = coordinator.replay_log.record_announced(targets, epoch) {
                coordinator.apply_overflow(queued);
            }
        };
        if message.origin() == coordinator.origin {
            // This node applied its own mutations before it announced them.
            return;
        }
        match message {
            Message::Keys(_, keys) => {
                node.observers.emit(|| Event::Announced { keys: keys.len() });
                record(&mut keys.iter().map(|key| Invalidated::Key(key.to_vec())));
                for key in keys {
                    node.invalidate_memory_of(key);
                    node.listeners.tell(RemoteInvalidation::Key(key));
                }
            }
            Message::Stamps(_, members, clock) => {
                node.observers.emit(|| Event::AnnouncedTags { tags: members.len() });
                record(&mut members.iter().cloned().map(Invalidated::Member));
                node.ledger.receive(&members, clock);
                node.purge_memory(&members);
                members
                    .iter()
                    .filter_map(|member| RemoteInvalidation::of(member))
                    .for_each(|remote| node.listeners.tell(remote));
            }
            Message::Matching(_, glob) => {
                let glob = Glob::new(glob.to_vec());
                let keys = node.invalidate_matching(&glob) as usize;
                node.observers.emit(|| Event::Announced { keys });
                record(&mut [Invalidated::Matching(glob)].into_iter());
                node.listeners.tell(RemoteInvalidation::Unknown);
            }
        }
    }
}

impl PushHandler for CachePushHandler {
    fn handle(&self, push: Push<'_>) {
        let Some(coordinator) = self.coordinator.upgrade() else { return };
        let node = &coordinator.node;
        match push {
            Push::Announcement(message) => match parse(message).filter(|read| read.is_of(&node.keyspace)) {
                Some(message) => self.receive(&coordinator, message),
                None => {
                    tracing::warn!(bytes = message.len(), "announcement is not readable");
                    node.ledger.record_gap();
                    node.trust.end_gap();
                    node.listeners.tell(RemoteInvalidation::Unknown);
                }
            },
            Push::KeysWritten(keys) => keys.into_iter().for_each(|key| receive_tracked_write(node, key)),
            Push::Flushed => {
                node.trust.end_gap();
                node.listeners.tell(RemoteInvalidation::Unknown);
            }
            Push::Closed => _ = self.closed.send(true),
        }
    }
}

/// A program or a node, maybe this one, wrote a key: the entry is compared with Redis before its next use.
fn receive_tracked_write(node: &Node, redis_key: &[u8]) {
    if node.keyspace.memory_key_of(redis_key).is_some() {
        // Counted first: a commit at this moment checks the count afterwards.
        node.tracked_writes.record(redis_key);
        node.mark_suspect(redis_key);
        node.listeners.tell(RemoteInvalidation::Key(redis_key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = [7; 16];

    #[test]
    fn announcement_parses_to_its_parts() {
        let announced = keys(b"c", ORIGIN, [&b"a"[..], b"", b"\xff\xff\xff\xff"]);
        let expected = Message::Keys(ORIGIN, vec![b"a", b"", b"\xff\xff\xff\xff"]);
        assert_eq!(parse(&announced.message), Some(expected));
        let announced = matching(b"c", ORIGIN, b"n:v:*");
        assert_eq!(parse(&announced.message), Some(Message::Matching(ORIGIN, b"n:v:*")));
        let mut announced = stamps(b"c", ORIGIN, &[b"!t".to_vec()]).message;
        announced.extend_from_slice(b"1700000000000001");
        assert_eq!(
            parse(&announced),
            Some(Message::Stamps(ORIGIN, vec![b"!t".to_vec()], 1_700_000_000_000_001))
        );
    }

    #[test]
    fn other_bytes_are_no_message() {
        let whole = keys(b"c", ORIGIN, [&b"abc"[..]]).message;
        for length in (0..whole.len()).filter(|length| *length != HEADER_BYTES) {
            assert_eq!(parse(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(parse(b"a message of another program"), None);
        assert_eq!(parse(&stamps(b"c", ORIGIN, &[]).message), None, "no clock");
        for clock in [0, LAST_CLOCK + 1, u64::MAX] {
            let mut announced = stamps(b"c", ORIGIN, &[b"!t".to_vec()]).message;
            announced.extend_from_slice(clock.to_string().as_bytes());
            assert_eq!(parse(&announced), None, "no ledger has the clock {clock}");
        }
        assert_eq!(parse(&encode(MATCHING, ORIGIN, [&b"a*"[..], b"b*"])), None, "two globs");
    }

    #[test]
    fn message_names_only_what_is_of_the_namespace() {
        let keyspace = Keyspace::new("a[b", "0");
        let is_of = |kind, part: &[u8]| {
            let message = encode(kind, ORIGIN, [part]);
            parse(&message).expect("readable").is_of(&keyspace)
        };
        assert!(is_of(KEYS, b"a[b:v:k") && is_of(MATCHING, b"a\\[b:v:*"));
        assert!(!is_of(KEYS, b"a[bc:v:k") && !is_of(KEYS, b"") && !is_of(MATCHING, b"*"));
        assert!(!is_of(MATCHING, b"a[b:*"), "this matches keys of other namespaces");
    }
}
