//! The suite http-cache-tests against a proxy: how many of its tests pass, by their kinds.

use super::peer::Peer;
use super::running::Proxy;
use crate::measure::rounds::Value;
use anyhow::{Context, Result};
use larder_process::{CacheTests, TestKind, TestResult};
use std::path::{Path, PathBuf};

/// The version of the npm package in `tests/conformance` of the crate larder-proxy.
pub(super) const VERSION: &str = "0.4.5";

const KINDS: [(&str, TestKind); 3] =
    [("required", TestKind::Required), ("optimal", TestKind::Optimal), ("check", TestKind::Check)];

/// The folder of the npm package, in the target folder that this program is in.
pub(super) fn package() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    // The tests are one folder deeper.
    this.ancestors().skip(2).take(2).find_map(CacheTests::package)
}

/// Runs all tests: for each kind how many pass, and how many there are.
pub(super) fn scores(peer: Peer, package: &Path) -> Result<Vec<Value>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../larder-proxy/tests/conformance/score.mjs");
    let tests = CacheTests::start(&script, package).context("cannot start http-cache-tests")?;
    let proxy = Proxy::start(peer, tests.origin(), None)?;
    let scores = tests.run(proxy.address()).context("http-cache-tests fails")?;
    let count = |kind, is_counted: fn(TestResult) -> bool| {
        scores.values().filter(|score| score.kind == kind && is_counted(score.result)).count() as f64
    };
    let passed =
        KINDS.map(|(name, kind)| Value::high(name, "", count(kind, |result| result == TestResult::Pass)));
    let all = [
        ("of required", TestKind::Required),
        ("of optimal", TestKind::Optimal),
        ("of check", TestKind::Check),
    ];
    let all = all.map(|(name, kind)| Value::high(name, "", count(kind, |_| true)));
    Ok(passed.into_iter().chain(all).collect())
}
