//! `Cache-Control` against the directives that each field was made from.

use std::time::Duration;

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};

use super::{ITERATIONS, pick, text};
use crate::headers::control::{Directives, delta_seconds};
use crate::rfc::directives::{RequestDirectives, ResponseDirectives};

/// A member of a field, and what it means.
type Member = (&'static str, fn(&mut Directives));

const MEMBERS: &[Member] = &[
    ("no-store", |directives| directives.no_store = true),
    ("no-store=1", |directives| directives.no_store = true),
    ("private", |directives| directives.private = true),
    ("private=\"x-user, no-store\"", |directives| directives.private = true),
    ("no-cache", |directives| directives.no_cache = true),
    ("no-cache = \"set-cookie\"", |directives| directives.no_cache = true),
    ("must-revalidate", |directives| directives.must_revalidate = true),
    ("proxy-revalidate", |directives| directives.must_revalidate = true),
    ("only-if-cached", |directives| directives.only_if_cached = true),
    ("s-maxage=5", |directives| lower(directives, 5)),
    ("s-maxage = \"7\"", |directives| lower(directives, 7)),
    ("s-maxage=0", |directives| lower(directives, 0)),
    ("s-maxage=99999999999999999999", |directives| lower(directives, 1 << 31)),
    ("s-maxage", |directives| lower(directives, 0)),
    ("s-maxage=-1", |directives| lower(directives, 0)),
    ("s-maxage=5 6", |directives| lower(directives, 0)),
    ("s-maxage=\"5\"x", |directives| lower(directives, 0)),
    ("max-age=9", |_| {}),
    ("public", |_| {}),
    ("x-no-store", |_| {}),
    ("no-stores", |_| {}),
    ("no store", |_| {}),
    ("x=private", |_| {}),
    ("x=\"a, private, no-store\"", |_| {}),
    ("x=\"\\\", no-store, \\\"\"", |_| {}),
    ("\"no-store\"", |_| {}),
    ("", |_| {}),
];
const SEPARATORS: &[&str] = &[",", ", ", " , ", "\t,\t", ",,", "\n"];

fn lower(directives: &mut Directives, seconds: u64) {
    directives.must_revalidate = true;
    let lowest = directives.s_maxage.map_or(u64::MAX, |lowest| lowest.as_secs()).min(seconds);
    directives.s_maxage = Some(Duration::from_secs(lowest));
}

/// A `Cache-Control` with the lines of a text.
fn headers(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.lines() {
        headers.append(CACHE_CONTROL, HeaderValue::try_from(line).unwrap());
    }
    headers
}

fn parse(text: &str) -> Directives {
    Directives::parse(&headers(text))
}

#[test]
fn directives_are_those_that_the_field_was_made_from() {
    bolero::check!().with_type::<Vec<(u8, u8, bool)>>().with_iterations(ITERATIONS).for_each(|members| {
        let (mut field, mut expected) = (String::new(), Directives::default());
        for (member, separator, is_upper) in members {
            let (text, set) = pick(MEMBERS, *member);
            set(&mut expected);
            field += &if *is_upper { text.to_uppercase() } else { text.to_owned() };
            field += pick(SEPARATORS, *separator);
        }
        assert_eq!(parse(&field), expected, "{field:?}");
    });
}

#[test]
fn further_line_never_relaxes_directives() {
    const TOKENS: &[&str] =
        &["no-store", "private", "s-maxage", "only-if-cached", "=", ",", " ", "\"", "\\", "3", "x", ";"];
    bolero::check!().with_type::<(Vec<u8>, Vec<u8>)>().with_iterations(ITERATIONS).for_each(|(one, more)| {
        let (one, more) = (text(TOKENS, one), text(TOKENS, more));
        let (before, after) = (parse(&one), parse(&format!("{one}\n{more}")));
        assert_eq!(after, parse(&format!("{more}\n{one}")), "the order of lines has no meaning");
        for (before, after) in [
            (before.no_store, after.no_store),
            (before.private, after.private),
            (before.no_cache, after.no_cache),
            (before.must_revalidate, after.must_revalidate),
            (before.only_if_cached, after.only_if_cached),
        ] {
            assert!(after || !before, "{one:?} {more:?}");
        }
        let seconds = |directives: Directives| directives.s_maxage.unwrap_or(Duration::MAX);
        assert!(seconds(after) <= seconds(before), "{one:?} {more:?}");
    });
}

#[test]
fn both_profiles_read_the_same_directives() {
    const TOKENS: &[&str] = &[
        "no-store",
        "Private",
        "no-cache",
        "s-maxage",
        "only-if-cached",
        "must-revalidate",
        "=",
        ",",
        " ",
        "\"",
        "\\",
        "3",
        "x-a",
        ";",
        "\n",
    ];
    bolero::check!().with_type::<Vec<u8>>().with_iterations(ITERATIONS).for_each(|choices| {
        let text = text(TOKENS, choices);
        let (ours, headers) = (parse(&text), headers(&text));
        let response = ResponseDirectives::parse(&headers);
        assert_eq!(ours.no_store, response.no_store, "{text:?}");
        assert_eq!(ours.s_maxage, response.s_maxage, "{text:?}");
        let is_restricted = response.private || response.no_cache || !response.restricted_fields.is_empty();
        assert_eq!(ours.private || ours.no_cache, is_restricted, "{text:?}");
        let must_revalidate =
            response.must_revalidate || response.proxy_revalidate || response.s_maxage.is_some();
        assert_eq!(ours.must_revalidate, must_revalidate, "{text:?}");
        let request = RequestDirectives::parse(&headers);
        assert_eq!(
            (ours.no_store, ours.only_if_cached),
            (request.no_store, request.only_if_cached),
            "{text:?}"
        );
    });
}

#[test]
fn seconds_are_zero_or_their_digits() {
    bolero::check!().with_type::<Vec<u8>>().with_iterations(ITERATIONS).for_each(|choices| {
        let text = text(&["0", "1", "9", "4", "2", "\"", " ", "-", "+", "."], choices);
        let digits = match text.as_bytes() {
            [b'"', .., b'"'] if text.len() > 1 => &text[1..text.len() - 1],
            _ => &text,
        };
        let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
        let limited = digits.trim_start_matches('0').parse().unwrap_or(u64::MAX).min(1 << 31);
        let has_value = is_number && digits.contains(|digit| digit != '0');
        let expected = if has_value { limited } else { 0 };
        assert_eq!(delta_seconds(text.as_bytes()).as_secs(), expected, "{text:?}");
    });
}
