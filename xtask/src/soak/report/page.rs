//! The page with the charts and tables of all runs: `report.html`, one file that works offline.

use super::judgement::{DESCRIPTOR_LIMIT, Growth, MEMORY_LIMIT, MIN_HOURS, WARM_UP};
use super::plot::{Chart, Line};
use super::samples::{Sample, Samples};
use super::table;
use crate::soak::fleet::{Figures, HELD};
use crate::soak::tally::Kind;
use anyhow::{Context, Result};
use std::path::Path;

/// The kinds of requests whose latencies are in one chart.
const LINKS: [Kind; 4] = [Kind::Redirect, Kind::Create, Kind::Update, Kind::Delete];
const PAGES: [Kind; 3] = [Kind::Page, Kind::Purge, Kind::Metrics];
const KEYS: [Kind; 5] = [Kind::Get, Kind::Set, Kind::Incr, Kind::List, Kind::Hash];

const STYLE: &str = "body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; margin: 2em auto; color: #222 }
svg { width: 100%; font: 11px system-ui, sans-serif; margin-top: 1em }
svg path { fill: none; stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round }
.title { font-size: 14px; font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #ddd } .run { stroke: #888; stroke-dasharray: 4 3 } .fault { fill: #fbe3d6 }
table { border-collapse: collapse; margin: 1em 0 } th, td { text-align: right; padding: 2px 9px; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left } .failure { color: #b00020 }";

/// Writes the page.
pub(crate) fn write(
    path: &Path,
    samples: &Samples,
    growth: &[Growth],
    run: u64,
    failures: &[String],
) -> Result<()> {
    std::fs::write(path, page(samples, growth, run, failures))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn page(samples: &Samples, growth: &[Growth], run: u64, failures: &[String]) -> String {
    let hours = samples.hours();
    let faults = faults(samples, &hours);
    let begins = |index: &usize| *index == 0 || samples.all[*index].run != samples.all[*index - 1].run;
    let before = |index: usize| index.checked_sub(1).map_or(0.0, |before| hours[before]);
    let runs: Vec<f64> = (0..hours.len()).filter(begins).map(before).collect();
    let chart = |title, is_logarithmic, lines| {
        Chart { title, is_logarithmic, lines, faults: &faults, runs: &runs }.svg()
    };
    let process = |value: fn(&Figures) -> f64| process_lines(samples, &hours, growth, value);
    let p99 = |kinds: &[Kind]| kinds.iter().map(|kind| p99_line(samples, &hours, *kind)).collect();
    let sum = |name: &str, value: fn(&Sample) -> u64| {
        let points = samples.all.iter().zip(&hours).map(|(sample, hour)| (*hour, Some(value(sample) as f64)));
        Line { name: name.to_owned(), points: points.collect() }
    };
    let errors = vec![
        sum("no fault", |sample| sample.kinds.iter().map(|(_, kind)| kind.errors).sum()),
        sum("in faults", |sample| sample.kinds.iter().map(|(_, kind)| kind.fault_errors).sum()),
    ];
    let answers = vec![
        sum("old in faults", |sample| sample.answers.excused),
        sum("stale", |sample| sample.answers.stale),
    ];
    let charts = [
        chart(
            "anonymous memory, MiB",
            false,
            process(|figures| figures.anonymous_bytes as f64 / f64::from(1 << 20)),
        ),
        chart("open descriptors", false, process(|figures| figures.descriptors as f64)),
        chart("threads", false, process(|figures| figures.threads as f64)),
        chart("p99 of links, ms, of samples without a fault", true, p99(&LINKS)),
        chart("p99 of pages and metrics, ms, of samples without a fault", true, p99(&PAGES)),
        chart("p99 of the cache server, ms, of samples without a fault", true, p99(&KEYS)),
        chart("errors of each sample", false, errors),
        chart("old answers of each sample", false, answers),
    ];
    let failures: String = failures.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
    let failures = match failures.as_str() {
        "" => "<p>This run has no failure.</p>".to_owned(),
        list => format!("<p class=\"failure\">Failures of this run:</p>\n<ul class=\"failure\">{list}</ul>"),
    };
    let limits = format!(
        "Slopes are by least squares, ± three times their error, without the first {:.0} minutes of each process, whose \
         level is its own. They are judged from {MIN_HOURS} hours on: accepted are {:.0} MiB of anonymous memory and \
         {DESCRIPTOR_LIMIT} descriptors an hour beyond the error. {} run from the beginning to the end; faults end the others. Shaded: samples with a fault. \
         Dashed: the beginning of a run.",
        WARM_UP / 60.0,
        MEMORY_LIMIT / f64::from(1 << 20),
        HELD.join(" and "),
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Soak of Larder</title>\n<style>{STYLE}</style>\n\
         <h1>Soak of Larder</h1>\n<p>{}</p>\n{failures}\n{}{}<p>{limits}</p>\n{}</html>\n",
        table::sums(samples, run).join("<br>\n"),
        table::processes(samples, growth).html(),
        table::kinds(samples).html(),
        charts.concat(),
    )
}

/// The hours of consecutive samples with a fault.
fn faults(samples: &Samples, hours: &[f64]) -> Vec<(f64, f64)> {
    let mut faults: Vec<(f64, f64)> = Vec::new();
    for index in (0..hours.len()).filter(|index| samples.all[*index].is_fault) {
        let before = if index == 0 { 0.0 } else { hours[index - 1] };
        match faults.last_mut() {
            Some((_, end)) if *end == before => *end = hours[index],
            _ => faults.push((before, hours[index])),
        }
    }
    faults
}

/// A line for each process. It has a gap where a fault had stopped the process.
fn process_lines(
    samples: &Samples,
    hours: &[f64],
    growth: &[Growth],
    value: fn(&Figures) -> f64,
) -> Vec<Line> {
    let line = |growth: &Growth| {
        let value_of = |sample: &Sample| {
            let found = sample.processes.iter().find(|(name, _)| *name == growth.name);
            found.map(|(_, figures)| value(figures))
        };
        let points = samples.all.iter().zip(hours).map(|(sample, hour)| (*hour, value_of(sample)));
        Line { name: growth.name.clone(), points: points.collect() }
    };
    growth.iter().map(line).collect()
}

/// The p99 of a kind of requests, in milliseconds.
fn p99_line(samples: &Samples, hours: &[f64], kind: Kind) -> Line {
    let value = |sample: &Sample| {
        let found = sample.kinds.iter().find(|(name, _)| name == kind.name());
        found.and_then(|(_, figures)| Some(figures.p99_us? as f64 / 1e3))
    };
    let points = samples.all.iter().zip(hours).map(|(sample, hour)| (*hour, value(sample)));
    Line { name: kind.name().to_owned(), points: points.collect() }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::judgement::growth;
    use super::super::samples::tests::sample;
    use super::*;

    #[test]
    fn page_has_charts_tables_and_failures() {
        let path = std::env::temp_dir().join(format!("larder-soak-page-{}", std::process::id()));
        let mut samples = Samples::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        samples.all.extend([
            sample(1, 10.0, 1, 4 << 20),
            sample(1, 20.0, 1, 5 << 20),
            sample(2, 10.0, 2, 4 << 20),
        ]);
        samples.all[1].is_fault = true;
        let hours = samples.hours();
        assert_eq!(faults(&samples, &hours), [(hours[0], hours[1])]);
        let page = page(&samples, &growth(&samples), 2, &["a <b>".to_owned()]);
        assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (8, 8));
        assert!(page.contains("<li>a &lt;b&gt;</li>") && page.contains("<td>up-1</td>"));
        assert!(page.contains("30 answers judged, 3 of them old because of a fault, 0 stale"), "{page}");
    }
}
