//! Tables of valid and invalid structured fields.

use super::*;
use http::HeaderValue;

fn item(value: Value) -> Member {
    Member::Item(value)
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn dictionary_has_its_last_members() {
    let text = " a, b=1;x=y;z , c=\"x\\\"\\\\, y\",\td=(1 \"s\" ?0);q,e=?0, b=-2";
    let members = parse_dictionary(text).unwrap();
    assert_eq!(members.len(), 5);
    for (key, member) in [
        ("a", item(Value::Boolean(true))),
        ("b", item(Value::Integer(-2))),
        ("c", item(string("x\"\\, y"))),
        ("d", Member::InnerList(vec![Value::Integer(1), string("s"), Value::Boolean(false)])),
        ("e", item(Value::Boolean(false))),
    ] {
        assert_eq!(members[key], member, "{key}");
    }
    assert!(parse_dictionary("").unwrap().is_empty());
    assert!(parse_dictionary("   ").unwrap().is_empty());
}

#[test]
fn invalid_dictionary_is_refused() {
    for text in [
        "a,",
        ",a",
        "a,,b",
        "a b",
        "A",
        "1",
        "a=",
        "a =1",
        "a= 1",
        "\ta",
        "a=1, &&&&&",
        "a;",
        "a;=1",
        "a;B",
        "é",
        "a=é",
        "a=\"é\"",
        "a=(1",
        "a=(1\t2)",
        "a=(1,2)",
        "a=(1)(2)",
        "a=\"b",
        "a;b=\"\\",
        "a;b=(1)",
    ] {
        assert_eq!(parse_dictionary(text), None, "{text:?}");
    }
}

#[test]
fn value_has_its_type() {
    for (text, expected) in [
        ("0", Some(Value::Integer(0))),
        ("-0", Some(Value::Integer(0))),
        ("007", Some(Value::Integer(7))),
        ("999999999999999", Some(Value::Integer(999_999_999_999_999))),
        ("-999999999999999", Some(Value::Integer(-999_999_999_999_999))),
        ("9999999999999999", None),
        ("-", None),
        ("--1", None),
        ("+1", None),
        ("1.5", Some(Value::Other)),
        ("123456789012.123", Some(Value::Other)),
        ("1234567890123.1", None),
        ("1.1234", None),
        ("1.", None),
        (".5", None),
        ("1.2.3", None),
        ("\"\"", Some(string(""))),
        ("\"a\\\"b\"", Some(string("a\"b"))),
        ("\"a\\b\"", None),
        ("\"a\u{7f}\"", None),
        ("\"a\tb\"", None),
        ("'a'", None),
        ("?1", Some(Value::Boolean(true))),
        ("?2", None),
        ("?", None),
        ("?10", None),
        ("*a/b:c%", Some(Value::Other)),
        ("a=b", None),
        (":aGk=:", Some(Value::Other)),
        (":aGk:", Some(Value::Other)),
        ("::", Some(Value::Other)),
        (":a:", None),
        (":a===:", None),
        (":aG=k:", None),
        (":aGk=", None),
        (":a-_k:", None),
        ("@1659578233", Some(Value::Other)),
        ("@-1", Some(Value::Other)),
        ("@1.5", None),
        ("@", None),
        ("%\"f%c3%bc\"", Some(Value::Other)),
        ("%\"f%C3%BC\"", None),
        ("%\"%c3\"", None),
        ("%\"%c\"", None),
        ("%\"a", None),
        ("%a", None),
        ("", None),
    ] {
        let list = (!text.is_empty()).then(|| parse_list(text)).flatten();
        assert_eq!(list, expected.map(|value| vec![item(value)]), "{text:?}");
    }
}

#[test]
fn list_keeps_its_order() {
    assert_eq!(
        parse_list("\"a\";x, \"b\" ,()"),
        Some(vec![item(string("a")), item(string("b")), Member::InnerList(vec![])])
    );
    assert_eq!(parse_list(""), Some(vec![]));
    assert_eq!(parse_list("\"a\" \"b\""), None);
}

#[test]
fn lines_are_joined_and_limited() {
    const NAME: HeaderName = HeaderName::from_static("x");
    let text = |lines: &[&[u8]]| {
        let lines = lines.iter().map(|line| (NAME, HeaderValue::from_bytes(line).unwrap()));
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, line)| {
            headers.append(name, line);
        });
        field_text(&headers, &NAME).map(Cow::into_owned)
    };
    assert_eq!(text(&[]), None);
    assert_eq!(text(&[b"a"]).as_deref(), Some("a"));
    assert_eq!(text(&[b"a", b"b"]).as_deref(), Some("a, b"));
    assert_eq!(text(&[b"a", b"\xc3\xa9"]), None);
    assert_eq!(text(&[&[b'a'; MAX_BYTES]]).map(|text| text.len()), Some(MAX_BYTES));
    assert_eq!(text(&[&[b'a'; MAX_BYTES + 1]]), None);
    assert_eq!(text(&[&[b'a'; MAX_BYTES], b""]), None);
    // A string that continues on the next line gets the separator.
    assert_eq!(parse_list(&text(&[b"\"a", b"b\""]).unwrap()), Some(vec![item(string("a, b"))]));
}
