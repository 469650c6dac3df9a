//! Options as Python gives them: keyword arguments whose times are seconds, `timedelta`, or text with a unit.

use crate::raised::{OptionError, of_host};
use larder_host::{CallOption, CallOptions, Spelling};
use larder_text::parse_time;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDict, PyString};
use std::time::Duration;

/// The options of keyword arguments, all of which must be known. One that is `None` is as if it were not there.
pub(crate) fn of(words: Option<&Bound<'_, PyDict>>) -> PyResult<CallOptions> {
    let mut options = CallOptions::default();
    let Some(words) = words else { return Ok(options) };
    for (name, value) in words {
        let name = name.cast::<PyString>()?.to_str()?;
        if !value.is_none() {
            set(&mut options, name, &value)?;
        }
    }
    Ok(options)
}

fn set(options: &mut CallOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match CallOption::named(name, Spelling::Snake).map_err(of_host)? {
        CallOption::Time(option) => options.set_time(option, time(name, value)?),
        CallOption::Jitter => options.set_jitter(value.extract()?).map_err(of_host)?,
        CallOption::RefreshAhead => {
            // A number as text is the same.
            options.set_refresh_ahead(value.str()?.to_str()?).map_err(of_host)?;
        }
        CallOption::Tags => options.tags = tags(value)?,
        CallOption::Refresh => options.refresh = value.extract()?,
    }
    Ok(())
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
    larder_host::time_options().collect()
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
