//! The shape of a type as serde sees it: which fields, variants and primitive types its `Deserialize` asks for.
//!
//! A deserializer that has no data answers whatever it is asked with some value of the kind, and notes the question. So a
//! type without a derived schema has one all the same, and a changed struct is a miss by itself.
//!
//! One pass takes one variant of each enum; passes are made until each variant was taken. Where a type refuses the made-up
//! value, as one that parses text does, the pass ends there, at the same place each time.

use serde::de::value::{Error, U32Deserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::mix_schema;

/// Types that contain themselves end here.
const DEEPEST: usize = 24;
/// Questions in one pass, against arrays of a million elements.
const MOST_QUESTIONS: usize = 10_000;
/// Passes, against enums in enums in enums.
const MOST_PASSES: usize = 256;

/// A number that changes when what the type's `Deserialize` asks for does.
pub(super) fn of<V: DeserializeOwned>() -> u64 {
    let mut notes = Notes { hash: 0, questions: 0, taken: HashMap::new() };
    for _ in 0..MOST_PASSES {
        notes.questions = 0;
        // A type that refuses a value, or panics at it, has been noted up to there.
        _ = catch_unwind(AssertUnwindSafe(|| V::deserialize(Tracer { notes: &mut notes, depth: 0 }).is_ok()));
        if notes.taken.values().all(|(taken, variants)| taken >= variants) {
            break;
        }
    }
    notes.hash
}

struct Notes {
    hash: u64,
    questions: usize,
    /// How often a variant of each enum was taken, and how many it has.
    taken: HashMap<&'static str, (usize, usize)>,
}

struct Tracer<'n> {
    notes: &'n mut Notes,
    depth: usize,
}

impl Tracer<'_> {
    fn note(&mut self, what: &str) -> Result<(), Error> {
        self.notes.hash = mix_schema(self.notes.hash, what, self.depth as u64);
        self.notes.questions += 1;
        if self.notes.questions > MOST_QUESTIONS { Err(Error::custom("too long")) } else { Ok(()) }
    }

    fn note_all(&mut self, name: &str, parts: &[&str]) -> Result<(), Error> {
        self.note(name)?;
        parts.iter().try_for_each(|part| self.note(part))
    }

    fn parts(&mut self, many: usize) -> Parts<'_> {
        Parts { notes: self.notes, depth: self.depth + 1, left: many }
    }

    fn is_deep(&self) -> bool {
        self.depth >= DEEPEST
    }
}

macro_rules! primitives {
    ($($method:ident => $visit:ident($($value:expr)?);)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
            self.note(stringify!($visit))?;
            visitor.$visit($($value)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Error;

    // One is a number that types without a zero take too.
    primitives! {
        deserialize_any => visit_unit();
        deserialize_ignored_any => visit_unit();
        deserialize_identifier => visit_unit();
        deserialize_unit => visit_unit();
        deserialize_bool => visit_bool(false);
        deserialize_i8 => visit_i8(1);
        deserialize_i16 => visit_i16(1);
        deserialize_i32 => visit_i32(1);
        deserialize_i64 => visit_i64(1);
        deserialize_i128 => visit_i128(1);
        deserialize_u8 => visit_u8(1);
        deserialize_u16 => visit_u16(1);
        deserialize_u32 => visit_u32(1);
        deserialize_u64 => visit_u64(1);
        deserialize_u128 => visit_u128(1);
        deserialize_f32 => visit_f32(1.0);
        deserialize_f64 => visit_f64(1.0);
        deserialize_char => visit_char('a');
        deserialize_str => visit_str("");
        deserialize_string => visit_str("");
        deserialize_bytes => visit_bytes(&[]);
        deserialize_byte_buf => visit_bytes(&[]);
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("option")?;
        if self.is_deep() {
            return visitor.visit_none();
        }
        visitor.visit_some(Tracer { depth: self.depth + 1, ..self })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note(name)?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note(name)?;
        visitor.visit_newtype_struct(Tracer { depth: self.depth + 1, ..self })
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("seq")?;
        let many = usize::from(!self.is_deep());
        visitor.visit_seq(self.parts(many))
    }

    fn deserialize_tuple<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.note("tuple")?;
        visitor.visit_seq(self.parts(len))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note(name)?;
        visitor.visit_seq(self.parts(len))
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("map")?;
        let many = usize::from(!self.is_deep());
        visitor.visit_map(self.parts(many))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note_all(name, fields)?;
        if self.is_deep() {
            return Err(Error::custom("too deep"));
        }
        visitor.visit_seq(self.parts(fields.len()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note_all(name, variants)?;
        if self.is_deep() || variants.is_empty() {
            return Err(Error::custom("too deep"));
        }
        let (taken, many) = self.notes.taken.entry(name).or_default();
        let variant = *taken % variants.len();
        (*taken, *many) = (*taken + 1, variants.len());
        visitor.visit_enum(Variant { tracer: self, variant: variant as u32 })
    }

    /// As the codecs that do not write names.
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The elements of something.
struct Parts<'n> {
    notes: &'n mut Notes,
    depth: usize,
    left: usize,
}

impl Parts<'_> {
    fn next(&mut self) -> Tracer<'_> {
        Tracer { notes: self.notes, depth: self.depth }
    }
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.next()).map(Some)
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.next())
    }
}

/// One variant of an enum.
struct Variant<'n> {
    tracer: Tracer<'n>,
    variant: u32,
}

impl<'de, 'n> EnumAccess<'de> for Variant<'n> {
    type Error = Error;
    type Variant = Tracer<'n>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Tracer<'n>), Error> {
        let number: U32Deserializer<Error> = self.variant.into_deserializer();
        Ok((seed.deserialize(number)?, self.tracer))
    }
}

impl<'de> VariantAccess<'de> for Tracer<'_> {
    type Error = Error;

    fn unit_variant(mut self) -> Result<(), Error> {
        self.note("unit")
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Error> {
        self.note("newtype")?;
        seed.deserialize(Tracer { depth: self.depth + 1, ..self })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_struct("struct", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::{BTreeMap, HashMap};

    macro_rules! shape {
        ($($body:tt)*) => {{
            #[derive(Deserialize)]
            #[allow(dead_code, reason = "only its shape matters")]
            $($body)*
            of::<T>()
        }};
    }

    #[test]
    fn every_change_of_a_type_changes_its_shape() {
        let shapes = [
            (
                "struct",
                shape!(
                    struct T {
                        a: u32,
                        b: String,
                    }
                ),
            ),
            (
                "renamed",
                shape!(
                    struct T {
                        a: u32,
                        c: String,
                    }
                ),
            ),
            (
                "reordered",
                shape!(
                    struct T {
                        b: String,
                        a: u32,
                    }
                ),
            ),
            (
                "retyped",
                shape!(
                    struct T {
                        a: u64,
                        b: String,
                    }
                ),
            ),
            (
                "optional",
                shape!(
                    struct T {
                        a: Option<u32>,
                        b: String,
                    }
                ),
            ),
            (
                "many",
                shape!(
                    struct T {
                        a: Vec<u32>,
                        b: String,
                    }
                ),
            ),
            (
                "longer",
                shape!(
                    struct T {
                        a: u32,
                        b: String,
                        c: bool,
                    }
                ),
            ),
            (
                "tuple",
                shape!(
                    struct T(u32, String);
                ),
            ),
            (
                "enum",
                shape!(
                    enum T {
                        A(u32),
                        B { b: String },
                    }
                ),
            ),
            (
                "variant",
                shape!(
                    enum T {
                        A(u32),
                        C { b: String },
                    }
                ),
            ),
            (
                "inside the last variant",
                shape!(
                    enum T {
                        A(u32),
                        B { b: char },
                    }
                ),
            ),
            (
                "inside the first variant",
                shape!(
                    enum T {
                        A(i32),
                        B { b: String },
                    }
                ),
            ),
            (
                "map",
                shape!(
                    struct T {
                        a: BTreeMap<u8, u32>,
                        b: String,
                    }
                ),
            ),
            (
                "map of others",
                shape!(
                    struct T {
                        a: BTreeMap<u8, i32>,
                        b: String,
                    }
                ),
            ),
        ];
        for (at, (name, shape)) in shapes.iter().enumerate() {
            assert!(*shape != 0, "{name}");
            for (other, other_shape) in &shapes[..at] {
                assert_ne!(shape, other_shape, "{name}, {other}");
            }
        }
    }

    #[test]
    fn what_is_stored_alike_has_one_shape() {
        assert_eq!(of::<HashMap<String, u8>>(), of::<BTreeMap<Box<str>, u8>>());
        assert_eq!(of::<Vec<u8>>(), of::<std::collections::VecDeque<u8>>());
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only its shape matters")]
    enum Tree {
        Fork(Box<Tree>, Vec<Tree>, Option<Box<Tree>>),
        Leaf { value: u8 },
    }

    #[test]
    fn types_in_themselves_and_types_that_refuse_come_to_an_end() {
        assert_eq!(of::<Tree>(), of::<Tree>());
        assert_eq!(of::<(std::num::NonZeroU8, u8)>(), of::<(std::num::NonZeroU8, u8)>());
        assert_ne!(of::<(std::net::IpAddr, u8)>(), of::<(std::net::IpAddr, u16)>());
        assert_ne!(of::<[u8; 32]>(), of::<[u8; 31]>());
        assert_ne!(of::<()>(), of::<bool>());
    }

    /// Stored with every value: it may not depend on the build.
    #[test]
    fn a_shape_stays() {
        assert_eq!(of::<Option<(u32, String)>>(), 17_717_260_533_337_191_560);
    }
}
