//! Making objects of Ruby from MessagePack, in two steps: the decoder notes what to make, and then one call makes it all. Ruby
//! raises where it has no memory, and the decoder has something to drop.

use crate::raised::{Raised, Result};
use crate::ruby::make::{Span, Step};
use crate::ruby::{Ruby, Value};
use larder_host::profile::{Visitor, decode};
use std::convert::Infallible;

/// The object of some MessagePack. `is_frozen` freezes it with all that is in it, so that callers can share it.
pub(super) fn message_pack<'r>(ruby: Ruby<'r>, bytes: &[u8], is_frozen: bool) -> Result<Value<'r>> {
    let mut notes = Notes { base: bytes.as_ptr() as usize, first: Step::Nil, steps: Vec::new(), count: 0 };
    if let Err(refused) = decode(bytes, &mut notes) {
        return Err(Raised::fault(format!("the bytes in memory are no value: {refused}")));
    }
    match notes.count {
        1 => ruby.make(bytes, &[notes.first], is_frozen),
        _ => ruby.make(bytes, &notes.steps, is_frozen),
    }
}

/// What to make.
struct Notes {
    /// The address of the bytes.
    base: usize,
    /// A value of one step needs no more memory.
    first: Step,
    steps: Vec<Step>,
    count: usize,
}

type Noted = std::result::Result<(), Infallible>;

impl Notes {
    #[inline]
    fn add(&mut self, step: Step) -> Noted {
        if self.count == 0 {
            self.first = step;
        } else {
            if self.count == 1 {
                self.steps.push(self.first);
            }
            self.steps.push(step);
        }
        self.count += 1;
        Ok(())
    }

    /// Where some bytes of the value are.
    fn span(&self, bytes: &[u8]) -> Span {
        Span { start: bytes.as_ptr() as usize - self.base, length: bytes.len() }
    }
}

impl Visitor for Notes {
    type Error = Infallible;

    fn nil(&mut self) -> Noted {
        self.add(Step::Nil)
    }

    fn boolean(&mut self, value: bool) -> Noted {
        self.add(Step::Boolean(value))
    }

    fn integer(&mut self, value: i64) -> Noted {
        self.add(Step::Integer(value))
    }

    fn unsigned(&mut self, value: u64) -> Noted {
        self.add(Step::Unsigned(value))
    }

    fn float(&mut self, value: f64) -> Noted {
        self.add(Step::Float(value))
    }

    fn text(&mut self, value: &str) -> Noted {
        self.add(Step::Text(self.span(value.as_bytes())))
    }

    fn bytes(&mut self, value: &[u8]) -> Noted {
        self.add(Step::Bytes(self.span(value)))
    }

    fn timestamp(&mut self, seconds: i64, nanoseconds: u32) -> Noted {
        self.add(Step::Time(seconds, nanoseconds))
    }

    fn begin_list(&mut self, values: usize) -> Noted {
        self.add(Step::Array(values))
    }

    fn begin_map(&mut self, _: usize) -> Noted {
        self.add(Step::Hash)
    }

    fn key(&mut self, key: &str) -> Noted {
        self.add(Step::Key(self.span(key.as_bytes())))
    }

    fn end(&mut self) -> Noted {
        self.add(Step::End)
    }
}
