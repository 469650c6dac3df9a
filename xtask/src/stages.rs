//! The stages of `cargo xtask test`. Each stage is timed and can be run alone; the first failure ends the run.

use crate::bindings::{elixir, languages, node, python, ruby, shops};
use crate::check;
use crate::cost;
use crate::dist;
use crate::examples;
use crate::guard;
use crate::on_larder;
use crate::test_programs;
use crate::workspace::{self, root, target};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

/// The duration of each soak test with `--soak`, in seconds.
const SOAK_SECONDS: &str = "600";

/// Runs a stage, with soak tests or without, and counts its tests.
type Stage = fn(&mut Counts, bool) -> Result<()>;

/// The first stage that needs more than the build does.
const FIRST_WITH_TESTS: &str = "tests";

/// The stages, in the order in which they run.
const STAGES: [(&str, Stage); 17] = [
    ("format", |_, _| cargo(&["fmt", "--all", "--check"])),
    ("checks", |_, _| check::all()),
    ("clippy", |_, _| cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])),
    ("build", |_, _| build().and_then(|()| cost::check_test_build())),
    ("tests", |counts, soak| counts.add_tests(soak)),
    ("doctests", |counts, soak| {
        counts.add_run(&["test", "--workspace", "--locked", "--no-fail-fast", "--doc"], soak, vec![])
    }),
    ("python", |counts, _| python::run().map(|ran| counts.add_others(ran))),
    ("node", |counts, _| node::run().map(|ran| counts.add_others(ran))),
    ("ruby", |counts, _| ruby::run().map(|ran| counts.add_others(ran))),
    ("elixir", |counts, _| elixir::run().map(|ran| counts.add_others(ran))),
    ("languages", |counts, soak| counts.add_languages(soak)),
    ("on-larder", |counts, soak| counts.add_run_on_larder(soak)),
    ("examples", |counts, _| counts.add_examples()),
    ("guard", |counts, _| counts.add_guard()),
    ("docs", |_, _| cargo(&["doc", "--workspace", "--no-deps", "--locked"])),
    ("package", |_, _| package()),
    ("dist", |counts, _| dist::check::check().map(|ran| counts.add_others(ran))),
];

/// Everything that must pass before a change is merged, or one stage of it. What the tests need may still be installed meanwhile:
/// they wait for that.
pub(crate) fn test(
    soak: bool,
    only: Option<&str>,
    mut installing: Option<JoinHandle<Result<()>>>,
) -> Result<()> {
    if let Some(name) = only.filter(|name| STAGES.iter().all(|(stage, _)| stage != name)) {
        let names: Vec<&str> = STAGES.iter().map(|(name, _)| *name).collect();
        bail!("there is no stage {name:?}; the stages are {}", names.join(", "));
    }
    let (mut durations, mut counts) = (Durations::default(), Counts::default());
    for (name, stage) in STAGES.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        if *name == FIRST_WITH_TESTS
            && let Some(installing) = installing.take()
        {
            durations.run("install", || installing.join().expect("nothing there panics"))?;
        }
        let alone = format!("alone: cargo xtask test --stage {name}");
        println!("{alone}");
        durations.run(name, || stage(&mut counts, soak).context(alone))?;
    }
    durations.report();
    counts.report()
}

/// Builds what `cargo test` builds, and the libraries for other languages, which have no tests in Rust.
pub(crate) const TEST_BUILD: &[&str] = &["build", "--workspace", "--all-targets", "--locked"];

/// One build for the tests, for the examples, and for the binaries that they start.
pub(crate) fn build() -> Result<()> {
    cargo(TEST_BUILD)
}

/// Writes the tables of results in the pages.
pub(crate) fn write_documents() -> Result<()> {
    for page in ["README.md", "docs/bench.md", "docs/documents.md", "docs/proxy.md", "docs/scale.md"] {
        let arguments = ["report", "docs/results", "--markdown", page];
        cargo(&[&["run", "--quiet", "--locked", "-p", "larder-bench", "--"], &arguments[..]].concat())?;
    }
    Ok(())
}

/// The stage of the hot paths alone.
pub(crate) fn guard() -> Result<()> {
    let mut counts = Counts::default();
    counts.add_guard()?;
    counts.report()
}

/// Packages the crates that can be published, and builds each from its package alone. This detects features that only
/// other crates of the workspace enable, and files that the package lacks.
fn package() -> Result<()> {
    let metadata = workspace::metadata()?;
    forget_packages(&metadata)?;
    let mut words = vec!["package", "--workspace", "--locked", "--allow-dirty", "--quiet"];
    let private = |package: &&Value| package["publish"].as_array().is_some_and(Vec::is_empty);
    for package in workspace::members(&metadata).filter(private) {
        words.extend(["--exclude", workspace::text(&package["name"])]);
    }
    // Nothing of it is run: that it builds is enough.
    let cheap = [("CARGO_PROFILE_DEV_OPT_LEVEL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "false")];
    succeed(command(&words).envs(cheap).env("CARGO_TARGET_DIR", packages()))
}

/// The target folder of the builds from packages.
fn packages() -> PathBuf {
    target().join("packages")
}

/// Removes what an earlier run built and unpacked. Cargo takes the source and the build of a package for current as long as
/// its version is the same, so the packages would be checked against each other's former source.
fn forget_packages(metadata: &Value) -> Result<()> {
    remove_folder(&packages())?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .context("the home folder is not known")?;
    let Ok(registries) = std::fs::read_dir(home.join("registry/src")) else { return Ok(()) };
    for registry in registries {
        let registry = registry.context("cannot list the sources that cargo unpacked")?.path();
        for package in workspace::members(metadata) {
            let [name, version] = ["name", "version"].map(|field| workspace::text(&package[field]));
            remove_folder(&registry.join(format!("{name}-{version}")))?;
        }
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The tests of the engine, and of the server on it, with tools that detect memory errors and data races. They run for
/// minutes, so they are not a part of [`test()`]. The tests with the explorers are excluded: they switch stacks, which none
/// of the tools supports.
pub(crate) fn sanitize() -> Result<()> {
    const TESTS: &[&str] = &["test", "-p", "larder-engine", "--locked", "--lib"];
    let mut stages = Durations::default();
    stages.run("address", || {
        let more = ["--test", "promises", "--test", "soak", "--test", "compaction", "--target", &host()?];
        succeed(with_address_sanitizer(&mut command(&[TESTS, &more].concat())))
    })?;
    stages.run("address, server", || {
        // The programs of the client libraries find no memory error that the other tests do not. The tests of load measure
        // resident memory, of which the sanitizer takes more than they allow.
        let tests =
            ["test", "-p", "larder-server", "--locked", "--lib", "--test", "main", "--target", &host()?];
        let skipped = ["--", "--skip", "client_libraries", "--skip", "load::"];
        succeed(with_address_sanitizer(&mut command(&[&tests[..], &skipped].concat())))
    })?;
    stages.run("thread", || {
        let mut tsan = command(&[TESTS, &["--target", &host()?]].concat());
        // The standard library stays as it is: to build it anew would need its sources.
        let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
        let suppressions = format!("suppressions={}", root().join("xtask/tsan.txt").display());
        tsan.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags).env("TSAN_OPTIONS", suppressions);
        succeed(tsan.env("CARGO_TARGET_DIR", target().join("sanitize-thread")))
    })?;
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped valgrind: it is not installed");
        return Ok(());
    }
    stages.run("valgrind", || {
        // Memory that is reachable when the main thread ends is no leak; unreachable memory is one.
        let options = "'--quiet', '--error-exitcode=1', '--leak-check=full', '--show-leak-kinds=definite', \
                       '--errors-for-leak-kinds=definite'";
        let runner = format!("target.'cfg(unix)'.runner = ['valgrind', {options}]");
        // valgrind runs all threads on one core: run only the unit tests, with fewer cases.
        succeed(command(&[&["--config", &runner], TESTS].concat()).env("PROPTEST_CASES", "8"))
    })?;
    stages.report();
    Ok(())
}

fn with_address_sanitizer(tests: &mut Command) -> &mut Command {
    // The first enables the unstable option in the stable compiler.
    tests.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address --cfg larder_asan");
    tests.env("LSAN_OPTIONS", format!("suppressions={}", root().join("xtask/lsan.txt").display()));
    tests.env("CARGO_TARGET_DIR", target().join("sanitize"))
}

/// The target triple of the machine.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("the output of rustc -vV has no host")?;
    Ok(host.to_owned())
}

/// How long each completed stage lasted, and its processor time, in seconds.
#[derive(Default)]
struct Durations(Vec<(&'static str, f64, f64)>);

impl Durations {
    fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("── {name}");
        let (start, cpu) = (Instant::now(), cost::cpu_seconds()?);
        stage()
            .with_context(|| format!("stage {name} failed; repeat it by: cargo xtask test --stage {name}"))?;
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cost::cpu_seconds()? - cpu);
        println!("── {name}: {seconds:.1} s, {cpu:.1} s of processor time");
        self.0.push((name, seconds, cpu));
        Ok(())
    }

    fn cpu_seconds(&self) -> f64 {
        self.0.iter().map(|(_, _, cpu)| cpu).sum()
    }

    fn report(&self) {
        println!("\nstage        seconds  of processor time");
        for (name, seconds, cpu) in &self.0 {
            println!("  {name:<9} {seconds:>8.1}  {cpu:>8.1}");
        }
        let seconds: f64 = self.0.iter().map(|(_, seconds, _)| seconds).sum();
        println!("  {:<9} {seconds:>8.1}  {:>8.1}", "all", self.cpu_seconds());
    }
}

/// The numbers of passed and failed tests from the output of the test runners, and the tests that were skipped
/// because of a missing program.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
    /// The notes of the tests that need a redis-server, from the run on another server.
    only_redis: Vec<String>,
}

impl Counts {
    /// Runs the tests of the shared tier on `larder server`.
    fn add_run_on_larder(&mut self, soak: bool) -> Result<()> {
        let (before, all) = (self.passed, on_larder::count_tests()?);
        let server = ("LARDER_TEST_SERVER", on_larder::server().into());
        self.add_run(&on_larder::arguments(), soak, vec![server])?;
        on_larder::check(&self.only_redis)?;
        let ran = self.passed - before;
        if ran < all { bail!("only {ran} of {all} tests ran") } else { Ok(()) }
    }

    /// Runs the test programs of the workspace.
    fn add_tests(&mut self, soak: bool) -> Result<()> {
        let skip_log = forget_skipped();
        let mut environment = vec![("LARDER_SKIP_LOG", OsString::from(&skip_log))];
        environment.extend(soak.then(|| ("LARDER_SOAK", SOAK_SECONDS.into())));
        let mut failed = Vec::new();
        test_programs::run(&environment, |ended| {
            println!("   {} ran for {:.1} s\n{}", ended.name, ended.lasted.as_secs_f64(), ended.output);
            ended.output.lines().for_each(|line| self.add_summary(line));
            failed.extend(Some(ended.name).filter(|_| !ended.succeeded));
        })?;
        self.add_skipped(&skip_log);
        if failed.is_empty() { Ok(()) } else { bail!("tests failed in {}", failed.join(", ")) }
    }

    /// Adds the numbers of a summary, if the line is one.
    fn add_summary(&mut self, line: &str) {
        if let Some(summary) = line.strip_prefix("test result: ") {
            self.passed += number_before(summary, " passed");
            self.failed += number_before(summary, " failed");
        }
    }

    /// Adds what tests wrote to the file of skipped ones.
    fn add_skipped(&mut self, skip_log: &Path) {
        let notes = std::fs::read_to_string(skip_log).unwrap_or_default();
        let (only_redis, skipped) = on_larder::split(notes.lines().map(str::to_owned).collect());
        self.only_redis.extend(only_redis);
        self.skipped.extend(skipped);
    }

    /// Runs tests with these variables, prints their output, and parses their summaries.
    fn add_run(
        &mut self,
        words: &[&str],
        soak: bool,
        environment: Vec<(&'static str, OsString)>,
    ) -> Result<()> {
        let skip_log = forget_skipped();
        let mut child = command(words)
            .env("LARDER_SKIP_LOG", &skip_log)
            .envs(soak.then_some(("LARDER_SOAK", SOAK_SECONDS)))
            .envs(environment)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run cargo")?;
        for line in BufReader::new(child.stdout.take().expect("stdout is piped")).lines() {
            let line = line?;
            println!("{line}");
            self.add_summary(&line);
        }
        let status = child.wait()?;
        self.add_skipped(&skip_log);
        if status.success() { Ok(()) } else { bail!("{} of the tests failed", self.failed.max(1)) }
    }

    /// Tests that are no tests of Rust: how many passed, and those that were skipped.
    fn add_others(&mut self, (passed, skipped): (u64, Vec<String>)) {
        self.passed += passed;
        self.skipped.extend(skipped);
    }

    /// Runs the tests between languages.
    fn add_languages(&mut self, soak: bool) -> Result<()> {
        let missing = languages::missing();
        if !missing.is_empty() {
            self.skipped.extend(missing);
            return Ok(());
        }
        self.add_run(languages::TESTS, soak, languages::environment()?)?;
        shops::check().context("the shop in five languages")?;
        self.passed += 1;
        Ok(())
    }

    /// Runs the examples; each counts as a test.
    fn add_examples(&mut self) -> Result<()> {
        let (ran, skipped) = examples::run()?;
        self.passed += ran;
        self.skipped.extend(skipped);
        Ok(())
    }

    /// Compares the instructions of the hot paths, which counts as a test.
    fn add_guard(&mut self) -> Result<()> {
        let skipped = guard::check()?;
        self.passed += u64::from(skipped.is_none());
        self.skipped.extend(skipped);
        Ok(())
    }

    fn report(&self) -> Result<()> {
        for skipped in &self.skipped {
            println!("skipped {skipped}");
        }
        for note in &self.only_redis {
            println!("{note}");
        }
        println!("\n{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len());
        if on_ci() && !self.skipped.is_empty() {
            bail!("skipped tests are failures with CI=true")
        } else {
            Ok(())
        }
    }
}

/// Whether this is a run of continuous integration.
fn on_ci() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

/// The file in which tests note that they are skipped, which does not exist yet.
fn forget_skipped() -> PathBuf {
    let skip_log = root().join(target()).join("skipped.txt");
    _ = std::fs::remove_file(&skip_log);
    skip_log
}

/// The number directly before a word.
pub(crate) fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn cargo(words: &[&str]) -> Result<()> {
    succeed(&mut command(words))
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot run cargo")?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed") }
}

pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(words).current_dir(root()).env("RUSTDOCFLAGS", "-D warnings").stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::number_before;

    #[test]
    fn number_before_parses_test_summaries() {
        let summary = "ok. 49 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.16s";
        assert_eq!((number_before(summary, " passed"), number_before(summary, " failed")), (49, 2));
        assert_eq!(number_before("no summary", " passed"), 0);
    }
}
