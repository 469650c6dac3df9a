//! Options as Ruby gives them: hashes whose times are numbers of seconds, durations, or text with a unit.

use crate::raised::{Raised, Result};
use crate::ruby::method::Arguments;
use crate::ruby::value::{Integer, Kind};
use crate::ruby::{Ruby, Value};
use larder_host::{CallOption, CallOptions, ErrorClass, Spelling};
use larder_text::parse_time;
use std::time::Duration;

fn refused(message: String) -> Raised {
    Raised::new(ErrorClass::Option, message)
}

/// Of a hash, all of whose names must be known; `nil` is none.
pub(crate) fn call_options<'r>(ruby: Ruby<'r>, words: Value<'r>) -> Result<CallOptions> {
    let mut options = CallOptions::default();
    if words.kind() != Kind::Hash {
        return Ok(options);
    }
    for (name, value) in words.pairs() {
        if value.is_nil() {
            continue;
        }
        let name = text(ruby, name, "the name of an option")?;
        match CallOption::named(&name, Spelling::Snake)? {
            CallOption::Time(option) => options.set_time(option, time(ruby, &name, value)?),
            CallOption::Jitter => {
                let Some(share) = number(ruby, value)? else {
                    let shown = value.shown(ruby)?;
                    return Err(refused(format!("{name} is {shown}; it must be a number from 0 to 1")));
                };
                options.set_jitter(share)?;
            }
            CallOption::RefreshAhead => {
                let number = number(ruby, value)?.map(|number| number.to_string());
                let when = number.map_or_else(|| text(ruby, value, &name), Ok)?;
                options.set_refresh_ahead(&when)?;
            }
            CallOption::Tags => options.tags = tags(ruby, value)?,
            CallOption::Refresh => options.refresh = value.is_true(),
        }
    }
    Ok(options)
}

/// A time: a number of seconds, a duration, or text with a unit.
pub(crate) fn time<'r>(ruby: Ruby<'r>, name: &str, value: Value<'r>) -> Result<Duration> {
    let time = match value.text() {
        Some(text) => parse_time(&text),
        None => number(ruby, value)?.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    };
    match time {
        Some(time) => Ok(time),
        None => {
            let shown = value.shown(ruby)?;
            Err(refused(format!(
                "{name} is {shown}; it must be a number of seconds from 0, a duration, or a time such as \"250ms\", \"30s\" or \
                 \"5m\""
            )))
        }
    }
}

/// A number, also of a class that says it is one, as the durations of Rails do.
fn number<'r>(ruby: Ruby<'r>, value: Value<'r>) -> Result<Option<f64>> {
    match value.kind() {
        Kind::Float => Ok(Some(value.to_float())),
        Kind::Integer => Ok(match value.to_integer() {
            Integer::Signed(number) => Some(number as f64),
            Integer::Unsigned(number) => Some(number as f64),
            Integer::Large => None,
        }),
        Kind::Other if value.call(ruby, "is_a?", &[ruby.numeric()])?.is_true() => {
            let number = value.call(ruby, "to_f", &[])?;
            Ok((number.kind() == Kind::Float).then(|| number.to_float()))
        }
        _ => Ok(None),
    }
}

/// Tags: an array of text, or what has one. One text alone would be taken for a list of one.
pub(crate) fn tags<'r>(ruby: Ruby<'r>, value: Value<'r>) -> Result<Vec<String>> {
    let wrong = || -> Result<Raised> {
        Ok(refused(format!("tags is {}; it must be an array of texts", value.shown(ruby)?)))
    };
    let list = match value.kind() {
        Kind::Array => value,
        Kind::Other => match value.try_call(ruby, "to_a", &[])? {
            Ok(list) if list.kind() == Kind::Array => list,
            _ => return Err(wrong()?),
        },
        _ => return Err(wrong()?),
    };
    let mut tags = Vec::new();
    for index in 0..list.length(ruby)? {
        match text_or_name(ruby, list.element(index))? {
            Some(tag) => tags.push(tag),
            None => return Err(wrong()?),
        }
    }
    Ok(tags)
}

/// The text of a string or a symbol.
fn text_or_name<'r>(ruby: Ruby<'r>, value: Value<'r>) -> Result<Option<String>> {
    match value.kind() {
        Kind::Symbol => Ok(value.name(ruby)?.text()),
        _ => Ok(value.text()),
    }
}

/// The text of a string or a symbol, or an error that names what it is not.
pub(crate) fn text<'r>(ruby: Ruby<'r>, value: Value<'r>, name: &str) -> Result<String> {
    match text_or_name(ruby, value)? {
        Some(text) => Ok(text),
        None => Err(refused(format!("{name} is {}; it must be a text", value.shown(ruby)?))),
    }
}

/// `Larder._time_options`: the names of the options of a cache that are times.
pub(crate) fn time_options<'r>(ruby: Ruby<'r>, _: Arguments<'r>) -> Result<Value<'r>> {
    let list = ruby.array(&[])?;
    for name in larder_host::time_options() {
        ruby.push(list, ruby.symbol(name))?;
    }
    Ok(list)
}
