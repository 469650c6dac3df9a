//! Options as Elixir gives them: keyword lists, whose times are milliseconds or text with a unit.

use crate::erl::{Kind, Term};
use crate::raised::{Raised, Result};
use larder_host::{CallOption, CallOptions, Spelling, time_options};
use larder_text::parse_time;
use std::time::Duration;

/// The options of a call or of a view. One that is `nil` is as if it were not there.
pub(crate) fn call_options(list: Term<'_>) -> Result<CallOptions> {
    let mut options = CallOptions::default();
    for (name, value) in pairs(list)? {
        match CallOption::named(&name, Spelling::Snake)? {
            CallOption::Time(option) => options.set_time(option, time(&name, value)?),
            CallOption::Jitter => options.set_jitter(number(value)?)?,
            CallOption::RefreshAhead => options.set_refresh_ahead(&when(&name, value)?)?,
            CallOption::Tags => options.tags = tags(value)?,
            CallOption::Refresh => options.refresh = boolean("refresh", value)?,
        }
    }
    Ok(options)
}

/// The options of what a loader has loaded.
pub(crate) struct LoadedOptions {
    pub(crate) ttl: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) tags: Vec<String>,
    /// Whether a tier keeps it.
    pub(crate) store: bool,
}

/// The options of what a loader has loaded.
pub(crate) fn loaded_options(list: Term<'_>) -> Result<LoadedOptions> {
    let mut options = LoadedOptions { ttl: None, grace: None, tags: Vec::new(), store: true };
    for (name, value) in pairs(list)? {
        match &name[..] {
            "ttl" => options.ttl = Some(time("ttl", value)?),
            "grace" => options.grace = Some(time("grace", value)?),
            "tags" => options.tags = tags(value)?,
            "store" => options.store = boolean("store", value)?,
            _ => {
                let message =
                    format!("a loaded value has no option {name:?}; it has ttl, grace, tags and store");
                return Err(Raised::option(message));
            }
        }
    }
    Ok(options)
}

/// The options of a cache, as texts.
pub(crate) fn cache_options(list: Term<'_>) -> Result<Vec<(String, String)>> {
    let text = |(name, value): (String, Term<'_>)| {
        let text = match (value.kind(), value.text()) {
            (Kind::Integer, _) if time_options().any(|known| known == name) => format!("{}ms", value.shown()),
            (Kind::Bitstring, Some(text)) => text.to_owned(),
            (Kind::Integer | Kind::Float, _) => value.shown(),
            (Kind::Atom, _) => value.atom_text().unwrap_or_default(),
            _ => {
                let shown = value.shown();
                return Err(Raised::option(format!(
                    "{name} is {shown}; it must be a text, a number or an atom"
                )));
            }
        };
        Ok((name, text))
    };
    pairs(list)?.into_iter().map(text).collect()
}

/// The options that are not `nil`, by their names.
fn pairs(list: Term<'_>) -> Result<Vec<(String, Term<'_>)>> {
    let refused = || Raised::option(format!("the options are {}; they must be a keyword list", list.shown()));
    let length = list.list_length().ok_or_else(refused)?;
    let mut pairs = Vec::with_capacity(length);
    for pair in list.elements() {
        let [name, value] = pair.tuple().ok_or_else(refused)?;
        let name = name.atom_text().ok_or_else(refused)?;
        if !value.is_nil() {
            pairs.push((name, value));
        }
    }
    Ok(pairs)
}

/// A time: an integer of milliseconds, or text with a unit.
pub(crate) fn time(name: &str, value: Term<'_>) -> Result<Duration> {
    let time = match value.kind() {
        Kind::Bitstring => value.text().and_then(parse_time),
        Kind::Integer => value.unsigned().map(Duration::from_millis),
        _ => None,
    };
    time.ok_or_else(|| {
        Raised::option(format!(
            "{name} is {}; it must be a number of milliseconds from 0, or a time such as \"250ms\", \"30s\" or \"5m\"",
            value.shown()
        ))
    })
}

fn number(value: Term<'_>) -> Result<f64> {
    let number = value.float().or_else(|| value.integer().map(|number| number as f64));
    number.ok_or_else(|| {
        Raised::option(format!("jitter is {}; it must be a number from 0 to 1", value.shown()))
    })
}

/// A text or an atom, or the text of a number.
fn when(name: &str, value: Term<'_>) -> Result<String> {
    let number = || value.float().or_else(|| value.integer().map(|number| number as f64));
    let text = value.text().map(str::to_owned).or_else(|| value.atom_text());
    text.or_else(|| number().map(|number| number.to_string())).ok_or_else(|| {
        let shown = value.shown();
        Raised::option(format!("{name} is {shown}; it must be a number from 0 to 1, :by_cost or :never"))
    })
}

fn boolean(name: &str, value: Term<'_>) -> Result<bool> {
    value
        .boolean()
        .ok_or_else(|| Raised::option(format!("{name} is {}; it must be true or false", value.shown())))
}

/// Tags: a list of texts.
pub(crate) fn tags(value: Term<'_>) -> Result<Vec<String>> {
    let refused = || Raised::option(format!("tags is {}; it must be a list of texts", value.shown()));
    value.list_length().ok_or_else(refused)?;
    value.elements().map(|tag| tag.text().map(str::to_owned).ok_or_else(refused)).collect()
}

/// A text, or an error that names what it is not.
pub(crate) fn text(value: Term<'_>, name: &str) -> Result<String> {
    let text = value.text().map(str::to_owned);
    text.ok_or_else(|| Raised::option(format!("{name} is {}; it must be a text", value.shown())))
}

/// An integer of 64 bits.
pub(crate) fn integer(value: Term<'_>, name: &str) -> Result<i64> {
    value.integer().ok_or_else(|| {
        Raised::option(format!("{name} is {}; it must be an integer of 64 bits", value.shown()))
    })
}
