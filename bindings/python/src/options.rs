//! Options as Python gives them: keyword arguments whose times are seconds, `timedelta`, or text with a unit.

use crate::raised::OptionError;
use larder::{Policy, WriteOptions};
use larder_text::parse_time;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDict, PyString};
use std::time::Duration;

/// The options of a call or of a view.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) policy: Policy,
    pub(crate) tags: Vec<String>,
    pub(crate) refresh: bool,
}

impl Options {
    /// Of keyword arguments, all of which must be known.
    pub(crate) fn of(words: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut options = Options::default();
        let Some(words) = words else { return Ok(options) };
        for (name, value) in words {
            let name = name.cast::<PyString>()?.to_str()?;
            if !value.is_none() {
                options.set(name, &value)?;
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let time = || time(name, value);
        let policy = self.policy;
        self.policy = match name {
            "ttl" => policy.ttl(time()?),
            "negative_ttl" => policy.negative_ttl(time()?),
            "grace" => policy.grace(time()?),
            "retry_after" => policy.retry_after(time()?),
            "soft_timeout" => policy.soft_timeout(time()?),
            "hard_timeout" => policy.hard_timeout(time()?),
            "jitter" => policy.jitter(value.extract()?),
            "tags" => {
                self.tags = tags(value)?;
                policy
            }
            "refresh" => {
                self.refresh = value.extract()?;
                policy
            }
            _ => return Err(OptionError::new_err(format!("there is no option {name:?}"))),
        };
        Ok(())
    }

    pub(crate) fn for_write(&self) -> WriteOptions {
        self.tags.iter().fold(WriteOptions::new().policy(self.policy), WriteOptions::tag)
    }
}

/// A time: a number of seconds, a `timedelta`, or text with a unit.
pub(crate) fn time(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let time = if let Ok(text) = value.cast::<PyString>() {
        parse_time(text.to_str()?)
    } else if value.is_instance_of::<PyBool>() {
        None
    } else if let Ok(delta) = value.cast::<PyDelta>() {
        Duration::try_from_secs_f64(delta.call_method0("total_seconds")?.extract()?).ok()
    } else {
        value.extract().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    };
    time.ok_or_else(|| {
        let shown = value.repr().map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
        OptionError::new_err(format!(
            "{name} is {shown}; it must be a number of seconds from 0, a timedelta, or a time such as '250ms', '30s' or '5m'"
        ))
    })
}

/// The names of the options of a cache that are times.
#[pyfunction]
pub(crate) fn time_options() -> Vec<&'static str> {
    let options = larder::Builder::options().iter();
    options.filter(|option| option.takes() == "a time").map(larder::BuilderOption::name).collect()
}

/// Tags: an iterable of text. One text alone would be taken for its letters.
fn tags(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let tags = match value.try_iter() {
        Ok(tags) if !value.is_instance_of::<PyString>() => tags.map(|tag| tag?.extract()).collect(),
        _ => Err(OptionError::new_err("")),
    };
    tags.map_err(|_: PyErr| {
        let shown = value.repr().map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
        OptionError::new_err(format!("tags is {shown}; it must be a list of texts"))
    })
}
