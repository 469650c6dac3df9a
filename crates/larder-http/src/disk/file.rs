//! One entry as the bytes of a file. Around the form that replicas share (`shared/codec`) it has what only this cache knows: the
//! purges that the entry was checked against, its times, and its tags.
//!
//! ```text
//! offset  bytes
//!      0      4  magic, "LDR1"
//!      4     16  XXH3-128 of all that follows
//!     20      8  length of the file
//!     28     16  id of the generation
//!     44      8  when the origin replied, in milliseconds since 1970
//!     52     16  stamp: the last purge of the resource and of tags that it was checked against
//!     68     16  TTL and grace period at that time, in milliseconds
//!     84      1  flags: 1 has a later use; its 2 is heuristic, 4 is immutable, 8 has its own ETag
//!             …  of a later use: how long kept, served on errors, and if unreachable (8 each), in milliseconds
//!             1  number of tags; for each its length (2) and its text
//!             …  the entry
//! ```
//!
//! Integers are little-endian. Whatever is malformed, torn, changed, or of another generation or key is a miss.

use std::io::{self, Write};
use std::time::Duration;

use http::HeaderMap;
use twox_hash::XxHash3_128;

use crate::key::Key;
use crate::policy::plan::{LaterUse, Plan};
use crate::shared::codec::{self, SharedEntry};
use crate::stored::chunks::Chunks;
use crate::stored::entry::StoredResponse;
use crate::stored::purge::StampNumbers;
use crate::stored::record::VaryRecord;

const MAGIC: &[u8; 4] = b"LDR1";
const CHECKED_FROM: usize = 20;
/// More than all of an entry but its body: a map of header fields may have as much.
pub(super) const MAX_HEAD_BYTES: u64 = 4 << 20;

/// What a file has of an entry, beside the entry itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(super) generation: u128,
    /// When the origin replied, in milliseconds since 1970.
    pub(super) created_ms: u64,
    pub(crate) stamp: StampNumbers,
    pub(super) ttl: Duration,
    pub(super) grace: Duration,
    pub(super) later: Option<LaterUse>,
    pub(super) tags: Vec<Box<str>>,
}

impl Frame {
    /// What is left of the times at `now_ms`, in milliseconds since 1970. If the clock was set back behind the reply, nobody
    /// knows how much time has passed: the response is not fresh.
    pub(crate) fn plan_at(&self, now_ms: u64, age: Duration) -> Plan {
        let elapsed = match now_ms.checked_sub(self.created_ms) {
            Some(elapsed) => Duration::from_millis(elapsed),
            None => self.ttl + self.grace,
        };
        let plan = Plan {
            ttl: self.ttl,
            grace: self.grace,
            later: self.later.map(Box::new),
            age,
            outlives_values: true,
            tags: self.tags.clone(),
            ..Plan::default()
        };
        plan.after(elapsed)
    }
}

/// A file that is to be written: all but the body.
#[derive(Debug)]
pub(super) struct Head(Vec<u8>);

impl Head {
    /// The head of a complete response; `None` if one of its parts is too long for the format.
    pub(super) fn of_response(
        frame: &Frame,
        key: &Key,
        stored: &StoredResponse,
        headers: &HeaderMap,
    ) -> Option<Head> {
        let mut out = encode_frame(frame)?;
        codec::write_response_head(&mut out, key, stored, headers)?;
        Some(Head(out))
    }

    /// The head of a record, which has no body.
    pub(super) fn of_record(frame: &Frame, key: &Key, record: &VaryRecord) -> Option<Head> {
        let mut out = encode_frame(frame)?;
        out.extend_from_slice(&codec::encode_record(key, record)?);
        Some(Head(out))
    }

    /// Writes the file. Returns its length.
    ///
    /// # Errors
    /// Those of `out`.
    pub(super) fn write(self, body: Option<&Chunks>, out: &mut impl Write) -> io::Result<u64> {
        let Head(mut head) = self;
        let len = (head.len() + body.map_or(0, Chunks::len)) as u64;
        head[CHECKED_FROM..CHECKED_FROM + 8].copy_from_slice(&len.to_le_bytes());
        let chunks = || body.into_iter().flat_map(|body| body.reader(0..body.len()));
        let mut hash = XxHash3_128::new();
        hash.write(&head[CHECKED_FROM..]);
        chunks().for_each(|chunk| hash.write(&chunk));
        head[MAGIC.len()..CHECKED_FROM].copy_from_slice(&hash.finish_128().to_le_bytes());
        out.write_all(&head)?;
        chunks().try_for_each(|chunk| out.write_all(&chunk))?;
        Ok(len)
    }
}

fn encode_frame(frame: &Frame) -> Option<Vec<u8>> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).ok();
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 16 + 8]);
    out.extend_from_slice(&frame.generation.to_le_bytes());
    let times = [millis(frame.ttl)?, millis(frame.grace)?];
    let numbers = [frame.created_ms, frame.stamp.resource_checked, frame.stamp.tags_checked];
    numbers.iter().chain(&times).for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    match &frame.later {
        None => out.push(0),
        Some(later) => {
            let bits = [true, later.is_heuristic, later.is_immutable, later.has_own_etag];
            out.push(bits.iter().rev().fold(0, |flags, bit| flags << 1 | u8::from(*bit)));
            for time in [later.kept, later.on_error, later.if_unreachable] {
                out.extend_from_slice(&millis(time)?.to_le_bytes());
            }
        }
    }
    out.push(u8::try_from(frame.tags.len()).ok()?);
    for tag in &frame.tags {
        out.extend_from_slice(&u16::try_from(tag.len()).ok()?.to_le_bytes());
        out.extend_from_slice(tag.as_bytes());
    }
    Some(out)
}

/// The entry of a key in a generation. `None` if the bytes are not that.
pub(super) fn decode<'a>(bytes: &'a [u8], generation: u128, key: &Key) -> Option<(Frame, SharedEntry<'a>)> {
    let mut rest = bytes;
    let magic = take(&mut rest)?;
    let check = u128::from_le_bytes(take(&mut rest)?);
    if magic != *MAGIC || check != XxHash3_128::oneshot(rest) {
        return None;
    }
    let len = u64::from_le_bytes(take(&mut rest)?);
    let frame = decode_frame(&mut rest)?;
    if len != bytes.len() as u64 || frame.generation != generation {
        return None;
    }
    Some((frame, codec::decode(key, rest)?))
}

fn decode_frame(rest: &mut &[u8]) -> Option<Frame> {
    let generation = u128::from_le_bytes(take(rest)?);
    let created_ms = number(rest)?;
    let stamp = StampNumbers { resource_checked: number(rest)?, tags_checked: number(rest)? };
    let (ttl, grace) = (time(rest)?, time(rest)?);
    let [flags] = take(rest)?;
    let later = match flags {
        0 => None,
        flags if flags & !0b1111 == 0 && flags & 1 == 1 => Some(LaterUse {
            kept: time(rest)?,
            on_error: time(rest)?,
            if_unreachable: time(rest)?,
            is_heuristic: flags & 2 != 0,
            is_immutable: flags & 4 != 0,
            has_own_etag: flags & 8 != 0,
        }),
        _ => return None,
    };
    let [count] = take(rest)?;
    let mut tags = Vec::new();
    for _ in 0..count {
        let len = u16::from_le_bytes(take(rest)?);
        let (tag, after) = rest.split_at_checked(len.into())?;
        *rest = after;
        tags.push(std::str::from_utf8(tag).ok()?.into());
    }
    Some(Frame { generation, created_ms, stamp, ttl, grace, later, tags })
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

/// A time that the engine's clock can count to.
fn time(rest: &mut &[u8]) -> Option<Duration> {
    const MAX_MS: u64 = 1 << 42;
    number(rest).filter(|ms| *ms <= MAX_MS).map(Duration::from_millis)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (part, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::ITERATIONS;
    use crate::policy::scope::Scope;
    use crate::stored::entry::StoredBody;
    use crate::stored::purge::PurgeStamp;
    use bytes::Bytes;
    use http::header::{ACCEPT, CONTENT_TYPE};
    use http::{HeaderValue, StatusCode};

    const GENERATION: u128 = 99;
    const SECOND: Duration = Duration::from_secs(1);

    fn frame() -> Frame {
        Frame {
            generation: GENERATION,
            created_ms: 1_000_000,
            stamp: StampNumbers { resource_checked: 5, tags_checked: 6 },
            ttl: SECOND * 60,
            grace: SECOND * 30,
            later: Some(LaterUse {
                kept: SECOND * 600,
                on_error: SECOND * 100,
                if_unreachable: SECOND * 200,
                is_heuristic: false,
                is_immutable: true,
                has_own_etag: true,
            }),
            tags: vec!["red".into(), "größe".into()],
        }
    }

    fn key() -> Key {
        Key::new(b"the key")
    }

    fn response_file(frame: &Frame) -> Vec<u8> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/plain"))]);
        let chunks = Chunks::new(vec![Bytes::from("a body "), Bytes::from("in two chunks")]);
        let plan = Plan { scope: Some(Scope::Public), ..Plan::default() };
        let (tags, stamp) = (Box::default(), PurgeStamp::default());
        let body = StoredBody::Complete(chunks.clone());
        let stored = StoredResponse::new(StatusCode::OK, &headers, body, &plan, tags, stamp, 0);
        let head = Head::of_response(frame, &key(), &stored, stored.headers()).unwrap();
        let mut out = Vec::new();
        assert_eq!(head.write(Some(&chunks), &mut out).unwrap(), out.len() as u64);
        out
    }

    #[test]
    fn response_is_decoded_as_it_was() {
        for frame in [frame(), Frame { later: None, tags: Vec::new(), ..frame() }] {
            let file = response_file(&frame);
            let (decoded, entry) = decode(&file, GENERATION, &key()).unwrap();
            assert_eq!(decoded, frame);
            let SharedEntry::Response(response) = entry else { panic!("a response") };
            assert_eq!(response.body, b"a body in two chunks");
            assert_eq!((response.status, response.scope), (StatusCode::OK, Some(Scope::Public)));
            assert_eq!(response.headers[CONTENT_TYPE], "text/plain");
        }
    }

    #[test]
    fn record_is_decoded_as_it_was() {
        let record = VaryRecord::with_id(8, None, [ACCEPT].into(), PurgeStamp::default());
        let mut file = Vec::new();
        Head::of_record(&frame(), &key(), &record).unwrap().write(None, &mut file).unwrap();
        let (decoded, entry) = decode(&file, GENERATION, &key()).unwrap();
        assert_eq!(decoded, frame());
        let SharedEntry::Record { id, scope, fields } = entry else { panic!("a record") };
        assert_eq!((id, scope, &*fields), (8, None, &[ACCEPT][..]));
    }

    #[test]
    fn file_of_another_generation_or_key_is_a_miss() {
        let file = response_file(&frame());
        assert!(decode(&file, GENERATION + 1, &key()).is_none());
        assert!(decode(&file, GENERATION, &Key::new(b"another key")).is_none());
    }

    #[test]
    fn file_with_any_changed_or_missing_byte_is_a_miss() {
        let file = response_file(&frame());
        for len in 0..file.len() {
            assert!(decode(&file[..len], GENERATION, &key()).is_none(), "{len} bytes");
        }
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(decode(&changed, GENERATION, &key()).is_none(), "byte {at}");
        }
        let longer = [&file[..], &[0]].concat();
        assert!(decode(&longer, GENERATION, &key()).is_none());
    }

    #[test]
    fn times_count_by_the_wall_clock() {
        let at = |second: u64| frame().plan_at(1_000_000 + second * 1000, SECOND * 7);
        let kept = |plan: &Plan| plan.later.as_ref().unwrap().kept;
        let fresh = at(20);
        assert_eq!((fresh.ttl, fresh.grace, fresh.age), (SECOND * 40, SECOND * 30, SECOND * 27));
        assert_eq!(kept(&fresh), SECOND * 600);
        let stale = at(70);
        assert_eq!((stale.ttl, stale.grace, kept(&stale)), (Duration::ZERO, SECOND * 20, SECOND * 590));
        let over = at(700);
        assert_eq!((over.ttl, over.grace, kept(&over)), (Duration::ZERO, Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn clock_that_was_set_back_makes_the_response_expired() {
        let plan = frame().plan_at(999_999, SECOND * 7);
        assert_eq!((plan.ttl, plan.grace), (Duration::ZERO, Duration::ZERO));
        assert_eq!(plan.later.unwrap().kept, SECOND * 570, "it may be validated");
    }

    /// Bytes that have passed the checksum may still be anything: those of a bug, or of an attacker.
    #[test]
    fn any_bytes_are_decoded_without_panic() {
        let file = response_file(&frame());
        bolero::check!().with_type::<(u16, Vec<u8>)>().with_iterations(ITERATIONS).for_each(
            |(at, replacement)| {
                let start = CHECKED_FROM + usize::from(*at) % (file.len() - CHECKED_FROM);
                let mut changed = file.clone();
                let end = changed.len().min(start + replacement.len());
                changed[start..end].copy_from_slice(&replacement[..end - start]);
                let check = XxHash3_128::oneshot(&changed[CHECKED_FROM..]);
                changed[MAGIC.len()..CHECKED_FROM].copy_from_slice(&check.to_le_bytes());
                if let Some((frame, _)) = decode(&changed, GENERATION, &key()) {
                    assert_eq!(frame.generation, GENERATION);
                    _ = frame.plan_at(u64::MAX, Duration::MAX / 2);
                }
            },
        );
    }
}
