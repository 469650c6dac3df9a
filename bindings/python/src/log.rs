//! The log of larder, for the logger `larder_cache` of Python.

use larder_host::{LogLevel, take_logs};
use pyo3::prelude::*;

/// Writes what has come. A thread that has the lock of the interpreter calls it often.
#[inline]
pub(crate) fn write(py: Python<'_>) {
    let records = take_logs();
    if !records.is_empty() {
        // What a logger raises, `logging` reports itself.
        _ = log(py, records);
    }
}

#[cold]
fn log(py: Python<'_>, records: Vec<larder_host::LogRecord>) -> PyResult<()> {
    let logger = logger(py)?;
    for record in records {
        let level = match record.level {
            LogLevel::Info => "info",
            LogLevel::Warn => "warning",
            LogLevel::Error => "error",
        };
        logger.call_method1(level, ("%s", record.message))?;
    }
    Ok(())
}

pub(crate) fn logger(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("logging")?.call_method1("getLogger", ("larder_cache",))
}
