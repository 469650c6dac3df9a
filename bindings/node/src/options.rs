//! Options as JavaScript gives them: an object whose times are milliseconds, or text with a unit.

use crate::js::{Env, Kind, Value};
use crate::raised::{Class, Result};
use larder::{Policy, WriteOptions};
use larder_text::{parse_time, similar};
use std::time::Duration;

/// The options of a call or of a view.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) policy: Policy,
    pub(crate) tags: Vec<String>,
    pub(crate) refresh: bool,
}

const NAMES: [&str; 9] =
    ["ttl", "negativeTtl", "grace", "retryAfter", "softTimeout", "hardTimeout", "jitter", "tags", "refresh"];

impl Options {
    /// Of an object, all of whose properties must be known. One that is `undefined` or `null` is as if it were not there.
    pub(crate) fn of<'s>(env: Env<'s>, object: Value<'s>) -> Result<Self> {
        let mut options = Options::default();
        match object.kind(env)? {
            Kind::Undefined | Kind::Null => return Ok(options),
            Kind::Object => {}
            _ => {
                let shown = object.shown(env);
                return Err(Class::Option.error(format!("the options are {shown}; they must be an object")));
            }
        }
        for name in object.names(env)?.elements(env)? {
            let value = object.property(env, name)?;
            if !matches!(value.kind(env)?, Kind::Undefined | Kind::Null) {
                let name = name.text(env)?.unwrap_or_default();
                options.set(env, &name, value)?;
            }
        }
        Ok(options)
    }

    fn set<'s>(&mut self, env: Env<'s>, name: &str, value: Value<'s>) -> Result<()> {
        let time = || time(env, name, value);
        let policy = self.policy;
        self.policy = match name {
            "ttl" => policy.ttl(time()?),
            "negativeTtl" => policy.negative_ttl(time()?),
            "grace" => policy.grace(time()?),
            "retryAfter" => policy.retry_after(time()?),
            "softTimeout" => policy.soft_timeout(time()?),
            "hardTimeout" => policy.hard_timeout(time()?),
            "jitter" => policy.jitter(jitter(env, value)?),
            "tags" => {
                self.tags = tags(env, value)?;
                policy
            }
            "refresh" => {
                if value.kind(env)? != Kind::Boolean {
                    let shown = value.shown(env);
                    return Err(Class::Option.error(format!("refresh is {shown}; it must be true or false")));
                }
                self.refresh = value.boolean(env)?;
                policy
            }
            _ => return Err(Class::Option.error(unknown(name))),
        };
        Ok(())
    }

    pub(crate) fn for_write(&self) -> WriteOptions {
        self.tags.iter().fold(WriteOptions::new().policy(self.policy), WriteOptions::tag)
    }
}

fn unknown(name: &str) -> String {
    let known = NAMES.map(str::to_ascii_lowercase);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let meant = similar(name, &known).first().and_then(|meant| known.iter().position(|known| known == meant));
    let meant = meant.map_or(String::new(), |at| format!("; did you mean {}?", NAMES[at]));
    format!("there is no option {name:?}{meant}")
}

/// A time: a number of milliseconds, or text with a unit.
pub(crate) fn time<'s>(env: Env<'s>, name: &str, value: Value<'s>) -> Result<Duration> {
    let time = match value.kind(env)? {
        Kind::Text => value.text(env)?.as_deref().and_then(parse_time),
        Kind::Number => Duration::try_from_secs_f64(value.number(env)? / 1_000.0).ok(),
        _ => None,
    };
    time.ok_or_else(|| {
        Class::Option.error(format!(
            "{name} is {}; it must be a number of milliseconds from 0, or a time such as \"250ms\", \"30s\" or \"5m\"",
            value.shown(env)
        ))
    })
}

/// A share of the TTL.
fn jitter<'s>(env: Env<'s>, value: Value<'s>) -> Result<f32> {
    let jitter = if value.kind(env)? == Kind::Number { Some(value.number(env)?) } else { None };
    let jitter = jitter.filter(|jitter| (0.0..=1.0).contains(jitter)).map(|jitter| jitter as f32);
    jitter.ok_or_else(|| {
        Class::Option.error(format!("jitter is {}; it must be a number from 0 to 1", value.shown(env)))
    })
}

/// Tags: an array of texts. One text alone would be taken for its letters.
pub(crate) fn tags<'s>(env: Env<'s>, value: Value<'s>) -> Result<Vec<String>> {
    let refused =
        || Class::Option.error(format!("tags is {}; it must be an array of texts", value.shown(env)));
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
