//! Which crate of the workspace may depend on which: arrows point down only.

use crate::workspace::{array, members, text};
use serde_json::Value;

/// Each crate with the crates that it may depend on. A crate that is missing here may not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("larder-engine", &[]),
    ("larder-resp", &[]),
    ("larder", &["larder-engine", "larder-derive"]),
    ("larder-derive", &[]),
    ("larder-http", &["larder-engine"]),
    ("larder-server", &["larder-engine", "larder-resp"]),
    ("larder-links", &["larder-engine", "larder", "larder-http"]),
    ("larder-admin", &["larder-engine", "larder"]),
    // Started by the bench, which is a part of the binary, and by the tests.
    ("larder-process", &[]),
    (
        "larder-cli",
        &["larder", "larder-http", "larder-server", "larder-links", "larder-admin", "larder-bench"],
    ),
    ("larder-bench", &["larder", "larder-engine", "larder-process"]),
    ("larder-testkit", &["larder-process"]),
    ("xtask", &[]),
];

/// An example of the one shows the other.
const EXAMPLE: (&str, &str) = ("larder", "larder-admin");

/// What only tests may use.
const TESTS_ONLY: &str = "larder-testkit";

pub(super) fn check(metadata: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in members(metadata) {
        let name = text(&package["name"]);
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("{name}: say in xtask/src/check/arrows.rs what it may depend on"));
            continue;
        };
        for dependency in array(&package["dependencies"]) {
            let used = text(&dependency["name"]);
            let in_workspace = ARROWS.iter().any(|(known, _)| *known == used);
            let for_tests = dependency["kind"] == "dev";
            // A crate may name itself among its dev-dependencies, to test with more features on; derives are tested with
            // the crate that they are for.
            let excused = for_tests
                && (used == TESTS_ONLY || used == name || name == "larder-derive" || (name, used) == EXAMPLE);
            if in_workspace && !excused && !allowed.contains(&used) {
                wrong.push(format!("{name} uses {used}: that dependency points up"));
            }
        }
    }
    wrong
}
