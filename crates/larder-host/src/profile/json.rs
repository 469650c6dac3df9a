//! The profile as JSON, for views whose values other programs read in Redis as text: memory has MessagePack all the same, since
//! that is what the bindings read.
//!
//! JSON has no form for bytes, points in time and numbers that are not finite. An [`Encoder`] for JSON refuses them where the host
//! writes them, so that the refusal names the place.

use super::Refused;
use super::decoder::{DecodeError, Visitor, decode};
use super::encoder::{BYTES, Encoder, NO_TIMESTAMP, NOT_FINITE, NotJson};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor as Serde};
use std::fmt;

/// Writes a value of the profile behind `out`.
///
/// # Errors
/// If the bytes are no value of the profile, or JSON has no form for one in it.
pub(crate) fn to_json(message_pack: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError<NotJson>> {
    decode(message_pack, &mut Writer { out, levels: Vec::new() })
}

/// The MessagePack of a JSON text. Cost: it is parsed twice, since MessagePack announces the lengths of lists and maps.
///
/// # Errors
/// If the text is not JSON, or more than 127 lists and maps are around a value.
pub(crate) fn from_json(text: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut lengths = Vec::new();
    parse(text, Counter(&mut lengths))?;
    // A number of three characters has nine bytes: the text bounds the value.
    let mut encoder = Encoder::new(usize::MAX);
    parse(text, Writing { encoder: &mut encoder, lengths: &mut lengths.into_iter() })?;
    encoder.finish().map_err(refused)
}

fn parse<'t>(text: &'t [u8], seed: impl DeserializeSeed<'t, Value = ()>) -> Result<(), serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    seed.deserialize(&mut parser)?;
    parser.end()
}

fn refused<E: Error>(refused: Refused) -> E {
    E::custom(refused)
}

/// A list or map that is being written.
struct Level {
    is_map: bool,
    is_empty: bool,
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    levels: Vec<Level>,
}

impl Writer<'_> {
    /// A comma, unless the value is the first of its list, or has a key before it.
    fn separate(&mut self) {
        if let Some(level @ Level { is_map: false, .. }) = self.levels.last_mut()
            && !std::mem::take(&mut level.is_empty)
        {
            self.out.push(b',');
        }
    }

    /// Writes a value that encloses none.
    fn scalar<T: serde::Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.separate();
        serde_json::to_writer(&mut *self.out, value).map_err(|_| NotJson("form for this value"))
    }

    fn begin(&mut self, is_map: bool) {
        self.separate();
        self.out.push(if is_map { b'{' } else { b'[' });
        self.levels.push(Level { is_map, is_empty: true });
    }
}

impl Visitor for Writer<'_> {
    type Error = NotJson;

    fn nil(&mut self) -> Result<(), NotJson> {
        self.scalar(&())
    }

    fn boolean(&mut self, value: bool) -> Result<(), NotJson> {
        self.scalar(&value)
    }

    fn integer(&mut self, value: i64) -> Result<(), NotJson> {
        self.scalar(&value)
    }

    fn unsigned(&mut self, value: u64) -> Result<(), NotJson> {
        self.scalar(&value)
    }

    fn float(&mut self, value: f64) -> Result<(), NotJson> {
        // It would be `null`.
        if value.is_finite() { self.scalar(&value) } else { Err(NOT_FINITE) }
    }

    fn text(&mut self, value: &str) -> Result<(), NotJson> {
        self.scalar(value)
    }

    fn bytes(&mut self, _: &[u8]) -> Result<(), NotJson> {
        Err(BYTES)
    }

    fn timestamp(&mut self, _: i64, _: u32) -> Result<(), NotJson> {
        Err(NO_TIMESTAMP)
    }

    fn begin_list(&mut self, _: usize) -> Result<(), NotJson> {
        self.begin(false);
        Ok(())
    }

    fn begin_map(&mut self, _: usize) -> Result<(), NotJson> {
        self.begin(true);
        Ok(())
    }

    fn key(&mut self, key: &str) -> Result<(), NotJson> {
        let level = self.levels.last_mut().expect("a key is in a map");
        if !std::mem::take(&mut level.is_empty) {
            self.out.push(b',');
        }
        serde_json::to_writer(&mut *self.out, key).map_err(|_| NotJson("form for this key"))?;
        self.out.push(b':');
        Ok(())
    }

    fn end(&mut self) -> Result<(), NotJson> {
        let level = self.levels.pop().expect("an end has a begin");
        self.out.push(if level.is_map { b'}' } else { b']' });
        Ok(())
    }
}

/// Collects the lengths of all lists and maps, in the order in which they begin.
struct Counter<'l>(&'l mut Vec<usize>);

impl<'t> DeserializeSeed<'t> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'t> Serde<'t> for Counter<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut list: A) -> Result<(), A::Error> {
        let place = self.0.len();
        self.0.push(0);
        while list.next_element_seed(Counter(self.0))?.is_some() {
            self.0[place] += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        let place = self.0.len();
        self.0.push(0);
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Counter(self.0))?;
            self.0[place] += 1;
        }
        Ok(())
    }
}

/// Encodes a value, whose lists and maps have these lengths.
struct Writing<'e, L> {
    encoder: &'e mut Encoder,
    lengths: &'e mut L,
}

impl<L: Iterator<Item = usize>> Writing<'_, L> {
    fn length(&mut self) -> usize {
        self.lengths.next().expect("each has been counted")
    }

    fn inner(&mut self) -> Writing<'_, L> {
        Writing { encoder: self.encoder, lengths: self.lengths }
    }
}

impl<'t, L: Iterator<Item = usize>> DeserializeSeed<'t> for Writing<'_, L> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'t, L: Iterator<Item = usize>> Serde<'t> for Writing<'_, L> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.encoder.nil().map_err(refused)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.encoder.boolean(value).map_err(refused)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.encoder.integer(value).map_err(refused)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.encoder.unsigned(value).map_err(refused)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.encoder.float(value).map_err(refused)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.encoder.text(value).map_err(refused)
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut list: A) -> Result<(), A::Error> {
        let length = self.length();
        self.encoder.begin_list(length).map_err(refused)?;
        while list.next_element_seed(self.inner())?.is_some() {}
        self.encoder.end().map_err(refused)
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut map: A) -> Result<(), A::Error> {
        let length = self.length();
        self.encoder.begin_map(length).map_err(refused)?;
        while let Some(key) = map.next_key::<std::borrow::Cow<'t, str>>()? {
            self.encoder.key(&key).map_err(refused)?;
            map.next_value_seed(self.inner())?;
        }
        self.encoder.end().map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(message_pack: &[u8]) -> Result<String, DecodeError<NotJson>> {
        let mut out = b"before ".to_vec();
        to_json(message_pack, &mut out)?;
        Ok(String::from_utf8(out).expect("text").split_off("before ".len()))
    }

    #[test]
    fn json_comes_back_as_it_was_written() {
        for text in [
            "null",
            "true",
            "-9223372036854775808",
            "18446744073709551615",
            "0.5",
            "-0.0",
            "1e+300",
            "0.30000000000000004",
            "5e-324",
            "1.7976931348623157e+308",
            "907.3038322028689",
            r#""Ä \" \\ \n \u0001""#,
            "[]",
            "{}",
            "[[],[1,[2,3]],{}]",
            r#"{"b":1,"a":[{"b":null},{}],"":{"c":[false]}}"#,
        ] {
            let message_pack = from_json(text.as_bytes()).expect(text);
            assert_eq!(json(&message_pack).expect(text), text);
        }
    }

    #[test]
    fn other_json_is_read_as_it_means() {
        for (text, expected) in
            [(" [ 1 , 2.50 ] ", "[1,2.5]"), (r#""\u00e4\ud83d\ude00""#, "\"ä😀\""), ("1E2", "100.0")]
        {
            assert_eq!(json(&from_json(text.as_bytes()).expect(text)).expect(text), expected);
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "[1,", "[1] 2", "nul", "{1:2}", "\"\\ud800\"", "NaN", "[1,]"] {
            assert!(from_json(text.as_bytes()).is_err(), "{text}");
        }
        assert!(from_json(b"\"\xff\"").is_err());
    }

    #[test]
    fn depth_that_is_written_can_be_read() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        let deepest = from_json(&nested(super::super::MAX_JSON_DEPTH)).expect("within the limit");
        assert!(json(&deepest).is_ok());
        assert!(from_json(&nested(super::super::MAX_JSON_DEPTH + 1)).is_err());
        assert!(from_json(&nested(100_000)).is_err());
    }

    #[test]
    fn what_json_has_not_is_named() {
        for (message_pack, expected) in [
            (&[0xc4, 1, 7][..], BYTES),
            (&[0xd6, 0xff, 0, 0, 0, 1], NO_TIMESTAMP),
            (&[0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0], NOT_FINITE),
        ] {
            assert_eq!(json(message_pack), Err(DecodeError::Visitor(expected)));
        }
    }

    #[test]
    fn encoder_for_json_refuses_what_json_has_not_and_names_the_place() {
        let refusal = |write: fn(&mut Encoder) -> Result<(), Refused>| {
            let mut encoder = Encoder::for_json(1 << 10);
            encoder.begin_list(2).expect("a list");
            encoder.nil().expect("JSON has null");
            write(&mut encoder).expect_err("JSON has none").to_string()
        };
        assert_eq!(refusal(|encoder| encoder.bytes(b"x")), "at $[1]: JSON has no bytes");
        assert_eq!(refusal(|encoder| encoder.timestamp(1, 0)), "at $[1]: JSON has no points in time");
        assert_eq!(
            refusal(|encoder| encoder.float(f64::NAN)),
            "at $[1]: JSON has no numbers that are not finite"
        );
        let mut encoder = Encoder::for_json(1 << 10);
        (0..super::super::MAX_JSON_DEPTH).for_each(|_| encoder.begin_list(1).expect("within the limit"));
        assert!(encoder.begin_list(1).is_err());
    }
}
