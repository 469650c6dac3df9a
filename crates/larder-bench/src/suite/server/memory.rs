//! Memory: of an empty server, and per entry over key and value; and the time from the start to the first reply.

use super::bare_loop::VALUE_BYTES;
use super::subject::{Kind, start_all};
use crate::rounds::Value;
use crate::suite::Findings;
use crate::tool::resident_bytes;
use anyhow::Result;
use indicatif::ProgressBar;

const WORKLOAD: &str = "memory";
/// The length of a key.
const KEY_BYTES: usize = 16;

/// Fills a new process of each server once.
pub(super) fn measure(entries: u64, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message(WORKLOAD);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.is_cache()).collect();
    // The reasons why a server is missing are noted already.
    for subject in start_all(&kinds, &mut Vec::new()) {
        let empty = resident_bytes(subject.id());
        subject.fill(entries)?;
        let grown = resident_bytes(subject.id()).saturating_sub(empty) as f64;
        let per_entry = grown / entries as f64 - (KEY_BYTES + VALUE_BYTES) as f64;
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
