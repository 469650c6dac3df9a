//! The second run of the tests of the shared tier, with the built `larder server` in place of redis-server.
//!
//! Tests that need what only Redis has note that they stay there. The run fails if one notes it that is not listed and forms
//! no cluster, if one is listed that does not note it, and if fewer tests ran than there are.

use crate::stages::command;
use crate::workspace::{root, target};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The tests that use a server as a cache does: those of the tiers, and those of responses that replicas share.
const TESTS: [&str; 6] = ["chaos", "conformance", "derive", "scripted", "shared", "tiers"];
/// What a note of a test that stays on redis-server begins with.
const NOTE: &str = "only on redis-server: ";
/// What the note of one that forms a cluster ends with.
const CLUSTER: &str = ": a cluster";
/// The others, with two spaces before each; other lines are reasons.
const LIST: &str = "crates/larder-testkit/src/only_redis.txt";

/// The arguments of cargo. The whole workspace is selected, so that its features are those of the first run and nothing is
/// built again.
pub(crate) fn arguments() -> Vec<&'static str> {
    let selected = TESTS.into_iter().flat_map(|test| ["--test", test]);
    // Those between languages have a stage of their own.
    let but = ["--", "--skip", "languages::"];
    ["test", "--workspace", "--locked", "--no-fail-fast"].into_iter().chain(selected).chain(but).collect()
}

/// The program, which the tests of the command line have built.
pub(crate) fn server() -> PathBuf {
    root().join(target()).join("debug/larder")
}

/// The number of tests that a run has.
pub(crate) fn count_tests() -> Result<u64> {
    let output = command(&arguments()).arg("--list").output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cannot list the tests: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.lines().filter(|line| line.ends_with(": test")).count() as u64)
}

/// Separates the notes of tests that stay on redis-server from the others.
pub(crate) fn split(notes: Vec<String>) -> (Vec<String>, Vec<String>) {
    notes.into_iter().partition(|note| note.starts_with(NOTE))
}

/// Compares the notes of the run with the list.
pub(crate) fn check(notes: &[String]) -> Result<()> {
    let list = std::fs::read_to_string(root().join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    match differences(notes, &list).as_slice() {
        [] => Ok(()),
        differences => bail!("{}", differences.join("\n")),
    }
}

fn differences(notes: &[String], list: &str) -> Vec<String> {
    let stayed = notes.iter().filter(|note| !note.ends_with(CLUSTER));
    let stayed = stayed.filter_map(|note| note.strip_prefix(NOTE)?.split(": ").next());
    let stayed: BTreeSet<&str> = stayed.collect();
    let listed: BTreeSet<&str> = list.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let unknown = listed.difference(&stayed);
    let unknown = unknown.map(|name| format!("{LIST}: {name} is not a test that starts a server"));
    let unlisted = stayed.difference(&listed);
    unknown.chain(unlisted.map(|name| format!("{LIST}: {name} is missing"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_name_without_a_test_is_found() {
        let notes = ["only on redis-server: a::b: snapshots".to_owned()];
        assert_eq!(differences(&notes, "snapshots:\n  a::b\n"), [""; 0]);
        let found = differences(&notes, "snapshots:\n  a::b\n  a::renamed\n");
        assert_eq!(found, [format!("{LIST}: a::renamed is not a test that starts a server")]);
        assert_eq!(differences(&notes, ""), [format!("{LIST}: a::b is missing")]);
    }

    #[test]
    fn test_that_forms_a_cluster_need_not_be_listed() {
        assert_eq!(differences(&["only on redis-server: a::b: a cluster".to_owned()], ""), [""; 0]);
    }
}
