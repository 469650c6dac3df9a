//! The metrics with Debian's Prometheus: the alerting rules, and the Grafana dashboard that draws them.

mod live;

use crate::process::run;
use larder_testkit::program;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of this repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What follows this start in the lines of a text that have it.
fn after<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(start)).collect()
}

const RULES: &str = "docs/alerts.yml";
const TESTS: &str = "crates/larder-cli/tests/cli/prometheus/alerts_test.yml";

#[test]
fn each_alert_fires_where_it_should_and_nowhere_else() {
    let Some(promtool) = program("promtool") else { return };
    for (words, path) in [(["check", "rules"], RULES), (["test", "rules"], TESTS)] {
        let ended = run(Command::new(&promtool).args(words).arg(file(path)));
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
    }
    let (rules, tests) = (text(RULES), text(TESTS));
    let alerts: BTreeSet<&str> = after(&rules, "- alert: ").into_iter().collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    let firing: BTreeSet<&str> = after(&tests, "- alertname: ").into_iter().collect();
    assert_eq!(alerts, firing, "each has a test in which it fires");
    let quiet = after(&tests, "- {alertname: ").into_iter().filter_map(|rest| {
        let (name, rest) = rest.split_once(", ")?;
        rest.ends_with("exp_alerts: []}").then_some(name)
    });
    assert_eq!(alerts, quiet.collect(), "each has a test in which it does not");
}

#[test]
fn each_alert_has_a_severity_and_a_section_that_says_what_to_do() {
    let (rules, page) = (text(RULES), text("docs/alerts.md"));
    let sections: BTreeSet<String> =
        after(&page, "### ").into_iter().map(|title| title.replace('`', "").to_lowercase()).collect();
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap_or_default();
        let section = name.to_lowercase();
        assert!(sections.contains(&section), "no section {name} in {sections:?}");
        assert_eq!(after(rule, "runbook: "), [format!("docs/alerts.md#{section}")], "{rule}");
        assert!(
            matches!(after(rule, "labels: ")[..], ["{severity: critical}" | "{severity: warning}"]),
            "{rule}"
        );
        assert_eq!(after(rule, "summary: ").len(), 1, "{rule}");
    }
}
