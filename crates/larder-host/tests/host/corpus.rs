//! The values and keys that every language must agree on, in `bindings/interop`.

use larder::{CacheKey, KeyBuf};
use larder_host::profile::{Encoder, Refused, Visitor, decode};
use serde_json::{Value, json};
use std::path::Path;

fn rows(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/interop").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("it is JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let pairs = (0..hexadecimal.len() / 2).map(|at| &hexadecimal[2 * at..2 * at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

/// Calls the encoder as a binding does.
fn write(value: &Value, out: &mut Encoder) -> Result<(), Refused> {
    let (kind, value) = value.as_object().and_then(|value| value.iter().next()).expect("one member");
    match &**kind {
        "nil" => out.nil(),
        "bool" => out.boolean(value.as_bool().expect("a boolean")),
        "integer" => match text(value).parse() {
            Ok(number) => out.integer(number),
            Err(_) => out.unsigned(text(value).parse().expect("64 bits")),
        },
        "float" => out.float(text(value).parse().expect("a number")),
        "text" => out.text(text(value)),
        "bytes" => out.bytes(&bytes_of(text(value))),
        "time" => {
            let nanoseconds = value[1].as_u64().and_then(|part| part.try_into().ok()).expect("32 bits");
            out.timestamp(value[0].as_i64().expect("seconds"), nanoseconds)
        }
        "list" => {
            let values = value.as_array().expect("a list");
            out.begin_list(values.len())?;
            values.iter().try_for_each(|value| write(value, out))?;
            out.end()
        }
        "map" => {
            let entries = value.as_array().expect("a list of pairs");
            out.begin_map(entries.len())?;
            for entry in entries {
                out.key(text(&entry[0]))?;
                write(&entry[1], out)?;
            }
            out.end()
        }
        other => panic!("the type {other:?} is unknown"),
    }
}

/// Makes the JSON of what it is told.
#[derive(Default)]
struct Reader {
    open: Vec<(&'static str, Vec<Value>)>,
    key: Vec<String>,
    read: Option<Value>,
}

impl Reader {
    fn add(&mut self, value: Value) -> Result<(), String> {
        match self.open.last_mut() {
            None => self.read = Some(value),
            Some(("map", entries)) => entries.push(json!([self.key.pop().ok_or("no key")?, value])),
            Some((_, values)) => values.push(value),
        }
        Ok(())
    }
}

impl Visitor for Reader {
    type Error = String;

    fn nil(&mut self) -> Result<(), String> {
        self.add(json!({ "nil": null }))
    }

    fn boolean(&mut self, value: bool) -> Result<(), String> {
        self.add(json!({ "bool": value }))
    }

    fn integer(&mut self, value: i64) -> Result<(), String> {
        self.add(json!({ "integer": value.to_string() }))
    }

    fn unsigned(&mut self, value: u64) -> Result<(), String> {
        self.add(json!({ "integer": value.to_string() }))
    }

    fn float(&mut self, value: f64) -> Result<(), String> {
        self.add(json!({ "float": format!("{value:?}").to_lowercase() }))
    }

    fn text(&mut self, value: &str) -> Result<(), String> {
        self.add(json!({ "text": value }))
    }

    fn bytes(&mut self, value: &[u8]) -> Result<(), String> {
        self.add(json!({ "bytes": hexadecimal(value) }))
    }

    fn timestamp(&mut self, seconds: i64, nanoseconds: u32) -> Result<(), String> {
        self.add(json!({ "time": [seconds, nanoseconds] }))
    }

    fn begin_list(&mut self, _: usize) -> Result<(), String> {
        self.open.push(("list", Vec::new()));
        Ok(())
    }

    fn begin_map(&mut self, _: usize) -> Result<(), String> {
        self.open.push(("map", Vec::new()));
        Ok(())
    }

    fn key(&mut self, key: &str) -> Result<(), String> {
        self.key.push(key.to_owned());
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let (kind, values) = self.open.pop().ok_or("nothing is open")?;
        self.add(json!({ kind: values }))
    }
}

#[test]
fn values_are_written_and_read_as_every_language_does() {
    let rows = rows("values.json");
    assert!(rows.len() > 50);
    for row in rows {
        let mut encoder = Encoder::new(1 << 20);
        write(&row["value"], &mut encoder).expect("it is within the profile");
        let written = encoder.finish().expect("one value");
        assert_eq!(hexadecimal(&written), text(&row["messagepack"]), "{}", row["name"]);
        let mut reader = Reader::default();
        decode(&written, &mut reader).expect("it is within the profile");
        assert_eq!(reader.read.as_ref(), Some(&row["value"]), "{}", row["name"]);
    }
}

/// A part of a key, or a whole one.
fn key_of(key: &Value) -> Part<'_> {
    Part(key)
}

struct Part<'k>(&'k Value);

impl CacheKey for Part<'_> {
    fn write_key(&self, out: &mut KeyBuf) {
        match self.0 {
            Value::String(text) => text.write_key(out),
            Value::Bool(truth) => truth.write_key(out),
            Value::Number(number) => number.as_i64().expect("64 bits").write_key(out),
            Value::Array(parts) => match &parts[..] {
                [a, b] => (key_of(a), key_of(b)).write_key(out),
                [a, b, c] => (key_of(a), key_of(b), key_of(c)).write_key(out),
                // Rust has no tuple of one part in a key.
                [a] => key_of(a).write_key(out),
                _ => panic!("the corpus has tuples of one to three parts"),
            },
            _ => panic!("no key is {}", self.0),
        }
    }
}

#[test]
fn keys_have_the_bytes_of_every_language() {
    let rows = rows("keys.json");
    assert!(rows.len() > 10);
    for row in rows {
        // The key of a view of bytes is what follows its name in Redis.
        let cache = crate::cache(None);
        let view = cache.cache().expect("starts").view::<Part<'_>, u32, crate::Raised>("view");
        crate::blocked(view.write(&key_of(&row["key"]), 1)).map(drop).expect("it is in memory");
        let bytes = cache.cache().expect("started").view::<[u8], u32, crate::Raised>("view");
        assert_eq!(bytes.hit(&bytes_of(text(&row["bytes"]))[..]).as_deref(), Some(&1), "{row}");
    }
}
