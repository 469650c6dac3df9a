//! JSON objects without repeated names, and the canonical text of a JSON value. Values stay text until they are needed:
//! numbers are compared as they are written, and nothing is rounded.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Objects and arrays may be nested to this depth. Each level is parsed once more than the one around it.
const MAX_DEPTH: usize = 32;

/// The members of an object, ordered by name. An object that repeats a name is an error: parsers disagree about the
/// member that counts.
#[derive(Debug, Default)]
pub(super) struct Members<'a>(pub(super) BTreeMap<String, &'a RawValue>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
        let mut members = Members::default();
        while let Some((name, value)) = map.next_entry()? {
            if members.0.insert(name, value).is_some() {
                return Err(M::Error::custom("repeated name"));
            }
        }
        Ok(members)
    }
}

/// Appends the members as an object: ordered by name at every depth, and without white space.
///
/// # Errors
/// If an object repeats a name, or a value is nested too deeply.
pub(super) fn write_members(text: &mut String, members: &Members<'_>) -> Result<(), serde_json::Error> {
    write_object(text, members, MAX_DEPTH)
}

fn write_nested(text: &mut String, value: &RawValue, depth: usize) -> Result<(), serde_json::Error> {
    match value.get().as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Err(serde_json::Error::custom("nested too deeply")),
        Some(b'{') => write_object(text, &serde_json::from_str(value.get())?, depth),
        Some(b'[') => {
            text.push('[');
            for (index, item) in serde_json::from_str::<Vec<&RawValue>>(value.get())?.into_iter().enumerate()
            {
                if index > 0 {
                    text.push(',');
                }
                write_nested(text, item, depth - 1)?;
            }
            text.push(']');
            Ok(())
        }
        _ => {
            text.push_str(value.get());
            Ok(())
        }
    }
}

fn write_object(text: &mut String, members: &Members<'_>, depth: usize) -> Result<(), serde_json::Error> {
    text.push('{');
    for (index, (name, value)) in members.0.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(name)?);
        text.push(':');
        write_nested(text, value, depth - 1)?;
    }
    text.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        write_members(&mut text, &serde_json::from_str(&format!("{{\"v\":{json}}}"))?)?;
        Ok(text)
    }

    #[test]
    fn order_of_members_and_white_space_do_not_matter() {
        let expected = r#"{"a":[{"b":1,"c":null},"x y"],"d":{}}"#;
        for json in [expected, " { \"d\" : { } , \"\\u0061\" : [ { \"c\":null,\t\"b\":1 }, \"x y\" ] } "] {
            assert_eq!(canonical(json).unwrap(), format!("{{\"v\":{expected}}}"));
        }
    }

    #[test]
    fn different_values_have_different_text() {
        let values = [
            "1",
            "1.0",
            "1e0",
            "-0",
            "0",
            "10000000000000000000001",
            "10000000000000000000002",
            "\"1\"",
            "null",
            "[]",
            "[1,2]",
            "[2,1]",
            "{}",
            "{\"1\":1}",
            "true",
        ];
        for (index, one) in values.iter().enumerate() {
            for other in &values[index + 1..] {
                assert_ne!(canonical(one).unwrap(), canonical(other).unwrap());
            }
        }
    }

    #[test]
    fn repeated_name_is_an_error_at_any_depth() {
        for json in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
            assert!(canonical(json).is_err(), "{json}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| canonical(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        assert!(nested(MAX_DEPTH - 1).is_ok());
        assert!(nested(MAX_DEPTH).is_err());
        assert!(nested(30_000).is_err());
        let objects = |depth: usize| canonical(&format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
        assert!(objects(MAX_DEPTH - 1).is_ok());
        assert!(objects(MAX_DEPTH).is_err());
    }
}
