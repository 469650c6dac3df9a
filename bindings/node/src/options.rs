//! Options as JavaScript gives them: an object whose times are milliseconds, or text with a unit.

use crate::js::{Env, Kind, Value};
use crate::raised::{Raised, Result};
use larder_host::{CallOption, CallOptions, ErrorClass, Spelling};
use larder_text::parse_time;
use std::time::Duration;

/// The options of an object, all of whose properties must be known. One that is `undefined` or `null` is as if it were not
/// there.
pub(crate) fn of<'s>(env: Env<'s>, object: Value<'s>) -> Result<CallOptions> {
    let mut options = CallOptions::default();
    match object.kind(env)? {
        Kind::Undefined | Kind::Null => return Ok(options),
        Kind::Object => {}
        _ => {
            let shown = object.shown(env);
            return Err(Raised::of(
                ErrorClass::Option,
                format!("the options are {shown}; they must be an object"),
            ));
        }
    }
    for name in object.names(env)?.elements(env)? {
        let value = object.property(env, name)?;
        if !matches!(value.kind(env)?, Kind::Undefined | Kind::Null) {
            let name = name.text(env)?.unwrap_or_default();
            set(&mut options, env, &name, value)?;
        }
    }
    Ok(options)
}

fn set<'s>(options: &mut CallOptions, env: Env<'s>, name: &str, value: Value<'s>) -> Result<()> {
    match CallOption::named(name, Spelling::Camel)? {
        CallOption::Time(option) => options.set_time(option, time(env, name, value)?),
        CallOption::Jitter => set_jitter(options, env, value)?,
        CallOption::RefreshAhead => options.set_refresh_ahead(&text_or_number(env, name, value)?)?,
        CallOption::Tags => options.tags = tags(env, value)?,
        CallOption::Refresh if value.kind(env)? == Kind::Boolean => options.refresh = value.boolean(env)?,
        CallOption::Refresh => {
            let shown = value.shown(env);
            return Err(Raised::of(
                ErrorClass::Option,
                format!("refresh is {shown}; it must be true or false"),
            ));
        }
    }
    Ok(())
}

/// A time: a number of milliseconds, or text with a unit.
pub(crate) fn time<'s>(env: Env<'s>, name: &str, value: Value<'s>) -> Result<Duration> {
    let time = match value.kind(env)? {
        Kind::Text => value.text(env)?.as_deref().and_then(parse_time),
        Kind::Number => Duration::try_from_secs_f64(value.number(env)? / 1_000.0).ok(),
        _ => None,
    };
    time.ok_or_else(|| {
        Raised::of(ErrorClass::Option, format!(
            "{name} is {}; it must be a number of milliseconds from 0, or a time such as \"250ms\", \"30s\" or \"5m\"",
            value.shown(env)
        ))
    })
}

fn set_jitter<'s>(options: &mut CallOptions, env: Env<'s>, value: Value<'s>) -> Result<()> {
    if value.kind(env)? == Kind::Number {
        return Ok(options.set_jitter(value.number(env)?)?);
    }
    let shown = value.shown(env);
    Err(Raised::of(ErrorClass::Option, format!("jitter is {shown}; it must be a number from 0 to 1")))
}

/// A text, or the text of a number.
fn text_or_number<'s>(env: Env<'s>, name: &str, value: Value<'s>) -> Result<String> {
    let text = match value.kind(env)? {
        Kind::Number => Some(value.number(env)?.to_string()),
        Kind::Text => value.text(env)?,
        _ => None,
    };
    text.ok_or_else(|| {
        let shown = value.shown(env);
        Raised::of(ErrorClass::Option, format!("{name} is {shown}; it must be a number or a text"))
    })
}

/// Tags: an array of texts. One text alone would be taken for its letters.
pub(crate) fn tags<'s>(env: Env<'s>, value: Value<'s>) -> Result<Vec<String>> {
    let refused = || {
        Raised::of(ErrorClass::Option, format!("tags is {}; it must be an array of texts", value.shown(env)))
    };
    if value.kind(env)? != Kind::Object || !value.is_array(env)? {
        return Err(refused());
    }
    let mut tags = Vec::new();
    for tag in value.elements(env)? {
        let text = if tag.kind(env)? == Kind::Text { tag.text(env)? } else { None };
        tags.push(text.ok_or_else(refused)?);
    }
    Ok(tags)
}
