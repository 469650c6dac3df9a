//! The log of larder, for `Logger`.

use crate::erl::nif::Call;
use crate::erl::{Term, atom};
use crate::raised::Result;
use larder_host::{LogLevel, LogRecord, take_logs};

/// `take_logs()`: the records that have come, as pairs of a level and a text.
pub(crate) fn take<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let env = call.env;
    Ok(env.list(take_logs().into_iter().map(|LogRecord { level, message }| {
        let level = match level {
            LogLevel::Info => &atom::INFO,
            LogLevel::Warn => &atom::WARNING,
            LogLevel::Error => &atom::ERROR,
        };
        env.tuple([env.atom(level), env.binary(message.as_bytes())])
    })))
}
