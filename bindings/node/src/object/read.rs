//! Making values of JavaScript from MessagePack.

use crate::js::{Env, Value};
use crate::raised::{Raised, Result};
use larder_host::ErrorClass;
use larder_host::profile::{DecodeError, Visitor, decode};

/// The most milliseconds before or after 1970 that a `Date` has.
const MAX_DATE_MS: f64 = 8.64e15;
/// A property of this name would set the prototype.
const PROTOTYPE: &str = "__proto__";

/// The value of some MessagePack. `is_frozen` freezes its arrays and objects, so that callers can share it.
pub(super) fn message_pack<'s>(env: Env<'s>, bytes: &[u8], is_frozen: bool) -> Result<Value<'s>> {
    let mut maker = Maker { env, open: Vec::new(), made: None, is_frozen };
    match decode(bytes, &mut maker) {
        Ok(()) => maker.made.ok_or_else(|| Raised::fault("the bytes were no value")),
        Err(DecodeError::Visitor(raised)) => Err(raised),
        Err(DecodeError::Refused(refused)) => Err(Raised::of(ErrorClass::Encode, refused.to_string())),
    }
}

struct Maker<'s> {
    env: Env<'s>,
    /// The arrays and objects that have no end yet.
    open: Vec<Open<'s>>,
    made: Option<Value<'s>>,
    is_frozen: bool,
}

enum Open<'s> {
    /// With the number of its elements so far.
    List(Value<'s>, u32),
    /// With the name of its next property.
    Map(Value<'s>, Option<Name<'s>>),
}

struct Name<'s> {
    name: Value<'s>,
    is_prototype: bool,
}

impl<'s> Maker<'s> {
    fn add(&mut self, value: Result<Value<'s>>) -> Result<()> {
        let (env, value) = (self.env, value?);
        match self.open.last_mut() {
            None => self.made = Some(value),
            Some(Open::List(list, length)) => {
                list.push(env, *length, value)?;
                *length += 1;
            }
            Some(Open::Map(map, name)) => {
                let Some(name) = name.take() else { return Err(Raised::fault("a value without a name")) };
                if name.is_prototype {
                    map.define(env, name.name, value)?;
                } else {
                    map.set(env, name.name, value)?;
                }
            }
        }
        Ok(())
    }
}

impl Visitor for Maker<'_> {
    type Error = Raised;

    fn nil(&mut self) -> Result<()> {
        self.add(self.env.null())
    }

    fn boolean(&mut self, value: bool) -> Result<()> {
        self.add(self.env.boolean(value))
    }

    /// Beyond 2^53 a `bigint`: a number would not be exact.
    fn integer(&mut self, value: i64) -> Result<()> {
        self.add(self.env.integer(value))
    }

    fn unsigned(&mut self, value: u64) -> Result<()> {
        self.add(self.env.unsigned(value))
    }

    fn float(&mut self, value: f64) -> Result<()> {
        self.add(self.env.number(value))
    }

    fn text(&mut self, value: &str) -> Result<()> {
        self.add(self.env.text(value))
    }

    fn bytes(&mut self, value: &[u8]) -> Result<()> {
        self.add(self.env.bytes(value))
    }

    /// JavaScript has milliseconds: what is less is lost. A time outside of its dates is an error.
    fn timestamp(&mut self, seconds: i64, nanoseconds: u32) -> Result<()> {
        let milliseconds = seconds as f64 * 1_000.0 + f64::from(nanoseconds / 1_000_000);
        if milliseconds.abs() > MAX_DATE_MS {
            return Err(Raised::of(ErrorClass::Encode, format!("{seconds} seconds since 1970 are no Date")));
        }
        self.add(self.env.date(milliseconds))
    }

    fn begin_list(&mut self, values: usize) -> Result<()> {
        self.open.push(Open::List(self.env.array(values)?, 0));
        Ok(())
    }

    fn begin_map(&mut self, _: usize) -> Result<()> {
        self.open.push(Open::Map(self.env.object()?, None));
        Ok(())
    }

    fn key(&mut self, key: &str) -> Result<()> {
        let name = Name { name: self.env.text(key)?, is_prototype: key == PROTOTYPE };
        if let Some(Open::Map(_, next)) = self.open.last_mut() {
            *next = Some(name);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(Open::List(ended, _) | Open::Map(ended, _)) = self.open.pop() else {
            return Err(Raised::fault("an end without a begin"));
        };
        if self.is_frozen {
            ended.freeze(self.env)?;
        }
        self.add(Ok(ended))
    }
}
