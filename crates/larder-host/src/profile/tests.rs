//! Tests of the profile: what is written is read, in the shortest form, and what is outside of it is refused at its place.

use super::*;
use std::fmt::Write as _;

/// A limit that no test comes near.
const MANY_BYTES: usize = 1 << 20;

/// Writes what it is told as text.
#[derive(Default)]
struct Printed(String);

impl Visitor for Printed {
    type Error = String;

    fn nil(&mut self) -> Result<(), String> {
        self.print("nil")
    }

    fn boolean(&mut self, value: bool) -> Result<(), String> {
        self.print(value)
    }

    fn integer(&mut self, value: i64) -> Result<(), String> {
        if value == 13 { Err("an unlucky number".to_owned()) } else { self.print(value) }
    }

    fn unsigned(&mut self, value: u64) -> Result<(), String> {
        self.print(format_args!("{value}u"))
    }

    fn float(&mut self, value: f64) -> Result<(), String> {
        self.print(format_args!("{value:?}f"))
    }

    fn text(&mut self, value: &str) -> Result<(), String> {
        self.print(format_args!("{value:?}"))
    }

    fn bytes(&mut self, value: &[u8]) -> Result<(), String> {
        self.print(format_args!("{value:?}b"))
    }

    fn timestamp(&mut self, seconds: i64, nanoseconds: u32) -> Result<(), String> {
        self.print(format_args!("{seconds}s{nanoseconds}"))
    }

    fn begin_list(&mut self, values: usize) -> Result<(), String> {
        self.print(format_args!("[{values}"))
    }

    fn begin_map(&mut self, entries: usize) -> Result<(), String> {
        self.print(format_args!("{{{entries}"))
    }

    fn key(&mut self, key: &str) -> Result<(), String> {
        self.print(format_args!("{key}:"))
    }

    fn end(&mut self) -> Result<(), String> {
        self.print("end")
    }
}

impl Printed {
    fn print(&mut self, part: impl std::fmt::Display) -> Result<(), String> {
        let space = if self.0.is_empty() { "" } else { " " };
        write!(self.0, "{space}{part}").map_err(|error| error.to_string())
    }
}

fn encoded(write: impl FnOnce(&mut Encoder) -> Result<(), Refused>) -> Result<Vec<u8>, Refused> {
    let mut encoder = Encoder::new(MANY_BYTES);
    write(&mut encoder)?;
    encoder.finish()
}

fn printed(bytes: &[u8]) -> String {
    let mut printed = Printed::default();
    match decode(bytes, &mut printed) {
        Ok(()) => printed.0,
        Err(error) => error.to_string(),
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Refused>) -> String {
    result.expect_err("it is outside of the profile").to_string()
}

#[test]
fn values_are_read_as_written() {
    type Written = fn(&mut Encoder) -> Result<(), Refused>;
    let cases: &[(Written, &[u8], &str)] = &[
        (|e| e.nil(), b"\xc0", "nil"),
        (|e| e.boolean(true), b"\xc3", "true"),
        (|e| e.integer(127), b"\x7f", "127"),
        (|e| e.integer(-32), b"\xe0", "-32"),
        (|e| e.integer(-33), b"\xd0\xdf", "-33"),
        (|e| e.integer(256), b"\xcd\x01\x00", "256"),
        (|e| e.integer(i64::MIN), b"\xd3\x80\0\0\0\0\0\0\0", "-9223372036854775808"),
        (|e| e.integer(i64::MAX), b"\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", "9223372036854775807"),
        (|e| e.unsigned(5), b"\x05", "5"),
        (|e| e.unsigned(u64::MAX), b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615u"),
        (|e| e.float(-0.0), b"\xcb\x80\0\0\0\0\0\0\0", "-0.0f"),
        (|e| e.float(f64::NAN), b"\xcb\x7f\xf8\0\0\0\0\0\0", "NaNf"),
        (|e| e.text("äpfel"), b"\xa6\xc3\xa4pfel", "\"äpfel\""),
        (|e| e.bytes(b"\xff\0"), b"\xc4\x02\xff\x00", "[255, 0]b"),
        (|e| e.timestamp(1, 0), b"\xd6\xff\0\0\0\x01", "1s0"),
        (|e| e.timestamp(1, 1), b"\xd7\xff\0\0\0\x04\0\0\0\x01", "1s1"),
        (
            |e| e.timestamp((1 << 34) - 1, 999_999_999),
            b"\xd7\xff\xee\x6b\x27\xff\xff\xff\xff\xff",
            "17179869183s999999999",
        ),
        (|e| e.timestamp(-1, 5), b"\xc7\x0c\xff\0\0\0\x05\xff\xff\xff\xff\xff\xff\xff\xff", "-1s5"),
        (|e| e.timestamp(1 << 34, 0), b"\xc7\x0c\xff\0\0\0\0\0\0\0\x04\0\0\0\0", "17179869184s0"),
    ];
    for (write, bytes, text) in cases {
        assert_eq!(encoded(write).as_deref(), Ok(*bytes), "{text}");
        assert_eq!(printed(bytes), *text);
    }
}

#[test]
fn one_whole_number_is_read_without_a_visitor() {
    for number in [0, -1, 127, -33, i64::from(u32::MAX), i64::MAX, i64::MIN] {
        assert_eq!(integer(&encoded(|out| out.integer(number)).unwrap()), Some(number));
    }
    for other in [
        encoded(|out| out.unsigned(u64::MAX)),
        encoded(|out| out.float(1.0)),
        encoded(|out| out.text("1")),
        encoded(Encoder::nil),
        encoded(|out| out.begin_list(1).and_then(|()| out.integer(1)).and_then(|()| out.end())),
        Ok(vec![1, 1]),
        Ok(vec![]),
        Ok(vec![0xd3, 0]),
    ] {
        assert_eq!(integer(&other.unwrap()), None);
    }
}

#[test]
fn lists_and_maps_enclose_values() {
    let bytes = encoded(|e| {
        e.begin_map(2)?;
        e.key("none")?;
        e.begin_list(0)?;
        e.end()?;
        e.key("some")?;
        e.begin_list(3)?;
        e.integer(1)?;
        e.begin_map(0)?;
        e.end()?;
        e.text("x")?;
        e.end()?;
        e.end()
    });
    assert_eq!(printed(&bytes.expect("valid")), r#"{2 none: [0 end some: [3 1 {0 end "x" end end"#);
}

#[test]
fn long_heads_are_read() {
    for length in [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536] {
        let text = "x".repeat(length);
        assert_eq!(printed(&encoded(|e| e.text(&text)).expect("valid")), format!("{text:?}"));
        assert_eq!(
            printed(&encoded(|e| e.bytes(text.as_bytes())).expect("valid")),
            format!("{:?}b", text.as_bytes())
        );
        let list = encoded(|e| {
            e.begin_list(length)?;
            (0..length).try_for_each(|_| e.nil())?;
            e.end()
        });
        assert_eq!(printed(&list.expect("valid")), format!("[{length}{} end", " nil".repeat(length)));
        let map = encoded(|e| {
            e.begin_map(length)?;
            (0..length).try_for_each(|_| e.key("").and_then(|()| e.nil()))?;
            e.end()
        });
        assert_eq!(printed(&map.expect("valid")), format!("{{{length}{} end", " : nil".repeat(length)));
    }
    assert_eq!(printed(b"\xca\x3f\x80\0\0"), "1.0f", "32 bits, which others write");
    assert_eq!(printed(b"\xd2\xff\xff\xff\xff"), "-1", "a longer form than is needed");
}

#[test]
fn encoder_refuses_at_the_place() {
    let item = |e: &mut Encoder| {
        e.begin_map(1)?;
        e.key("two words")?;
        e.begin_list(2)?;
        e.nil()
    };
    let refused = |write: fn(&mut Encoder) -> Result<(), Refused>| {
        refusal(encoded(|e| item(e).and_then(|()| write(e))))
    };
    let place = r#"at $["two words"][1]: "#;
    assert_eq!(refused(|e| Err(e.unsupported("a Decimal"))), format!("{place}a Decimal"));
    assert_eq!(refused(|e| e.timestamp(0, 1_000_000_000)), format!("{place}the timestamp is not valid"));
    assert_eq!(
        refused(|e| e.key("k")),
        format!("{place}the encoder was called out of order: a key outside of a map")
    );
    let (few, many) =
        ("2 elements were announced, and 1 written", "2 elements were announced, and 3 written");
    assert_eq!(refused(|e| e.end()), format!(r#"at $["two words"]: {few}"#));
    assert_eq!(refused(|e| (0..2).try_for_each(|_| e.nil())), format!(r#"at $["two words"]: {many}"#));
    let order = "the encoder was called out of order";
    assert_eq!(refusal(encoded(|_| Ok(()))), format!("at $: {order}: the value is not complete"));
    assert_eq!(refusal(encoded(|e| e.begin_list(1))), format!("at $[0]: {order}: the value is not complete"));
    assert_eq!(
        refusal(encoded(|e| e.nil().and_then(|()| e.nil()))),
        format!("at $: {order}: a second value")
    );
    assert_eq!(refusal(encoded(|e| e.end())), format!("at $: {order}: an end without a begin"));
    let in_map = |write: fn(&mut Encoder) -> Result<(), Refused>| {
        refusal(encoded(|e| e.begin_map(1).and_then(|()| write(e))))
    };
    assert_eq!(in_map(|e| e.nil()), format!("at $[a key]: {order}: a value without a key in a map"));
    assert_eq!(
        in_map(|e| e.key("a").and_then(|()| e.key("b"))),
        format!("at $.a: {order}: two keys without a value between them")
    );
    assert_eq!(
        in_map(|e| e.key("a").and_then(|()| e.end())),
        format!("at $.a: {order}: a key without a value")
    );
}

#[test]
fn encoder_bounds_depth_and_length() {
    let nested = |depth: usize| {
        encoded(|e| {
            (0..depth).try_for_each(|_| e.begin_list(1))?;
            e.nil()?;
            (0..depth).try_for_each(|_| e.end())
        })
    };
    assert!(nested(MAX_DEPTH).is_ok());
    let place = "[0]".repeat(MAX_DEPTH);
    assert_eq!(
        refusal(nested(MAX_DEPTH + 1)),
        format!("at ${place}: more than 128 lists and maps are around it")
    );

    let within = |limit: usize, write: fn(&mut Encoder) -> Result<(), Refused>| {
        let mut encoder = Encoder::new(limit);
        write(&mut encoder).and_then(|()| encoder.finish()).map(|bytes| bytes.len())
    };
    assert_eq!(within(4, |e| e.text("abc")), Ok(4));
    let too_long = "at $: the value would have more than 3 bytes";
    assert_eq!(refusal(within(3, |e| e.text("abc"))), too_long);
    assert_eq!(refusal(within(3, |e| e.float(0.0))), too_long, "a number may be too long at the end");
    assert_eq!(refusal(within(3, |e| e.begin_list(usize::MAX))), too_long);
    assert_eq!(refusal(within(3, |e| e.begin_map(usize::MAX))), too_long);
}

#[test]
fn decoder_refuses_at_the_place() {
    for (bytes, error) in [
        (&b""[..], "at $: the bytes end within the value"),
        (b"\xcd\x01", "at $: the bytes end within the value"),
        (b"\xc0\xc0", "at $: 1 bytes follow the value"),
        (b"\xc1", "at $: the byte 0xc1 begins no value"),
        (b"\xa2\xff\xff", "at $: the text is not UTF-8"),
        (b"\xa2a", "at $: 2 bytes or elements are announced, and 1 bytes are left"),
        (b"\x92\x01\xd5\x05ab", "at $[1]: extension 5 is not the timestamp, -1"),
        (b"\x91\xd5\xffab", "at $[0]: the timestamp is not valid"),
        (b"\x91\xd7\xff\xee\x6b\x28\x00\x00\x00\x00\x00", "at $[0]: the timestamp is not valid"),
        (b"\x82\xa1a\x01\x02\x03", "at $[a key]: the key of a map is not text"),
        (b"\x82\xa1a\x01\xa1b\xc1", "at $.b: the byte 0xc1 begins no value"),
        (b"\x81\xa1a\x91\x0d", "the visitor failed"),
    ] {
        assert_eq!(printed(bytes), error, "{bytes:x?}");
    }
}

#[test]
fn decoder_bounds_depth_and_what_it_announces() {
    let nested = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
    assert_eq!(check(&nested(MAX_DEPTH)), Ok(()));
    let place = "[0]".repeat(MAX_DEPTH);
    assert_eq!(
        refusal(check(&nested(MAX_DEPTH + 1))),
        format!("at ${place}: more than 128 lists and maps are around it")
    );
    assert!(refusal(check(&[0x91; 1_000_000])).ends_with("more than 128 lists and maps are around it"));

    // A list that announces all the bytes that follow leaves none for a list within it.
    let list = |values: u32| [&[0xdd][..], &values.to_be_bytes()].concat();
    let bytes = [list(1_000), list(995), vec![0xc0; 995]].concat();
    let error = "at $[0]: 1994 bytes or elements are announced, and 995 bytes are left";
    assert_eq!(refusal(check(&bytes)), error);
    let map = [&[0xdf][..], &u32::MAX.to_be_bytes(), &[0xc0; 100]].concat();
    let error = "at $: 8589934590 bytes or elements are announced, and 100 bytes are left";
    assert_eq!(refusal(check(&map)), error);
}
