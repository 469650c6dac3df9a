//! Whether a value is a remembered absence: what serde serializes as none, such as `None`. No view needs to say so.

use serde::ser::{Impossible, Serialize, Serializer};

/// Whether the value serializes as none.
pub(crate) fn is_none<V: Serialize>(value: &V) -> bool {
    value.serialize(NoneOnly).is_ok()
}

/// A serializer that accepts none and refuses everything else at once.
struct NoneOnly;

#[derive(Debug, thiserror::Error)]
#[error("not none")]
struct NotNone;

impl serde::ser::Error for NotNone {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        NotNone
    }
}

type Never = Impossible<(), NotNone>;

macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $accepted:ty;)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$accepted, NotNone> {
            Err(NotNone)
        }
    )*};
}

impl Serializer for NoneOnly {
    type Ok = ();
    type Error = NotNone;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    fn serialize_none(self) -> Result<(), NotNone> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<(), NotNone> {
        Err(NotNone)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, _: &T) -> Result<(), NotNone> {
        Err(NotNone)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), NotNone> {
        Err(NotNone)
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, _: &T) -> Result<(), NotNone> {
        Err(NotNone)
    }

    refuse! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_i128(i128) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_u128(u128) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_str(&str) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_seq(Option<usize>) -> Never;
        serialize_tuple(usize) -> Never;
        serialize_tuple_struct(&'static str, usize) -> Never;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Never;
        serialize_map(Option<usize>) -> Never;
        serialize_struct(&'static str, usize) -> Never;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Never;
    }
}

#[cfg(test)]
mod tests {
    use super::is_none;
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    #[test]
    fn only_none_is_an_absence() {
        assert!(is_none(&None::<u32>) && is_none(&Box::new(None::<String>)) && is_none(&&None::<()>));
        assert!(!is_none(&Some(1)) && !is_none(&Some(None::<u32>)));
        assert!(
            !is_none(&()) && !is_none(&0) && !is_none(&"") && !is_none(&[0; 0]) && !is_none(&(None::<u32>,))
        );
        assert!(!is_none(&BTreeMap::<u32, u32>::new()) && !is_none(&IpAddr::from([0, 0, 0, 0])));
    }
}
