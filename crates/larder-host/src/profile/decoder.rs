//! Reading MessagePack: a visitor of the binding makes objects of what it is told.

use super::place::{Step, refused};
use super::{MAX_DEPTH, NANOSECONDS_A_SECOND, Reason, Refused, SECONDS_BITS, TIMESTAMP};
use rmp::Marker;
use std::convert::Infallible;

/// Is told of each part of a value, in its order, and makes objects of the host. An error of it ends the decoding.
///
/// The announced numbers of elements are never larger than the bytes of the whole value: it may allocate by them.
pub trait Visitor {
    /// An error of the host.
    type Error;

    /// Nothing: `None`, `null`, `nil`.
    ///
    /// # Errors
    /// Here and below: if the host cannot make the object.
    fn nil(&mut self) -> Result<(), Self::Error>;
    /// A boolean.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn boolean(&mut self, value: bool) -> Result<(), Self::Error>;
    /// An integer.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn integer(&mut self, value: i64) -> Result<(), Self::Error>;
    /// An integer above 2^63 - 1.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn unsigned(&mut self, value: u64) -> Result<(), Self::Error>;
    /// A floating-point number.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn float(&mut self, value: f64) -> Result<(), Self::Error>;
    /// Text.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn text(&mut self, value: &str) -> Result<(), Self::Error>;
    /// Bytes.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn bytes(&mut self, value: &[u8]) -> Result<(), Self::Error>;
    /// A point in time: seconds since 1970 UTC, and less than a billion nanoseconds after them.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn timestamp(&mut self, seconds: i64, nanoseconds: u32) -> Result<(), Self::Error>;
    /// A list of so many values, which follow, and then [`Visitor::end`].
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn begin_list(&mut self, values: usize) -> Result<(), Self::Error>;
    /// A map of so many entries: for each a [`key`](Visitor::key) and a value follow, and then [`Visitor::end`].
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn begin_map(&mut self, entries: usize) -> Result<(), Self::Error>;
    /// The key of the next value of a map.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn key(&mut self, key: &str) -> Result<(), Self::Error>;
    /// The end of the list or map that was begun last.
    ///
    /// # Errors
    /// As [`Visitor::nil`].
    fn end(&mut self) -> Result<(), Self::Error>;
}

/// The reason why bytes were not decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError<E> {
    /// The bytes are outside of the profile.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The visitor failed.
    #[error("the visitor failed")]
    Visitor(E),
}

/// Decodes one value. Cost: one walk over the bytes, without recursion; no allocation but for the depth.
///
/// # Errors
/// If the bytes are not one value of the profile, or the visitor fails. It was then told of the parts before.
pub fn decode<V: Visitor>(bytes: &[u8], visitor: &mut V) -> Result<(), DecodeError<V::Error>> {
    let mut decoder = Decoder { rest: bytes, levels: Vec::new(), owed: 0 };
    decoder.run(visitor)?;
    match decoder.rest.len() {
        0 => Ok(()),
        trailing => Err(decoder.refused(Reason::Trailing(trailing)).into()),
    }
}

/// The number, if the bytes are one whole number within 64 bits: what a host adds to without an object of it.
pub fn integer(bytes: &[u8]) -> Option<i64> {
    let mut decoder = Decoder { rest: bytes, levels: Vec::new(), owed: 0 };
    let number = match decoder.head().ok()? {
        Head::Integer(value) => value,
        Head::Unsigned(value) => value.try_into().ok()?,
        _ => return None,
    };
    decoder.rest.is_empty().then_some(number)
}

/// Checks that bytes are one value of the profile.
///
/// # Errors
/// If they are not.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Refused> {
    decode(bytes, &mut Checked).map_err(|error| match error {
        DecodeError::Refused(refused) => refused,
        DecodeError::Visitor(never) => match never {},
    })
}

struct Decoder<'b> {
    rest: &'b [u8],
    levels: Vec<Level<'b>>,
    /// The keys and values that the open lists and maps have announced and that were not read. Each has at least one byte, so
    /// what is announced is bounded, also where one list is in another.
    owed: usize,
}

struct Level<'b> {
    announced: usize,
    read: usize,
    is_map: bool,
    key: Option<&'b str>,
}

impl<'b> Decoder<'b> {
    fn run<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), DecodeError<V::Error>> {
        loop {
            if self.levels.last().is_some_and(|level| level.is_map) {
                let key = self.key()?;
                visitor.key(key).map_err(DecodeError::Visitor)?;
            }
            if self.value(visitor)? {
                self.end_value();
            }
            while let Some(level) = self.levels.last()
                && level.read == level.announced
            {
                self.levels.pop();
                visitor.end().map_err(DecodeError::Visitor)?;
                self.end_value();
            }
            if self.levels.is_empty() {
                return Ok(());
            }
        }
    }

    fn end_value(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.read += 1;
            level.key = None;
        }
    }

    fn key(&mut self) -> Result<&'b str, Refused> {
        self.owed -= 1;
        let Head::Text(bytes) = self.head()? else { return Err(self.refused(Reason::Key)) };
        let key = self.text(bytes)?;
        if let Some(level) = self.levels.last_mut() {
            level.key = Some(key);
        }
        Ok(key)
    }

    /// Reads a value, and returns whether it is complete: a list or map has only begun.
    fn value<V: Visitor>(&mut self, visitor: &mut V) -> Result<bool, DecodeError<V::Error>> {
        if !self.levels.is_empty() {
            self.owed -= 1;
        }
        let mut is_complete = true;
        let visited = match self.head()? {
            Head::Nil => visitor.nil(),
            Head::Boolean(value) => visitor.boolean(value),
            Head::Integer(value) => visitor.integer(value),
            Head::Unsigned(value) => match i64::try_from(value) {
                Ok(value) => visitor.integer(value),
                Err(_) => visitor.unsigned(value),
            },
            Head::Float(value) => visitor.float(value),
            Head::Text(bytes) => visitor.text(self.text(bytes)?),
            Head::Bytes(bytes) => visitor.bytes(self.take(bytes)?),
            Head::List(values) => {
                self.begin(values, false)?;
                is_complete = false;
                visitor.begin_list(values)
            }
            Head::Map(entries) => {
                self.begin(entries, true)?;
                is_complete = false;
                visitor.begin_map(entries)
            }
            Head::Extension(bytes) => {
                let (seconds, nanoseconds) = self.timestamp(bytes)?;
                visitor.timestamp(seconds, nanoseconds)
            }
        };
        visited.map(|()| is_complete).map_err(DecodeError::Visitor)
    }

    /// The type of the next value, with what has no body.
    fn head(&mut self) -> Result<Head, Refused> {
        let [marker] = self.array()?;
        Ok(match Marker::from_u8(marker) {
            Marker::Null => Head::Nil,
            Marker::False => Head::Boolean(false),
            Marker::True => Head::Boolean(true),
            Marker::FixPos(value) => Head::Integer(value.into()),
            Marker::FixNeg(value) => Head::Integer(value.into()),
            Marker::U8 => Head::Integer(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Head::Integer(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Head::Integer(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => Head::Unsigned(u64::from_be_bytes(self.array()?)),
            Marker::I8 => Head::Integer(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Head::Integer(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Head::Integer(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Head::Integer(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Head::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Head::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(bytes) => Head::Text(bytes.into()),
            Marker::Str8 => Head::Text(self.length_8()?),
            Marker::Str16 => Head::Text(self.length_16()?),
            Marker::Str32 => Head::Text(self.length_32()?),
            Marker::Bin8 => Head::Bytes(self.length_8()?),
            Marker::Bin16 => Head::Bytes(self.length_16()?),
            Marker::Bin32 => Head::Bytes(self.length_32()?),
            Marker::FixArray(values) => Head::List(values.into()),
            Marker::Array16 => Head::List(self.length_16()?),
            Marker::Array32 => Head::List(self.length_32()?),
            Marker::FixMap(entries) => Head::Map(entries.into()),
            Marker::Map16 => Head::Map(self.length_16()?),
            Marker::Map32 => Head::Map(self.length_32()?),
            Marker::FixExt1 => Head::Extension(1),
            Marker::FixExt2 => Head::Extension(2),
            Marker::FixExt4 => Head::Extension(4),
            Marker::FixExt8 => Head::Extension(8),
            Marker::FixExt16 => Head::Extension(16),
            Marker::Ext8 => Head::Extension(self.length_8()?),
            Marker::Ext16 => Head::Extension(self.length_16()?),
            Marker::Ext32 => Head::Extension(self.length_32()?),
            Marker::Reserved => return Err(self.refused(Reason::Unused)),
        })
    }

    /// Begins a list or map.
    fn begin(&mut self, announced: usize, is_map: bool) -> Result<(), Refused> {
        if self.levels.len() == MAX_DEPTH {
            return Err(self.refused(Reason::Depth));
        }
        let elements = if is_map { announced.saturating_mul(2) } else { announced };
        self.owed = self.owed.saturating_add(elements);
        if self.owed > self.rest.len() {
            return Err(self.refused(Reason::Length { announced: self.owed, left: self.rest.len() }));
        }
        self.levels.push(Level { announced, read: 0, is_map, key: None });
        Ok(())
    }

    fn timestamp(&mut self, bytes: usize) -> Result<(i64, u32), Refused> {
        let [number] = self.array()?;
        let number = i8::from_be_bytes([number]);
        if number != TIMESTAMP {
            return Err(self.refused(Reason::Extension(number)));
        }
        let (seconds, nanoseconds) = match bytes {
            4 => (u32::from_be_bytes(self.array()?).into(), 0),
            8 => {
                let packed = u64::from_be_bytes(self.array()?);
                let seconds = packed & ((1 << SECONDS_BITS) - 1);
                (seconds as i64, (packed >> SECONDS_BITS) as u32)
            }
            12 => {
                let nanoseconds = u32::from_be_bytes(self.array()?);
                (i64::from_be_bytes(self.array()?), nanoseconds)
            }
            _ => return Err(self.refused(Reason::Timestamp)),
        };
        if nanoseconds >= NANOSECONDS_A_SECOND {
            return Err(self.refused(Reason::Timestamp));
        }
        Ok((seconds, nanoseconds))
    }

    fn text(&mut self, bytes: usize) -> Result<&'b str, Refused> {
        let text = self.take(bytes)?;
        std::str::from_utf8(text).map_err(|_| self.refused(Reason::Utf8))
    }

    fn length_8(&mut self) -> Result<usize, Refused> {
        Ok(u8::from_be_bytes(self.array()?).into())
    }

    fn length_16(&mut self) -> Result<usize, Refused> {
        Ok(u16::from_be_bytes(self.array()?).into())
    }

    fn length_32(&mut self) -> Result<usize, Refused> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    /// The body of text or bytes.
    fn take(&mut self, bytes: usize) -> Result<&'b [u8], Refused> {
        let Some((taken, rest)) = self.rest.split_at_checked(bytes) else {
            return Err(self.refused(Reason::Length { announced: bytes, left: self.rest.len() }));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// A number of `N` bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.refused(Reason::Incomplete));
        };
        self.rest = rest;
        Ok(*taken)
    }

    fn refused(&self, reason: Reason) -> Refused {
        let steps = self.levels.iter().map(|level| match level.is_map {
            true => Step::Key(level.key),
            false => Step::Index(level.read),
        });
        refused(steps, reason)
    }
}

/// A value without its body, whose length in bytes or elements follows its type.
enum Head {
    Nil,
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(usize),
    Bytes(usize),
    List(usize),
    Map(usize),
    Extension(usize),
}

/// Accepts every value.
struct Checked;

impl Visitor for Checked {
    type Error = Infallible;

    fn nil(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn boolean(&mut self, _: bool) -> Result<(), Infallible> {
        Ok(())
    }

    fn integer(&mut self, _: i64) -> Result<(), Infallible> {
        Ok(())
    }

    fn unsigned(&mut self, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn float(&mut self, _: f64) -> Result<(), Infallible> {
        Ok(())
    }

    fn text(&mut self, _: &str) -> Result<(), Infallible> {
        Ok(())
    }

    fn bytes(&mut self, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn timestamp(&mut self, _: i64, _: u32) -> Result<(), Infallible> {
        Ok(())
    }

    fn begin_list(&mut self, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn begin_map(&mut self, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn key(&mut self, _: &str) -> Result<(), Infallible> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
