//! The stages of `cargo xtask test`: each is announced, timed, and the last to run if it fails.

use crate::check;
use crate::examples;
use crate::workspace::{self, root, target};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How long each soak runs with `--soak`, in seconds.
const SOAK_SECONDS: &str = "600";

/// Everything that must hold before a change goes in.
pub(crate) fn test(soak: bool) -> Result<()> {
    let mut stages = Stages::default();
    stages.run("format", || cargo(&["fmt", "--all", "--check"]))?;
    stages.run("checks", check::all)?;
    stages.run("clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
    })?;
    // One build for the tests and for the binaries that they start.
    stages.run("build", || cargo(&["test", "--workspace", "--locked", "--no-run"]))?;
    let mut counts = Counts::default();
    stages.run("tests", || counts.add_run(&["test", "--workspace", "--locked"], soak))?;
    stages.run("examples", || counts.add_examples())?;
    stages.run("docs", || cargo(&["doc", "--workspace", "--no-deps", "--locked"]))?;
    stages.run("package", package)?;
    stages.report();
    counts.report()
}

/// Packages the crates that can be published, and builds each from its package alone: features that only came from other
/// crates of the workspace, and files that were left out, show here.
fn package() -> Result<()> {
    let metadata = workspace::metadata()?;
    let mut words = vec!["package", "--workspace", "--locked", "--allow-dirty", "--quiet"];
    let private = |package: &&Value| package["publish"].as_array().is_some_and(Vec::is_empty);
    for package in workspace::members(&metadata).filter(private) {
        words.extend(["--exclude", workspace::text(&package["name"])]);
    }
    cargo(&words)
}

/// The engine's tests where wrong use of memory ends them: minutes, so not a part of [`test()`]. The explorer of schedules
/// is left out: it switches stacks, which neither tool follows.
pub(crate) fn sanitize() -> Result<()> {
    const TESTS: &[&str] = &["test", "-p", "larder-engine", "--locked", "--lib"];
    let mut stages = Stages::default();
    stages.run("address", || {
        let more = ["--test", "promises", "--test", "soak", "--target", &host()?];
        let mut asan = command(&[TESTS, &more].concat());
        // The compiler is the stable one; this lets it know the option.
        asan.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
        succeed(asan.env("CARGO_TARGET_DIR", target().join("sanitize")))
    })?;
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped valgrind: it is not installed");
        return Ok(());
    }
    stages.run("valgrind", || {
        // What the main thread still holds when it ends is no error: only what nothing leads to any more.
        let options = "'--quiet', '--error-exitcode=1', '--leak-check=full', '--show-leak-kinds=definite', \
                       '--errors-for-leak-kinds=definite'";
        let runner = format!("target.'cfg(unix)'.runner = ['valgrind', {options}]");
        // All threads take turns on one core here, so the unit tests alone, and fewer cases of each.
        succeed(command(&[&["--config", &runner], TESTS].concat()).env("PROPTEST_CASES", "8"))
    })?;
    stages.report();
    Ok(())
}

/// The machine that the compiler runs on, as it calls it.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host =
        text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    Ok(host.to_owned())
}

/// Times of the stages that have run.
#[derive(Default)]
struct Stages(Vec<(&'static str, f64)>);

impl Stages {
    fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("── {name}");
        let began = Instant::now();
        stage().with_context(|| format!("stage {name} failed"))?;
        let seconds = began.elapsed().as_secs_f64();
        println!("── {name}: {seconds:.1} s");
        self.0.push((name, seconds));
        Ok(())
    }

    fn report(&self) {
        println!("\nseconds per stage");
        for (name, seconds) in &self.0 {
            println!("  {name:<8} {seconds:>7.1}");
        }
        println!("  {:<8} {:>7.1}", "all", self.0.iter().map(|(_, seconds)| seconds).sum::<f64>());
    }
}

/// How many tests passed and failed, by their runners' own words, and which were skipped for want of a program.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
}

impl Counts {
    /// Runs tests, shows what they print, and reads their summaries.
    fn add_run(&mut self, words: &[&str], soak: bool) -> Result<()> {
        let skip_log = target().join("skipped.txt");
        _ = std::fs::remove_file(&skip_log);
        let mut child = command(words)
            .env("LARDER_SKIP_LOG", &skip_log)
            .envs(soak.then_some(("LARDER_SOAK", SOAK_SECONDS)))
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run cargo")?;
        for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
            let line = line?;
            println!("{line}");
            if let Some(summary) = line.strip_prefix("test result: ") {
                self.passed += number_before(summary, " passed");
                self.failed += number_before(summary, " failed");
            }
        }
        let status = child.wait()?;
        let skipped = std::fs::read_to_string(skip_log).unwrap_or_default();
        self.skipped.extend(skipped.lines().map(str::to_owned));
        if status.success() { Ok(()) } else { bail!("{} of the tests failed", self.failed.max(1)) }
    }

    /// Runs the examples, each of which counts as a test.
    fn add_examples(&mut self) -> Result<()> {
        let (ran, skipped) = examples::run()?;
        self.passed += ran;
        self.skipped.extend(skipped);
        Ok(())
    }

    fn report(&self) -> Result<()> {
        for skipped in &self.skipped {
            println!("skipped {skipped}");
        }
        println!("\n{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len());
        let on_ci = std::env::var("CI").as_deref() == Ok("true");
        if on_ci && !self.skipped.is_empty() {
            bail!("a skipped test is a failure where CI=true")
        } else {
            Ok(())
        }
    }
}

/// The number that stands right before a word.
fn number_before(text: &str, word: &str) -> u64 {
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

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(words).current_dir(root()).env("RUSTDOCFLAGS", "-D warnings").stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::number_before;

    #[test]
    fn summaries_are_read() {
        let summary = "ok. 49 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.16s";
        assert_eq!((number_before(summary, " passed"), number_before(summary, " failed")), (49, 2));
        assert_eq!(number_before("nothing of the kind", " passed"), 0);
    }
}
