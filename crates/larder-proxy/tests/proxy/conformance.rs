//! The proxy in its default configuration does what http-cache-tests asks of it, except for what `expected.txt` lists with
//! a reason.

use crate::support::{config, start};
use larder_process::{CacheTests, Score, TestKind, TestResult};
use larder_proxy::Config;
use larder_testkit::{RedisServer, needs, program};
use std::collections::BTreeMap;
use std::path::Path;

/// The tests that miss.
const EXPECTED: &str = include_str!("../conformance/expected.txt");
/// At least so many of all 157 required tests and of all 86 optimal ones pass.
const REQUIRED: usize = 139;
const OPTIMAL: usize = 74;

#[tokio::test(flavor = "multi_thread")]
async fn proxy_passes_the_tests_that_are_not_listed() {
    run(|options| options).await;
}

/// What is in Redis is one cache with what each replica has.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_that_shares_its_responses_passes_the_same_tests() {
    let Some(server) = RedisServer::start() else { return };
    run(|options| Config { redis: Some(server.url()), ..options }).await;
}

async fn run(change: impl FnOnce(Config) -> Config) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    let package = CacheTests::package(target);
    let is_installed = needs("the npm package http-cache-tests", package.is_some()).is_some();
    let (Some(package), Some(_), true) = (package, program("node"), is_installed) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/score.mjs");
    let tests = CacheTests::start(&script, &package).unwrap();
    let proxy = start(change(config([tests.origin()]))).await;
    let address = proxy.address;
    let scores = tokio::task::spawn_blocking(move || tests.run(address).unwrap()).await.unwrap();
    assert_eq!(differences(&scores, EXPECTED), Vec::<String>::new());
    for (kind, all, least) in [(TestKind::Required, 157, REQUIRED), (TestKind::Optimal, 86, OPTIMAL)] {
        let of_kind = || scores.values().filter(|score| score.kind == kind);
        let passed = of_kind().filter(|score| score.result == TestResult::Pass).count();
        assert!(of_kind().count() == all && passed >= least, "{passed} tests pass that are {kind:?}");
    }
}

/// What the scores and the list of misses disagree on. Tests of [`TestKind::Check`] miss nothing.
fn differences(scores: &BTreeMap<String, Score>, listed: &str) -> Vec<String> {
    let listed: BTreeMap<&str, &str> = listed
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("no reason in the line {line}")))
        .collect();
    let mut differences = Vec::new();
    for (id, Score { kind, result, detail }) in
        scores.iter().filter(|(_, score)| score.kind != TestKind::Check)
    {
        match (result, listed.contains_key(id.as_str())) {
            (TestResult::Pass, true) => differences.push(format!("{id} is listed and passes")),
            (TestResult::Pass, false) | (_, true) => {}
            (_, false) => differences.push(format!("{id} ({kind:?}) misses, {result:?}: {detail}")),
        }
    }
    let is_unknown = |id: &&&str| scores.get(**id).is_none_or(|score| score.kind == TestKind::Check);
    differences.extend(
        listed.keys().filter(is_unknown).map(|id| format!("{id} is listed and no test that can miss")),
    );
    differences
}

#[test]
fn list_differs_from_the_scores_in_both_directions() {
    let score = |kind, result| Score { kind, result, detail: "Response 2 comes from cache".to_owned() };
    let scores = [
        ("passes", score(TestKind::Required, TestResult::Pass)),
        ("passes-now", score(TestKind::Optimal, TestResult::Pass)),
        ("misses", score(TestKind::Required, TestResult::Fail)),
        ("misses-too", score(TestKind::Optimal, TestResult::Dependency)),
        ("differs", score(TestKind::Check, TestResult::Fail)),
    ];
    let scores = scores.map(|(id, score)| (id.to_owned(), score)).into();
    let listed = "# Reasons.\n\nmisses-too: by design\npasses-now: was broken\ndiffers: by design\nno-test: by design\n";
    let expected = [
        "misses (Required) misses, Fail: Response 2 comes from cache",
        "passes-now is listed and passes",
        "differs is listed and no test that can miss",
        "no-test is listed and no test that can miss",
    ];
    assert_eq!(differences(&scores, listed), expected);
}
