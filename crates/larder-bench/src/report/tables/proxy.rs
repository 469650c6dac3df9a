//! The tables of the suite `proxy`: what a response costs each proxy, and how many tests of http-cache-tests each passes.

use crate::result::text::{format_number, format_spread};
use crate::result::{Relation, ResultFile, Spread};
use anyhow::{Context, Result};
use std::fmt::Write;

const SUITE: &str = "proxy";
const OURS: &str = "larder";
/// The peers that ours is divided by.
const RIVALS: [&str; 2] = ["nginx", "varnish"];
/// The rows: workload, measure, and what it is.
const ROWS: [(&str, &str, &str); 10] = [
    ("hit-1kib", "cpu", "hit of 1 KiB, processor time"),
    ("hit-100kib", "cpu", "hit of 100 KiB, processor time"),
    ("hit-10mib", "cpu", "hit of 10 MiB, processor time"),
    ("miss-1kib", "cpu", "stored miss of 1 KiB, processor time"),
    ("hit-1kib-tls", "cpu", "hit of 1 KiB over TLS, processor time"),
    ("hit-1kib-h2", "cpu", "hit of 1 KiB over TLS and HTTP/2, processor time"),
    ("hit-1kib", "p99", "hit of 1 KiB, 99th percentile"),
    ("hit-1kib-stalls", "p99", "the same while the origin stalls for others"),
    ("hit-1kib", "rate", "hits of 1 KiB in a second"),
    ("idle", "memory", "memory of an idle connection"),
];
/// The programs of the proxies, whose versions are recorded.
const PROGRAMS: [(&str, &str); 6] = [
    (OURS, "larder-proxy"),
    ("nginx", "nginx"),
    ("varnish", "varnishd"),
    ("httpd", "apache2"),
    ("squid", "squid"),
    ("traffic server", "traffic_server"),
];

/// A column for each proxy, and our figure divided by those of the rivals.
pub(super) fn costs(files: &[ResultFile]) -> Result<String> {
    let file = super::result_of(files, SUITE)?;
    let subjects = file.subjects("hit-1kib");
    let mut table = String::from("| |");
    for subject in &subjects {
        write!(table, " {subject} |")?;
    }
    for rival in RIVALS {
        write!(table, " {OURS} ÷ {rival} |")?;
    }
    writeln!(table, "\n|---|{}", "---|".repeat(subjects.len() + RIVALS.len()))?;
    for (workload, measure, what) in ROWS {
        let unit = file.measures(workload).into_iter().find(|(name, _)| *name == measure);
        let Some((_, unit)) = unit else { continue };
        let unit = if unit.is_empty() || unit == "/s" { String::new() } else { format!(", {unit}") };
        write!(table, "| {what}{unit} |")?;
        for subject in &subjects {
            let figure = file.find(workload, measure, subject);
            write!(table, " {} |", figure.map_or("–".to_owned(), |figure| format_spread(figure.spread())))?;
        }
        for rival in RIVALS {
            let ours = file.find(workload, measure, OURS);
            let ratio = ours.zip(file.find(workload, measure, rival)).map(|(ours, theirs)| {
                format_number(Spread::of(ours.related(theirs, Relation::Ratio)).median)
            });
            write!(table, " {} |", ratio.unwrap_or("–".to_owned()))?;
        }
        table.push('\n');
    }
    Ok(table)
}

/// A row for each proxy.
pub(super) fn scores(files: &[ResultFile]) -> Result<String> {
    let file = super::result_of(files, SUITE)?;
    let version = |name: &str| file.versions.get(name).map_or("unknown", String::as_str);
    let subjects = file.subjects("cache-tests");
    let score = |measure: &str, subject: &str| {
        let figure = file.find("cache-tests", measure, subject);
        let figure = figure.with_context(|| format!("no figure cache-tests / {measure} / {subject}"))?;
        anyhow::Ok(figure.spread().median)
    };
    let mut table = format!("| http-cache-tests {} |", version("http-cache-tests"));
    let first = subjects.first().context("no proxy has a score")?;
    for measure in ["required", "optimal", "check"] {
        write!(table, " {measure}, of {} |", score(&format!("of {measure}"), first)?)?;
    }
    table += "\n|---|---|---|---|\n";
    for subject in subjects {
        let program = PROGRAMS.iter().find(|(name, _)| *name == subject);
        let (_, program) = program.with_context(|| format!("no program {subject}"))?;
        let [required, optimal, check] =
            ["required", "optimal", "check"].map(|measure| score(measure, subject));
        writeln!(table, "| {subject} {} | {} | {} | {} |", version(program), required?, optimal?, check?)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::result::tests::{figure, file};

    #[test]
    fn costs_have_a_column_for_each_proxy_and_ratios_round_by_round() {
        let figures = vec![
            figure("hit-1kib", "larder", "cpu", Better::Lower, &[10.0, 20.0]),
            figure("hit-1kib", "nginx", "cpu", Better::Lower, &[20.0, 40.0]),
        ];
        let table = costs(&[ResultFile { suite: SUITE.to_owned(), ..file(figures) }]).unwrap();
        let expected = "| | larder | nginx | larder ÷ nginx | larder ÷ varnish |\n|---|---|---|---|---|\n\
            | hit of 1 KiB, processor time, ns | 15.0 (10.0–20.0) | 30.0 (20.0–40.0) | 0.500 | – |\n";
        assert_eq!(table, expected);
    }

    #[test]
    fn scores_have_a_row_for_each_proxy_with_its_version() {
        let mut figures = Vec::new();
        for (subject, passed) in [("larder", [155.0, 80.0, 30.0]), ("squid", [121.0, 52.0, 46.0])] {
            for (measure, passed) in ["required", "optimal", "check"].into_iter().zip(passed) {
                figures.push(figure("cache-tests", subject, measure, Better::Higher, &[passed]));
            }
            for (measure, all) in [("of required", 157.0), ("of optimal", 86.0), ("of check", 86.0)] {
                figures.push(figure("cache-tests", subject, measure, Better::Higher, &[all]));
            }
        }
        let mut result = ResultFile { suite: SUITE.to_owned(), ..file(figures) };
        result.versions = [("squid", "5.7"), ("http-cache-tests", "0.4.5")]
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
            .into();
        let expected = "| http-cache-tests 0.4.5 | required, of 157 | optimal, of 86 | check, of 86 |\n\
            |---|---|---|---|\n| larder unknown | 155 | 80 | 30 |\n| squid 5.7 | 121 | 52 | 46 |\n";
        assert_eq!(scores(&[result]).unwrap(), expected);
    }
}
