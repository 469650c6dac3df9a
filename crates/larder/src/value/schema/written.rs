//! What a value writes, compared with what its type reads: postcard writes neither names nor numbers of fields, so that a
//! struct that leaves fields out would be read as another value.

use serde::ser::{self, Serialize, Serializer};
use std::cell::Cell;
use std::fmt::Display;

use super::Requested;

/// Whether what a value writes is what its type reads. Cost: a pass over the value that writes nothing.
///
/// # Errors
/// The first difference, for people.
pub(crate) fn check<V: Serialize + ?Sized>(value: &V, requested: &Requested) -> Result<(), String> {
    if requested.is_self_describing {
        return Err("the type reads data that describe themselves, as untagged and internally tagged enums, flatten and \
                    serde_json::Value do: postcard has no names; use Format::Json or Format::MessagePack"
            .into());
    }
    let passed = Passed::default();
    value.serialize(Checker { requested, passed: &passed }).map_err(|difference| difference.0)
}

/// A serializer that writes nothing.
#[derive(Clone, Copy)]
struct Checker<'r> {
    requested: &'r Requested,
    passed: &'r Passed,
}

/// How many structs and variants [`Passed`] remembers.
const REMEMBERED: usize = 8;

/// The structs and variants that passed last: the addresses of their names and how many fields they wrote. A value has many
/// structs of few types, and to look up names by their text takes longer than the rest of the pass.
#[derive(Default)]
struct Passed([Cell<Option<Written>>; REMEMBERED]);

type Written = (*const str, *const str, usize);

impl Passed {
    fn place(&self, (name, variant, fields): Written) -> &Cell<Option<Written>> {
        let mixed = (name.addr() ^ variant.addr().rotate_left(8) ^ fields).wrapping_mul(0x9e37_79b9);
        &self.0[(mixed >> 16) % REMEMBERED]
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Difference(String);

impl ser::Error for Difference {
    fn custom<T: Display>(message: T) -> Self {
        Difference(message.to_string())
    }
}

impl Checker<'_> {
    fn check(self, name: &'static str, variant: &'static str, written: usize) -> Result<Self, Difference> {
        let part: Written = (name, variant, written);
        let place = self.passed.place(part);
        if place.get() == Some(part) {
            return Ok(self);
        }
        match self.requested.lengths.get(&(name, variant)) {
            Some(read) if !read.contains(&written) => Err(Difference(format!(
                "{name}{}{variant} writes {written} fields and reads {}, as with skip_serializing: postcard has no names; use \
                 Format::Json or Format::MessagePack",
                if variant.is_empty() { "" } else { "::" },
                read[0],
            ))),
            _ => {
                place.set(Some(part));
                Ok(self)
            }
        }
    }
}

macro_rules! leaves {
    ($($method:ident($($of:ty),*);)*) => {$(
        fn $method(self, $(_: $of),*) -> Result<(), Difference> {
            Ok(())
        }
    )*};
}

impl Serializer for Checker<'_> {
    type Ok = ();
    type Error = Difference;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    leaves! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result<(), Difference> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Difference> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Difference> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Difference> {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Difference> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Difference> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, name: &'static str, length: usize) -> Result<Self, Difference> {
        self.check(name, "", length)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self, Difference> {
        self.check(name, variant, length)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Difference> {
        Ok(self)
    }

    fn serialize_struct(self, name: &'static str, length: usize) -> Result<Self, Difference> {
        self.check(name, "", length)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self, Difference> {
        self.check(name, variant, length)
    }

    /// As for codecs that do not write names.
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Visits the parts of what has several.
macro_rules! parts {
    ($($of:ident: $($method:ident($($name:ty)?)),*;)*) => {$(
        impl ser::$of for Checker<'_> {
            type Ok = ();
            type Error = Difference;

            $(fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Result<(), Difference> {
                value.serialize(*self)
            })*

            fn end(self) -> Result<(), Difference> {
                Ok(())
            }
        }
    )*};
}

parts! {
    SerializeSeq: serialize_element();
    SerializeTuple: serialize_element();
    SerializeTupleStruct: serialize_field();
    SerializeTupleVariant: serialize_field();
    SerializeMap: serialize_key(), serialize_value();
    SerializeStruct: serialize_field(&'static str);
    SerializeStructVariant: serialize_field(&'static str);
}
