//! The shape of a type in serde: the fields, variants and primitive types that its `Deserialize` requests.
//!
//! A deserializer without data answers each request with some value of that type, and hashes the request. So a type
//! without a derived schema has a schema too, and a struct with other fields is a miss.
//!
//! One pass visits one variant of each enum. Passes are repeated until each variant was visited. If a type refuses the
//! generated value, as one that parses text does, the pass ends there, at the same request each time.

use serde::de::value::{Error, U32Deserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Requested, mix_schema};

/// The deepest nesting, for types that contain themselves.
const MAX_DEPTH: usize = 24;
/// The most requests in one pass, for arrays of a million elements.
const MAX_REQUESTS: usize = 10_000;
/// The most passes, for enums in enums in enums.
const MAX_PASSES: usize = 256;

/// A number that changes when the requests of the type's `Deserialize` change, and what they ask for.
pub(super) fn of<V: DeserializeOwned>() -> (u64, Requested) {
    let mut requests =
        Requests { hash: 0, count: 0, visited: HashMap::new(), requested: Requested::default() };
    for _ in 0..MAX_PASSES {
        requests.count = 0;
        // If a type refuses a value or panics, its requests are hashed up to there.
        _ = catch_unwind(AssertUnwindSafe(|| {
            V::deserialize(Tracer { requests: &mut requests, depth: 0, variant: ("", "") }).is_ok()
        }));
        if requests.visited.values().all(|(visited, variants)| visited >= variants) {
            break;
        }
    }
    (requests.hash, requests.requested)
}

struct Requests {
    hash: u64,
    count: usize,
    /// How many variants of each enum were visited, and how many it has.
    visited: HashMap<&'static str, (usize, usize)>,
    requested: Requested,
}

struct Tracer<'n> {
    requests: &'n mut Requests,
    depth: usize,
    /// The names of the enum and of the variant whose fields are requested.
    variant: (&'static str, &'static str),
}

impl Tracer<'_> {
    fn record(&mut self, request: &str) -> Result<(), Error> {
        self.requests.hash = mix_schema(self.requests.hash, request, self.depth as u64);
        self.requests.count += 1;
        if self.requests.count > MAX_REQUESTS { Err(Error::custom("too long")) } else { Ok(()) }
    }

    fn record_all(&mut self, name: &str, parts: &[&str]) -> Result<(), Error> {
        self.record(name)?;
        parts.iter().try_for_each(|part| self.record(part))
    }

    fn parts(&mut self, count: usize) -> Parts<'_> {
        Parts { requests: self.requests, depth: self.depth + 1, left: count }
    }

    /// Visits at most `most` fields, and records how many the type reads: aliases are counted as fields too.
    fn visit_fields<'de, V: Visitor<'de>>(
        &mut self,
        of: (&'static str, &'static str),
        most: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut parts = self.parts(most);
        let value = visitor.visit_seq(&mut parts)?;
        let read = most - parts.left;
        let lengths = self.requests.requested.lengths.entry(of).or_default();
        if !lengths.contains(&read) {
            lengths.push(read);
        }
        Ok(value)
    }

    /// One level further down.
    fn deeper(self) -> Self {
        Tracer { depth: self.depth + 1, variant: ("", ""), ..self }
    }

    fn is_deep(&self) -> bool {
        self.depth >= MAX_DEPTH
    }
}

macro_rules! primitives {
    ($($method:ident => $visit:ident($($value:expr)?);)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
            self.record(stringify!($visit))?;
            visitor.$visit($($value)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Error;

    /// Only formats with names can answer.
    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.requests.requested.is_self_describing = true;
        self.record("visit_unit")?;
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    // 1, because some types refuse 0.
    primitives! {
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
        self.record("option")?;
        if self.is_deep() {
            return visitor.visit_none();
        }
        visitor.visit_some(self.deeper())
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.record(name)?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.record(name)?;
        visitor.visit_newtype_struct(self.deeper())
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.record("seq")?;
        let count = usize::from(!self.is_deep());
        visitor.visit_seq(self.parts(count))
    }

    fn deserialize_tuple<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.record("tuple")?;
        visitor.visit_seq(self.parts(len))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.record(name)?;
        self.visit_fields((name, ""), len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.record("map")?;
        let count = usize::from(!self.is_deep());
        visitor.visit_map(self.parts(count))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.record_all(name, fields)?;
        if self.is_deep() {
            return Err(Error::custom("too deep"));
        }
        let of = if self.variant.1.is_empty() { (name, "") } else { self.variant };
        self.visit_fields(of, fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.record_all(name, variants)?;
        if self.is_deep() || variants.is_empty() {
            return Err(Error::custom("too deep"));
        }
        let (visited, total) = self.requests.visited.entry(name).or_default();
        let variant = *visited % variants.len();
        (*visited, *total) = (*visited + 1, variants.len());
        self.variant = (name, variants[variant]);
        visitor.visit_enum(Variant { tracer: self, variant: variant as u32 })
    }

    /// As for codecs that do not write names.
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The elements of a sequence, map or struct.
struct Parts<'n> {
    requests: &'n mut Requests,
    depth: usize,
    left: usize,
}

impl Parts<'_> {
    fn next(&mut self) -> Tracer<'_> {
        Tracer { requests: self.requests, depth: self.depth, variant: ("", "") }
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
        self.record("unit")
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Error> {
        self.record("newtype")?;
        seed.deserialize(self.deeper())
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.record("tuple")?;
        self.visit_fields(self.variant, len, visitor)
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
            of::<T>().0
        }};
    }

    #[test]
    fn changed_type_has_another_shape() {
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
    fn types_with_same_encoding_have_one_shape() {
        assert_eq!(of::<HashMap<String, u8>>().0, of::<BTreeMap<Box<str>, u8>>().0);
        assert_eq!(of::<Vec<u8>>().0, of::<std::collections::VecDeque<u8>>().0);
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only its shape matters")]
    enum Tree {
        Fork(Box<Tree>, Vec<Tree>, Option<Box<Tree>>),
        Leaf { value: u8 },
    }

    #[test]
    fn recursive_and_refusing_types_have_a_shape() {
        assert_eq!(of::<Tree>().0, of::<Tree>().0);
        assert_eq!(of::<(std::num::NonZeroU8, u8)>().0, of::<(std::num::NonZeroU8, u8)>().0);
        assert_ne!(of::<(std::net::IpAddr, u8)>().0, of::<(std::net::IpAddr, u16)>().0);
        assert_ne!(of::<[u8; 32]>().0, of::<[u8; 31]>().0);
        assert_ne!(of::<()>().0, of::<bool>().0);
    }

    /// The shape is stored with every value, so it must not depend on the build.
    #[test]
    fn shape_is_stable() {
        assert_eq!(of::<Option<(u32, String)>>().0, 17_717_260_533_337_191_560);
    }
}
