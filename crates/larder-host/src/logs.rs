//! The log of larder for the logger of a host: records in a bounded queue, which the host takes on a thread of its own.

use crate::process::PerProcess;
use std::convert::Infallible;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber, span};

/// The most records that wait. What comes then is counted.
const MAX_RECORDS: usize = 256;
/// The crates whose log it is: those that are called after it.
const TARGET: &str = "larder";

/// How important a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What an operator may want to know.
    Info,
    /// Something does not work, and the cache goes on.
    Warn,
    /// A fault in larder or in a function of its user.
    Error,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its level.
    pub level: LogLevel,
    /// What happened, with the values that belong to it: `request to redis failed error=…`. It has no secrets.
    pub message: String,
}

/// The records of this process. A lock that another thread has while the process forks is that of the parent.
static QUEUE: PerProcess<Mutex<Queue>> = PerProcess::new();
/// Whether there are any: most calls find none. In a child it may be that of the parent, once.
static HAS_RECORDS: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Queue {
    records: Vec<LogRecord>,
    dropped: u64,
}

fn queue() -> MutexGuard<'static, Queue> {
    let Ok(queue) = QUEUE.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Collects the log from now on, from [`LogLevel::Info`] on. Returns whether this is what does so: a program has one
/// subscriber of `tracing`, and another one may be set already.
///
/// # Examples
/// ```
/// use larder_host::{collect_logs, take_logs};
///
/// assert!(collect_logs());
/// assert_eq!(take_logs(), []);
/// ```
pub fn collect_logs() -> bool {
    tracing::subscriber::set_global_default(Collector).is_ok()
}

/// Takes the records that have come, in their order. Where there were too many the last record says how many are missing.
///
/// Cost where there are none: one load. Call it often, on a thread that may call the logger of the host.
#[inline]
pub fn take_logs() -> Vec<LogRecord> {
    if HAS_RECORDS.load(Ordering::Acquire) { take() } else { Vec::new() }
}

#[cold]
fn take() -> Vec<LogRecord> {
    let mut queue = queue();
    HAS_RECORDS.store(false, Ordering::Release);
    let Queue { mut records, dropped } = std::mem::take(&mut *queue);
    drop(queue);
    if dropped > 0 {
        let message = format!("{dropped} more records of the log were dropped: nobody took them");
        records.push(LogRecord { level: LogLevel::Warn, message });
    }
    records
}

struct Collector;

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span()
            && metadata.target().starts_with(TARGET)
            && *metadata.level() <= tracing::Level::INFO
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => LogLevel::Error,
            tracing::Level::WARN => LogLevel::Warn,
            _ => LogLevel::Info,
        };
        let mut text = Text::default();
        event.record(&mut text);
        let mut queue = queue();
        if queue.records.len() < MAX_RECORDS {
            queue.records.push(LogRecord { level, message: text.message + &text.fields });
        } else {
            queue.dropped += 1;
        }
        HAS_RECORDS.store(true, Ordering::Release);
    }

    // Spans are not enabled.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The text of an event: its message, and its fields behind that.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the subscriber is that of the whole process.
    #[test]
    fn records_of_larder_are_collected_within_their_bound() {
        assert!(collect_logs());
        assert!(!collect_logs(), "there is one already");
        tracing::warn!(target: "larder::tier", error = "away", retries = 3, "request to redis failed");
        tracing::info!(target: "another", "not ours");
        tracing::debug!(target: "larder", "too much");
        let expected = LogRecord {
            level: LogLevel::Warn,
            message: "request to redis failed error=away retries=3".into(),
        };
        assert_eq!(take_logs(), [expected]);
        assert_eq!(take_logs(), []);
        for number in 0..MAX_RECORDS + 5 {
            tracing::info!(target: "larder", number);
        }
        let taken = take_logs();
        assert_eq!((taken.len(), &taken[1].message[..]), (MAX_RECORDS + 1, " number=1"));
        assert_eq!(taken[MAX_RECORDS].message, "5 more records of the log were dropped: nobody took them");
    }
}
