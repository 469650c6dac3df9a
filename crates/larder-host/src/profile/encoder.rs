//! Writing MessagePack: a binding calls a method for each object that it walks over.

use super::place::{Step, refused};
use super::{MAX_DEPTH, MAX_JSON_DEPTH, NANOSECONDS_A_SECOND, Reason, Refused, SECONDS_BITS, TIMESTAMP};
use rmp::encode;
use std::fmt::Debug;
use std::ops::Range;

/// Writes one value. After a refusal the encoder is of no use.
///
/// # Examples
/// ```
/// use larder_host::profile::Encoder;
///
/// let mut encoder = Encoder::new(1 << 20);
/// encoder.begin_map(2)?;
/// encoder.key("name")?;
/// encoder.text("apple")?;
/// encoder.key("prices")?;
/// encoder.begin_list(2)?;
/// encoder.integer(3)?;
/// let refused = encoder.unsupported("a Decimal");
/// assert_eq!(refused.to_string(), "at $.prices[1]: a Decimal");
/// encoder.float(0.5)?;
/// encoder.end()?;
/// encoder.end()?;
/// assert_eq!(encoder.finish()?.len(), 30);
/// # Ok::<(), larder_host::profile::Refused>(())
/// ```
#[derive(Debug)]
pub struct Encoder {
    out: Vec<u8>,
    max_bytes: usize,
    /// Whether the value will be written as JSON.
    is_json: bool,
    levels: Vec<Level>,
    is_complete: bool,
}

/// A list or map that is not ended.
#[derive(Debug)]
struct Level {
    announced: usize,
    written: usize,
    /// Of a map.
    key: Option<Key>,
}

/// Where the written keys of a map are.
#[derive(Debug)]
enum Key {
    Missing,
    /// The place of its text in the output. Its value follows.
    Written(Range<usize>),
}

/// What JSON has no form for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("JSON has no {0}")]
pub(crate) struct NotJson(pub(super) &'static str);

pub(super) const BYTES: NotJson = NotJson("bytes");
pub(super) const NO_TIMESTAMP: NotJson = NotJson("points in time");
pub(super) const NOT_FINITE: NotJson = NotJson("numbers that are not finite");

impl Encoder {
    /// An encoder of a value of at most so many bytes, and no more than 2^32 - 1. Larder stores no longer one than
    /// [`Builder::max_value_bytes`](larder::Builder::max_value_bytes) says.
    pub fn new(max_bytes: usize) -> Self {
        let max_bytes = max_bytes.min(u32::MAX as usize);
        Encoder { out: Vec::new(), max_bytes, is_json: false, levels: Vec::new(), is_complete: false }
    }

    /// The same for a value that Redis gets as JSON, which has neither bytes nor points in time, and only finite numbers. The limit
    /// is that of the MessagePack, which memory has.
    pub fn for_json(max_bytes: usize) -> Self {
        Encoder { is_json: true, ..Encoder::new(max_bytes) }
    }

    /// Writes nothing: `None`, `null`, `nil`.
    ///
    /// # Errors
    /// As every call that writes: if the value would be too long, or no value belongs here.
    pub fn nil(&mut self) -> Result<(), Refused> {
        self.scalar(0, |out| must(encode::write_nil(out)))
    }

    /// Writes a boolean.
    ///
    /// # Errors
    /// As [`Encoder::nil`].
    pub fn boolean(&mut self, value: bool) -> Result<(), Refused> {
        self.scalar(0, |out| must(encode::write_bool(out, value)))
    }

    /// Writes an integer.
    ///
    /// # Errors
    /// As [`Encoder::nil`].
    pub fn integer(&mut self, value: i64) -> Result<(), Refused> {
        self.scalar(0, |out| must(encode::write_sint(out, value)))
    }

    /// Writes an integer that may be above 2^63 - 1.
    ///
    /// # Errors
    /// As [`Encoder::nil`].
    pub fn unsigned(&mut self, value: u64) -> Result<(), Refused> {
        self.scalar(0, |out| must(encode::write_uint(out, value)))
    }

    /// Writes a floating-point number, also one that is not finite.
    ///
    /// # Errors
    /// As [`Encoder::nil`], and if JSON has no form for it.
    pub fn float(&mut self, value: f64) -> Result<(), Refused> {
        if !value.is_finite() {
            self.check_form(NOT_FINITE)?;
        }
        self.scalar(0, |out| must(encode::write_f64(out, value)))
    }

    /// Writes text.
    ///
    /// # Errors
    /// As [`Encoder::nil`].
    pub fn text(&mut self, value: &str) -> Result<(), Refused> {
        self.scalar(value.len(), |out| must(encode::write_str(out, value)))
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// As [`Encoder::nil`], and for JSON.
    pub fn bytes(&mut self, value: &[u8]) -> Result<(), Refused> {
        // A text that is too long is written as bytes by some, who do not look at all of it.
        self.check_room(value.len())?;
        self.check_form(BYTES)?;
        self.scalar(value.len(), |out| must(encode::write_bin(out, value)))
    }

    /// Writes a point in time: seconds since 1970 UTC, without leap seconds, and nanoseconds after them.
    ///
    /// # Errors
    /// As [`Encoder::nil`], if there are a billion nanoseconds or more, and for JSON.
    pub fn timestamp(&mut self, seconds: i64, nanoseconds: u32) -> Result<(), Refused> {
        self.check_form(NO_TIMESTAMP)?;
        if nanoseconds >= NANOSECONDS_A_SECOND {
            return Err(self.refused(Reason::Timestamp));
        }
        self.scalar(0, |out| match (u32::try_from(seconds), u64::try_from(seconds)) {
            (Ok(seconds), _) if nanoseconds == 0 => {
                must(encode::write_ext_meta(out, 4, TIMESTAMP));
                out.extend_from_slice(&seconds.to_be_bytes());
            }
            (_, Ok(seconds)) if seconds >> SECONDS_BITS == 0 => {
                must(encode::write_ext_meta(out, 8, TIMESTAMP));
                out.extend_from_slice(&(u64::from(nanoseconds) << SECONDS_BITS | seconds).to_be_bytes());
            }
            _ => {
                must(encode::write_ext_meta(out, 12, TIMESTAMP));
                out.extend_from_slice(&nanoseconds.to_be_bytes());
                out.extend_from_slice(&seconds.to_be_bytes());
            }
        })
    }

    /// Begins a list of so many values, which follow, and then [`Encoder::end`].
    ///
    /// # Errors
    /// As [`Encoder::nil`], and if it would be too deep. Nothing is allocated for it.
    pub fn begin_list(&mut self, values: usize) -> Result<(), Refused> {
        self.begin(values, values, None)?;
        must(encode::write_array_len(&mut self.out, values as u32));
        Ok(())
    }

    /// Begins a map of so many entries: for each a [`key`](Encoder::key) and a value follow, and then [`Encoder::end`].
    ///
    /// # Errors
    /// As [`Encoder::begin_list`].
    pub fn begin_map(&mut self, entries: usize) -> Result<(), Refused> {
        self.begin(entries, entries.saturating_mul(2), Some(Key::Missing))?;
        must(encode::write_map_len(&mut self.out, entries as u32));
        Ok(())
    }

    /// Writes the key of the next value of a map.
    ///
    /// # Errors
    /// As [`Encoder::nil`], and if the map has all its entries.
    pub fn key(&mut self, key: &str) -> Result<(), Refused> {
        match self.levels.last() {
            Some(Level { key: Some(Key::Missing), announced, written }) => {
                if written == announced {
                    return Err(self.miscounted(1));
                }
            }
            Some(Level { key: Some(Key::Written(_)), .. }) => {
                return Err(self.refused(Reason::Order("two keys without a value between them")));
            }
            _ => return Err(self.refused(Reason::Order("a key outside of a map"))),
        }
        self.check_room(key.len())?;
        must(encode::write_str(&mut self.out, key));
        let text = self.out.len() - key.len()..self.out.len();
        if let Some(level) = self.levels.last_mut() {
            level.key = Some(Key::Written(text));
        }
        Ok(())
    }

    /// Ends the list or map that was begun last.
    ///
    /// # Errors
    /// If it has fewer elements than were announced, or there is none.
    pub fn end(&mut self) -> Result<(), Refused> {
        match self.levels.last() {
            None => return Err(self.refused(Reason::Order("an end without a begin"))),
            Some(Level { key: Some(Key::Written(_)), .. }) => {
                return Err(self.refused(Reason::Order("a key without a value")));
            }
            Some(level) if level.written != level.announced => return Err(self.miscounted(0)),
            Some(_) => {}
        }
        self.levels.pop();
        self.end_value();
        Ok(())
    }

    /// The refusal of a value at this place that has no counterpart in other languages; `what` says what it is, in the words
    /// of the host.
    pub fn unsupported(&self, what: impl Into<String>) -> Refused {
        self.refused(Reason::Unsupported(what.into()))
    }

    /// The bytes.
    ///
    /// # Errors
    /// If there is no value, or a list or map in it was not ended, or it is too long.
    pub fn finish(self) -> Result<Vec<u8>, Refused> {
        if !self.is_complete {
            return Err(self.refused(Reason::Order("the value is not complete")));
        }
        if self.out.len() > self.max_bytes {
            return Err(self.refused(Reason::TooLong { limit: self.max_bytes }));
        }
        Ok(self.out)
    }

    /// Writes a value that encloses none.
    fn scalar(&mut self, body_bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Refused> {
        self.begin_value(body_bytes)?;
        write(&mut self.out);
        self.end_value();
        Ok(())
    }

    fn begin(&mut self, announced: usize, least_bytes: usize, key: Option<Key>) -> Result<(), Refused> {
        if self.levels.len() == if self.is_json { MAX_JSON_DEPTH } else { MAX_DEPTH } {
            return Err(self.refused(Reason::Depth));
        }
        self.begin_value(least_bytes)?;
        self.levels.push(Level { announced, written: 0, key });
        Ok(())
    }

    fn begin_value(&self, body_bytes: usize) -> Result<(), Refused> {
        match self.levels.last() {
            None if self.is_complete => return Err(self.refused(Reason::Order("a second value"))),
            None => {}
            Some(Level { key: Some(Key::Missing), .. }) => {
                return Err(self.refused(Reason::Order("a value without a key in a map")));
            }
            Some(level) if level.written == level.announced => return Err(self.miscounted(1)),
            Some(_) => {}
        }
        self.check_room(body_bytes)
    }

    /// Checks before anything is copied or allocated. A number or a head may still pass the limit by a few bytes.
    fn check_room(&self, body_bytes: usize) -> Result<(), Refused> {
        let limit = self.max_bytes;
        let has_room = self.out.len().saturating_add(body_bytes) < limit;
        if has_room { Ok(()) } else { Err(self.refused(Reason::TooLong { limit })) }
    }

    fn end_value(&mut self) {
        match self.levels.last_mut() {
            None => self.is_complete = true,
            Some(level) => {
                level.written += 1;
                if level.key.is_some() {
                    level.key = Some(Key::Missing);
                }
            }
        }
    }

    /// Refuses what JSON has no form for.
    fn check_form(&self, missing: NotJson) -> Result<(), Refused> {
        if self.is_json { Err(self.unsupported(missing.to_string())) } else { Ok(()) }
    }

    /// The refusal of the list or map itself, which has so many elements too many.
    fn miscounted(&self, too_many: usize) -> Refused {
        let level = self.levels.last().expect("its caller has seen it");
        let reason = Reason::Count { announced: level.announced, written: level.written + too_many };
        refused(self.steps().take(self.levels.len() - 1), reason)
    }

    fn refused(&self, reason: Reason) -> Refused {
        refused(self.steps(), reason)
    }

    fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.levels.iter().map(|level| match &level.key {
            None => Step::Index(level.written),
            Some(Key::Missing) => Step::Key(None),
            Some(Key::Written(text)) => Step::Key(std::str::from_utf8(&self.out[text.clone()]).ok()),
        })
    }
}

/// A vector takes every byte.
fn must<T, E: Debug>(written: Result<T, E>) {
    written.expect("a vector takes every byte");
}
