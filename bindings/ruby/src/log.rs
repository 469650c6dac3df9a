//! The log of larder, for `Larder.logger`.

use crate::raised::Result;
use crate::ruby::Ruby;
use larder_host::{LogLevel, LogRecord, take_logs};

/// Writes what has come. Calls that wait do so after it.
#[inline]
pub(crate) fn write(ruby: Ruby<'_>) -> Result<()> {
    let records = take_logs();
    if records.is_empty() { Ok(()) } else { write_all(ruby, records) }
}

#[cold]
fn write_all(ruby: Ruby<'_>, records: Vec<LogRecord>) -> Result<()> {
    for record in records {
        let level = match record.level {
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        line(ruby, level, &record.message)?;
    }
    Ok(())
}

/// Writes a line. What the logger raises it reports itself.
pub(crate) fn line(ruby: Ruby<'_>, level: &str, message: &str) -> Result<()> {
    let line = [ruby.symbol(level), ruby.text(message)?];
    ruby.constant("Log")?.call(ruby, "write", &line).map(|_| ())
}
