//! Memory: of an empty server, per entry over key and value, and after all entries were deleted; and the time from the start to
//! the first reply.

use super::bare_loop::VALUE_BYTES;
use super::subject::{Kind, start_all};
use crate::measure::rounds::Value;
use crate::suite::Findings;
use crate::tool::resident_bytes;
use anyhow::Result;
use indicatif::ProgressBar;
use std::thread::sleep;
use std::time::Duration;

const WORKLOAD: &str = "memory";
/// The length of a key.
const KEY_BYTES: usize = 16;
/// The figures: of values that are as long as keys, and of longer ones with a TTL.
pub(super) const SHORT: &str = "over 16+16";
pub(super) const TIMED: &str = "over 16+64 with TTL";
pub(super) const FLUSHED: &str = "after FLUSHALL";
/// What a server may take to give memory back.
const FLUSH_TIME: Duration = Duration::from_secs(5);

/// Fills two new processes of each server.
pub(super) fn measure(entries: u64, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message(WORKLOAD);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.is_cache()).collect();
    for (name, value_bytes, timed) in [(SHORT, KEY_BYTES, false), (TIMED, VALUE_BYTES, true)] {
        // The reasons why a server is missing are noted already.
        for subject in start_all(&kinds, &mut Vec::new()) {
            let empty = resident_bytes(subject.id());
            subject.fill_with(1, value_bytes, timed)?;
            // Without what the first command makes resident: pages of the program, which do not grow with the entries.
            let started = resident_bytes(subject.id());
            subject.fill_with(entries, value_bytes, timed)?;
            let grown = resident_bytes(subject.id()).saturating_sub(started) as f64;
            let per_entry = grown / entries as f64 - (KEY_BYTES + value_bytes) as f64;
            let mut values = vec![Value::low(name, "B/entry", per_entry)];
            if timed {
                subject.flush()?;
                sleep(FLUSH_TIME);
                values.push(Value::low(FLUSHED, "MB", resident_bytes(subject.id()) as f64 / 1e6));
                values.push(Value::low("start", "ms", subject.started_in.as_secs_f64() * 1e3));
                values.push(Value::low("empty", "MB", empty as f64 / 1e6));
            }
            findings
                .figures
                .extend(values.into_iter().map(|value| value.figure(WORKLOAD, subject.kind.name())));
            bar.tick();
        }
    }
    Ok(())
}
