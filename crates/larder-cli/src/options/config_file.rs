//! The text of a configuration file: its sections, and errors that name section and key.
//!
//! A section has the keys of a part and keys of the command line. A key is looked up in both, and a misspelt one gets a
//! suggestion.

use crate::flags::values::{self, ADDRESS_FORM};
use anyhow::{Result, anyhow, bail};
use larder_text::{ByteSize, similar};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use std::fmt;
use toml::{Table, Value};

/// Keys whose values no error shows, not even those of a wrong type.
const SECRETS: [&str; 1] = ["requirepass"];

/// The sections of a file, in the order of their names; a missing one is empty.
pub(crate) fn sections<const N: usize>(text: &str, names: [&str; N]) -> Result<[Table; N]> {
    let file: Table = text.parse().map_err(|error| one_line(text, &error))?;
    let mut sections = std::array::from_fn(|_| Table::new());
    for (name, value) in file {
        match (names.iter().position(|known| *known == name), value) {
            (Some(index), Value::Table(section)) => sections[index] = section,
            (Some(_), _) => bail!("{name}: expected a section, [{name}]"),
            (None, Value::Table(_)) => {
                let hint = similar(&name, &names).first().map(|known| format!("; did you mean [{known}]?"));
                bail!("[{name}]: unknown section{}", hint.unwrap_or_default());
            }
            (None, _) => bail!("{name} stands in no section: put it below one of [{}]", names.join("], [")),
        }
    }
    Ok(sections)
}

/// The message of a wrong type without the names of types in Rust.
fn in_plain_words(message: &str) -> String {
    let (start, expected) = message.rsplit_once("expected ").unwrap_or((message, ""));
    let expected = match expected {
        "usize" | "u64" | "u32" | "u16" => "a whole number",
        "a sequence" => "a list in brackets",
        "a string" | "path string" => "a text in quotes",
        "a boolean" => "true or false",
        "socket address" => "an address in quotes",
        _ => return message.to_owned(),
    };
    format!("{start}expected {expected}")
}

/// Reads a section whose keys are those of two types: of the command line, and of a part.
pub(crate) fn read<O: DeserializeOwned, P: DeserializeOwned>(section: &str, table: Table) -> Result<(O, P)> {
    let (own_keys, part_keys) = (keys_of::<O>(), keys_of::<P>());
    let (mut own, mut part) = (Table::new(), Table::new());
    for (key, value) in table {
        let wrong = |reason: &str| anyhow!("[{section}] {key}: {reason}");
        let value = normalised(&key, value).map_err(|reason| wrong(&reason))?;
        let of_type = |error: toml::de::Error| match error.message() {
            _ if SECRETS.contains(&key.as_str()) => wrong("expected a text in quotes"),
            message => wrong(&in_plain_words(message)),
        };
        let nested =
            |is_wrong: &dyn Fn(Table) -> Option<String>| wrong_nested(section, &key, &value, is_wrong);
        // Alone, because the error of a whole table does not say which key is wrong.
        let alone = Table::from_iter([(key.clone(), value.clone())]);
        if own_keys.contains(&key.as_str()) {
            O::deserialize(alone).map_err(of_type)?;
            own.insert(key, value);
        } else if part_keys.contains(&key.as_str()) {
            if let Err(error) = P::deserialize(alone) {
                let is_wrong =
                    |alone: Table| P::deserialize(alone).err().map(|error| error.message().to_owned());
                return Err(nested(&is_wrong).unwrap_or_else(|| of_type(error)));
            }
            part.insert(key, value);
        } else {
            let hint = match similar(&key, &[own_keys, part_keys].concat()).first() {
                Some(known) => format!("did you mean {known}?"),
                None => "`larder config` prints all keys".to_owned(),
            };
            return Err(wrong(&format!("unknown key; {hint}")));
        }
    }
    Ok((O::deserialize(own)?, P::deserialize(part)?))
}

/// The error of a key in a table of a section, or in one of several, by the first key that is wrong alone. `is_wrong` reads a section
/// with one key.
fn wrong_nested(
    section: &str,
    key: &str,
    value: &Value,
    is_wrong: &dyn Fn(Table) -> Option<String>,
) -> Option<anyhow::Error> {
    let alone = |value: Value| Table::from_iter([(key.to_owned(), value)]);
    let first_wrong = |table: &Table, place: String, wrap: &dyn Fn(Table) -> Value| {
        // The key takes no tables.
        if is_wrong(alone(wrap(Table::new()))).is_some() {
            return None;
        }
        table.iter().find_map(|(name, value)| {
            let one = Table::from_iter([(name.clone(), value.clone())]);
            let message = is_wrong(alone(wrap(one)))?;
            Some(anyhow!("{place} {name}: {}", unknown_in_plain_words(name, &in_plain_words(&message))))
        })
    };
    match value {
        Value::Table(table) => first_wrong(table, format!("[{section}.{key}]"), &Value::Table),
        Value::Array(tables) => (1..).zip(tables).find_map(|(number, table)| {
            let place = format!("[[{section}.{key}]] number {number},");
            first_wrong(table.as_table()?, place, &|one| Value::Array(vec![Value::Table(one)]))
        }),
        _ => None,
    }
}

/// The message of an unknown key with a suggestion; other messages as they are.
fn unknown_in_plain_words(name: &str, message: &str) -> String {
    let Some(known) = message.strip_prefix(&format!("unknown field `{name}`, expected ")) else {
        return message.to_owned();
    };
    // The names stand between backquotes.
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    match similar(name, &known).first() {
        Some(known) => format!("unknown key; did you mean {known}?"),
        None => format!("unknown key; expected one of {}", known.join(", ")),
    }
}

/// The keys whose values are addresses.
const ADDRESSES: [&str; 4] = ["listen", "admin", "resp", "http"];

fn size(text: &str) -> Result<ByteSize, String> {
    text.parse::<ByteSize>().map_err(|error| error.to_string())
}

/// Sizes as numbers, and addresses as the parts read them: the text of either is what a flag would have.
fn normalised(key: &str, value: Value) -> Result<Value, String> {
    let is_size = key.ends_with("_bytes") || key.ends_with("_memory");
    match value {
        Value::String(text) if is_size => {
            let ByteSize(bytes) = size(&text)?;
            let largest = || format!("'{text}' is too large: at most {} bytes are possible", i64::MAX);
            Ok(Value::Integer(i64::try_from(bytes).map_err(|_| largest())?))
        }
        // Not a size either; the error of the text says what is.
        Value::Integer(..0) if is_size => size(&value.to_string()).map(|_| value),
        Value::String(text) if ADDRESSES.contains(&key) => match values::address(&text) {
            Ok(address) => Ok(Value::String(address.to_string())),
            Err(reason) if reason == ADDRESS_FORM => Err(format!("{text:?} is not an address; {reason}")),
            Err(reason) => Err(reason),
        },
        value => Ok(value),
    }
}

/// Errors of toml have several lines, ours have one.
fn one_line(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let span = error.span().unwrap_or_default();
    let line = text[..span.start].matches('\n').count() + 1;
    let message = match error.message() {
        "duplicate key" => format!("{} occurs twice", &text[span]),
        // It says that a number with 128 bits was found.
        message if message.ends_with("expected any valid TOML value") => {
            format!("a number is too large: at most {} is possible", i64::MAX)
        }
        message => message.to_owned(),
    };
    anyhow!("line {line}: {message}")
}

/// The names of the fields of a struct.
pub(crate) fn keys_of<T: DeserializeOwned>() -> &'static [&'static str] {
    T::deserialize(KeyReader).err().map_or(&[], |Keys(keys)| keys)
}

/// A deserializer that is asked for a struct and returns its fields, as an error.
struct KeyReader;

#[derive(Debug)]
struct Keys(&'static [&'static str]);

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the keys are {:?}", self.0)
    }
}

impl std::error::Error for Keys {}

impl serde::de::Error for Keys {
    fn custom<T: fmt::Display>(_: T) -> Keys {
        Keys(&[])
    }
}

impl<'de> Deserializer<'de> for KeyReader {
    type Error = Keys;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Keys> {
        Err(Keys(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Keys> {
        Err(Keys(keys))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Own {
        listen: Option<std::net::SocketAddr>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Part {
        cache_bytes: u64,
        max_memory: Option<u64>,
        requirepass: Option<String>,
    }

    fn read_part(text: &str) -> Result<(Own, Part)> {
        let [section] = sections(text, ["part"])?;
        read("part", section)
    }

    #[test]
    fn keys_of_both_types_are_read() {
        let (own, part) = read_part("[part]\ncache_bytes = 7\nlisten = \"127.0.0.1:1\"\n").unwrap();
        assert_eq!((own.listen.unwrap().port(), part.cache_bytes), (1, 7));
        let (own, _) = read_part("[part]\nlisten = \":7\"\n").unwrap();
        assert_eq!(own.listen, Some("127.0.0.1:7".parse().unwrap()));
        assert_eq!(read_part("").unwrap(), (Own::default(), Part::default()));
        assert_eq!(keys_of::<Part>(), ["cache_bytes", "max_memory", "requirepass"]);
    }

    #[test]
    fn error_in_a_table_names_its_number_and_its_key() {
        #[derive(Debug, Default, PartialEq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Rule {
            path: Option<String>,
            ttl_seconds: Option<u64>,
        }
        #[derive(Debug, Default, PartialEq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct WithRules {
            rules: Vec<Rule>,
            gate: Option<Rule>,
        }
        for (text, expected) in [
            (
                "[[part.rules]]\npath = '/'\n[[part.rules]]\npath = '/a'\nttl_second = 1\n",
                "[[part.rules]] number 2, ttl_second: unknown key; did you mean ttl_seconds?",
            ),
            (
                "[part]\nrules = [{ zzz = 1 }]\n",
                "[[part.rules]] number 1, zzz: unknown key; expected one of path, ttl_seconds",
            ),
            (
                "[[part.rules]]\nttl_seconds = '1'\n",
                "[[part.rules]] number 1, ttl_seconds: invalid type: string \"1\", expected a whole number",
            ),
            ("[part.gate]\npat = '/'\n", "[part.gate] pat: unknown key; did you mean path?"),
            ("[part]\nrules = 7\n", "[part] rules: invalid type: integer `7`, expected a list in brackets"),
        ] {
            let [section] = sections(text, ["part"]).unwrap();
            let message = read::<Own, WithRules>("part", section).unwrap_err().to_string();
            assert_eq!(message, expected, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_numbers_or_have_a_unit() {
        for (text, bytes) in
            [("65536", 65_536), ("\"65536\"", 65_536), ("\"64mb\"", 64 << 20), ("\"1.5GiB\"", 3 << 29)]
        {
            assert_eq!(
                read_part(&format!("[part]\ncache_bytes = {text}\n")).unwrap().1.cache_bytes,
                bytes,
                "{text}"
            );
        }
    }

    #[test]
    fn error_of_a_secret_does_not_show_its_value() {
        for value in ["1234567", "12345.67", "[\"1234567\"]", "{ 1234567 = 1 }", "1234567-01-01"] {
            let message = read_part(&format!("[part]\nrequirepass = {value}\n")).unwrap_err().to_string();
            assert!(!message.contains("12345"), "{value}: {message}");
        }
        let wrong_type = read_part("[part]\nrequirepass = 1234567\n").unwrap_err().to_string();
        assert_eq!(wrong_type, "[part] requirepass: expected a text in quotes");
        // Not TOML: the line is named, and not shown.
        let unquoted = read_part("[part]\nrequirepass = 12345secret\n").unwrap_err().to_string();
        assert!(unquoted.starts_with("line 2: ") && !unquoted.contains("12345"), "{unquoted}");
    }

    #[test]
    fn errors_name_section_key_and_value_in_one_line() {
        for (text, expected) in [
            (
                "[part]\nlisten = \"here\"\n",
                "[part] listen: \"here\" is not an address; expected HOST:PORT, such as ",
            ),
            (
                "[part]\nlisten = 7\n",
                "[part] listen: invalid type: integer `7`, expected an address in quotes",
            ),
            ("[part]\ncache_bytes = \"64 apples\"\n", "[part] cache_bytes: '64 apples' is not a size"),
            ("[part]\ncache_bytes = \"9999999999gb\"\n", "[part] cache_bytes: '9999999999gb' is too large"),
            ("[part]\ncache_bytes = \"99999999999gb\"\n", "[part] cache_bytes: '99999999999gb' is too large"),
            ("[part]\ncache_bytes = -1\n", "[part] cache_bytes: '-1' is not a size"),
            ("[part]\nmaxmemory = 1\n", "[part] maxmemory: unknown key; did you mean max_memory?"),
            ("[part]\nmax-memory = 1\n", "[part] max-memory: unknown key; did you mean max_memory?"),
            ("[part]\nlistn = 1\n", "[part] listn: unknown key; did you mean listen?"),
            ("[part]\nzzz = 1\n", "[part] zzz: unknown key; `larder config` prints all keys"),
            ("[prat]\n", "[prat]: unknown section; did you mean [part]?"),
            ("[part]\nx = 1\n", "[part] x: unknown key; `larder config` prints all keys"),
            ("[part]\ncache_bytes = 1\ncache_bytes = 2\n", "line 3: cache_bytes occurs twice"),
            ("[part]\n[part]\n", "line 2: part occurs twice"),
            (
                "[part]\ncache_bytes = 99999999999999999999\n",
                "line 2: a number is too large: at most 9223372036854775807 is possible",
            ),
            ("[zzz]\n", "[zzz]: unknown section"),
            ("part = 1\n", "part: expected a section, [part]"),
            ("threads = 1\n", "threads stands in no section: put it below one of [part]"),
            ("[part\n", "line 1: "),
        ] {
            let message = read_part(text).unwrap_err().to_string();
            assert!(message.starts_with(expected) && !message.contains('\n'), "{text:?}: {message}");
        }
    }
}
