//! Checks the dependencies between the crates of the workspace: they point down only.

use crate::workspace::{array, members, text};
use serde_json::Value;

/// Each crate, and the crates that it may depend on. Every crate must be listed.
const ARROWS: &[(&str, &[&str])] = &[
    ("larder-engine", &[]),
    ("larder-glob", &[]),
    ("larder-resp", &[]),
    ("larder-text", &[]),
    ("larder", &["larder-engine", "larder-derive", "larder-glob", "larder-text"]),
    ("larder-derive", &[]),
    ("larder-http", &["larder-engine", "larder"]),
    ("larder-host", &["larder-engine", "larder", "larder-text"]),
    ("larder-elixir", &["larder", "larder-host", "larder-text"]),
    ("larder-node", &["larder", "larder-host", "larder-text"]),
    ("larder-python", &["larder", "larder-host", "larder-text"]),
    ("larder-ruby", &["larder", "larder-host", "larder-text"]),
    ("larder-server", &["larder-engine", "larder-glob", "larder-resp", "larder-text", "larder-tls"]),
    ("larder-tls", &[]),
    ("larder-web", &[]),
    ("larder-links", &["larder-engine", "larder", "larder-http", "larder-web"]),
    ("larder-admin", &["larder-engine", "larder", "larder-http", "larder-web"]),
    ("larder-proxy", &["larder", "larder-engine", "larder-glob", "larder-http", "larder-tls", "larder-web"]),
    // Used by the bench and by the tests.
    ("larder-process", &[]),
    ("larder-terminal", &[]),
    (
        "larder-cli",
        &[
            "larder",
            "larder-http",
            "larder-server",
            "larder-links",
            "larder-admin",
            "larder-proxy",
            "larder-terminal",
            "larder-text",
        ],
    ),
    (
        "larder-bench",
        &[
            "larder",
            "larder-engine",
            "larder-http",
            "larder-process",
            "larder-resp",
            "larder-server",
            "larder-terminal",
        ],
    ),
    ("larder-testkit", &["larder-process"]),
    // The shop in five languages, and the tutorial.
    ("languages", &["larder"]),
    ("shop", &["larder", "larder-admin", "larder-http"]),
    ("xtask", &["larder-process"]),
];

/// The first crate may use the second in an example, in tests, or for the simulated servers of its checker.
const IN_TESTS: [(&str, &str); 3] =
    [("larder", "larder-admin"), ("larder", "larder-resp"), ("larder-proxy", "larder-process")];

/// The crate that only tests may use.
const TESTS_ONLY: &str = "larder-testkit";

pub(super) fn check(metadata: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for package in members(metadata) {
        let name = text(&package["name"]);
        let Some((_, allowed)) = ARROWS.iter().find(|(listed, _)| *listed == name) else {
            faults.push(format!("{name}: list its allowed dependencies in xtask/src/check/arrows.rs"));
            continue;
        };
        for dependency in array(&package["dependencies"]) {
            let used = text(&dependency["name"]);
            let in_workspace = ARROWS.iter().any(|(listed, _)| *listed == used);
            let for_tests = dependency["kind"] == "dev";
            // A crate may have itself as a dev-dependency, to enable more features in tests. The derives are tested
            // with the crate that re-exports them.
            let is_exception = for_tests
                && (used == TESTS_ONLY
                    || used == name
                    || name == "larder-derive"
                    || IN_TESTS.contains(&(name, used)));
            if in_workspace && !is_exception && !allowed.contains(&used) {
                faults.push(format!("{name} uses {used}: that dependency points up"));
            }
        }
    }
    faults
}
