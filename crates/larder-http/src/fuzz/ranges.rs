//! `Range` against a model that splits the field into tokens and tests each offset of the body.

use http::header::RANGE;
use http::{HeaderMap, HeaderValue};

use super::{ITERATIONS, pick, text};
use crate::headers::range::{BodyRange, requested_range};

const UNITS: &[&str] = &["bytes", "bytes", "bytes", "BYTES", " bytes ", "lines", ""];
const EQUALS: &[&str] = &["=", "=", "=", " = ", "", "=="];
const DASHES: &[&str] = &["-", "-", "-", " - ", "", "--"];
const NUMBERS: &[&str] = &[
    "",
    "",
    "0",
    "1",
    "7",
    "9",
    "23",
    "007",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999999999999999",
    "x",
    "+1",
];
const ENDS: &[&str] = &["", "", "", "", " ", ",", ",0-1", "-5"];

/// The choices of a field's parts, further text, and the length of the body.
type Input = ([u8; 6], Vec<u8>, u8);

#[test]
fn range_has_the_offsets_of_the_model() {
    bolero::check!().with_type::<Input>().with_iterations(ITERATIONS).for_each(|(parts, more, len)| {
        let tables = [UNITS, EQUALS, NUMBERS, DASHES, NUMBERS, ENDS];
        let mut line: String = tables.iter().zip(parts).map(|(table, choice)| pick(table, *choice)).collect();
        if len % 8 == 0 {
            line += &text(&["-", "=", ",", " ", "1", "bytes"], more);
        }
        let len = usize::from(*len) % 24;
        let request = HeaderMap::from_iter([(RANGE, HeaderValue::try_from(&line).unwrap())]);
        let range = requested_range(&request, &HeaderMap::new(), len);
        assert_eq!(range, model(&line, len), "{line:?} of {len} bytes");
    });
}

fn model(line: &str, len: usize) -> BodyRange {
    let Some(offsets) = selected_offsets(line, len) else { return BodyRange::Whole };
    match (offsets.first(), offsets.last()) {
        _ if len == 0 => BodyRange::Whole,
        (Some(first), Some(last)) => {
            assert_eq!(offsets.len(), last - first + 1, "a single range has no gaps");
            BodyRange::Part(*first..last + 1)
        }
        _ => BodyRange::Unsatisfiable,
    }
}

/// The offsets that a single range selects; `None` if the field is not one.
fn selected_offsets(line: &str, len: usize) -> Option<Vec<usize>> {
    let tokens = tokens(line);
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let ["bytes", "=", range @ ..] = &tokens[..] else { return None };
    let is_selected: &dyn Fn(u128) -> bool = match range {
        [first, "-"] => {
            let first = number(first)?;
            &move |offset| first <= offset
        }
        [first, "-", last] => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            &move |offset| first <= offset && offset <= last
        }
        ["-", suffix] => {
            let suffix = number(suffix)?;
            &move |offset| len as u128 - offset <= suffix
        }
        _ => return None,
    };
    Some((0..len).filter(|offset| is_selected(*offset as u128)).collect())
}

/// The words and separators of a field, in lower case. Spaces only end a word.
fn tokens(line: &str) -> Vec<String> {
    let mut tokens = vec![String::new()];
    for character in line.to_lowercase().chars() {
        match character {
            ' ' => tokens.push(String::new()),
            '=' | '-' | ',' => tokens.extend([character.to_string(), String::new()]),
            _ => tokens.last_mut().expect("never empty").push(character),
        }
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

/// A number; those above the largest offset are equal.
fn number(digits: &str) -> Option<u128> {
    let largest = usize::MAX as u128;
    digits
        .chars()
        .try_fold(0, |number: u128, digit| Some((number * 10 + u128::from(digit.to_digit(10)?)).min(largest)))
}
