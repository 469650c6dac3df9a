//! Document 1: responses from 0.2 KB to 212 MB, encoded for each request and from the response layer.
//!
//! | workload | meaning |
//! |---|---|
//! | `100-bytes` … `100-mb`, `large-item`, `large-items` | the routes of the document, asked by one client |
//! | the same with `-50` | asked by 50 clients at once, bodies up to 1 MB |
//!
//! Servers are threads of the bench with processor time of their own, as in the suite `http`. `at the server` is the time from
//! a request to its response, as in the log of the document; `at the server, first` that of the first request, which fills the
//! cache.

use super::rounds;
use crate::measure::interrupt;
use crate::measure::rounds::{self as runs, Value, record};
use crate::suite::http::hit_runners;
use crate::suite::{Findings, Plan};
use anyhow::Result;
use indicatif::ProgressBar;

/// The routes of the document, and the names of the bodies by the size of their JSON.
const ROUTES: [(&str, &str); 7] = [
    ("100-bytes", "0.2kb"),
    ("10-kb", "18kb"),
    ("100-kb", "167kb"),
    ("large-item", "0.6mb"),
    ("10-mb", "20mb"),
    ("large-items", "61mb"),
    ("100-mb", "212mb"),
];
/// Larger bodies are asked for by one client only: each client of 50 would hold a copy.
const MAX_SHARED: usize = 1 << 20;

pub(super) fn measure(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let bytes = if plan.quick { 8 << 20 } else { 400 << 20 };
    for (route, body) in ROUTES {
        if plan.quick && route == "100-mb" {
            findings.notes.push("The body of 212 MB is left out of a quick run.".to_owned());
            continue;
        }
        for clients in [1, 50] {
            if interrupt::is_requested() {
                findings.notes.push("Interrupted: the rest was not measured.".to_owned());
                return Ok(());
            }
            let workload = if clients == 1 { route.to_owned() } else { format!("{route}-{clients}") };
            let hits = hit_runners(body, clients, bytes)?;
            for (subject, time) in hits.first {
                let value = Value::low("at the server, first", "ms", time.as_secs_f64() * 1e3);
                record(&mut findings.figures, &workload, subject, value);
            }
            let mut runners = hits.runners;
            findings.figures.extend(runs::run(&workload, &mut runners, rounds(plan), bar)?);
            if hits.bytes > MAX_SHARED {
                break;
            }
        }
    }
    findings.notes.push(
        "The Elixir side is not run: Debian has neither Phoenix nor Absinthe, and its encoder would be compared, not its cache."
            .to_owned(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::documents::Document;

    #[test]
    fn counterparts_of_the_document_are_measured() {
        for (workload, subjects) in Document::read(1).unwrap().counterparts() {
            let is_route = ROUTES.iter().any(|(route, _)| *route == workload);
            assert!(is_route && ["larder", "no cache"].contains(&subjects[0]), "{workload}, {subjects:?}");
        }
    }
}
