//! Memory: of an empty server, and per entry over key and value; and the time from the start to the first reply.

use super::subject::{Kind, start_all};
use crate::rounds::Value;
use crate::suite::Findings;
use crate::tool::resident_bytes;
use anyhow::Result;
use indicatif::ProgressBar;

const WORKLOAD: &str = "memory";
/// The lengths of a key and of a value.
const KEY_BYTES: usize = 16;
const ENTRY_VALUE_BYTES: usize = 64;
/// Entries that are stored in one pipeline.
const BATCH: u64 = 1_000;

/// Fills a new process of each server once.
pub(super) fn measure(entries: u64, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message(WORKLOAD);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.is_cache()).collect();
    // The reasons why a server is missing are noted already.
    for subject in start_all(&kinds, &mut Vec::new()) {
        let empty = resident_bytes(subject.id());
        let value = "v".repeat(ENTRY_VALUE_BYTES);
        for first in (0..entries).step_by(BATCH as usize) {
            let pairs: Vec<_> =
                (first..first + BATCH).map(|n| (format!("{n:0KEY_BYTES$}"), value.as_str())).collect();
            subject.set(&pairs)?;
        }
        let grown = resident_bytes(subject.id()).saturating_sub(empty) as f64;
        let per_entry = grown / entries as f64 - (KEY_BYTES + ENTRY_VALUE_BYTES) as f64;
        for value in [
            Value::low("start", "ms", subject.started_in.as_secs_f64() * 1e3),
            Value::low("empty", "MB", empty as f64 / 1e6),
            Value::low("over key and value", "B/entry", per_entry),
        ] {
            findings.figures.push(value.figure(WORKLOAD, subject.kind.name()));
        }
        bar.tick();
    }
    Ok(())
}
