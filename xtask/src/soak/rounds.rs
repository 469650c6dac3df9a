//! The tests that run in rounds beside the load, as processes of their own: the promise on real servers, on clusters, in other
//! languages, and in random histories.

use super::lock;
use super::shared::Shared;
use crate::bindings::languages;
use crate::stages;
use crate::workspace::{root, text};
use anyhow::{Context, Result, ensure};
use larder_process::Running;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What `LARDER_SOAK` says, in seconds.
const SOAK: &str = "60";
/// The histories of a round of the checker.
const HISTORIES: u64 = 10_000;
const CLUSTER_HISTORIES: u64 = 500;
/// How often the end of a round is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// A part of the tests.
#[derive(Debug)]
struct Round {
    name: &'static str,
    /// The test program.
    test: &'static str,
    words: &'static [&'static str],
    /// Whether it runs as long as `LARDER_SOAK` says, and not as usual.
    is_soak: bool,
    /// None begins with less time than this before the end.
    usual: Duration,
    /// It has failed if it takes longer.
    limit: Duration,
}

/// The chaos tests on clusters have no time limit in a soak, so they run as usual, a minute each round.
const ROUNDS: [Round; 4] = [
    Round {
        name: "chaos on one server",
        test: "chaos",
        words: &["--exact", "invalidated_value_is_never_served"],
        is_soak: true,
        usual: Duration::from_secs(75),
        limit: Duration::from_secs(300),
    },
    Round {
        name: "chaos on clusters",
        test: "chaos",
        words: &[
            "--exact",
            "--test-threads=1",
            "invalidated_value_is_never_served_behind_sentinels",
            "invalidated_value_is_never_served_on_a_cluster",
            "invalidated_value_is_never_served_on_a_cluster_of_valkey",
        ],
        is_soak: false,
        usual: Duration::from_secs(100),
        limit: Duration::from_secs(600),
    },
    Round {
        name: "histories",
        test: "checker",
        words: &[
            "--exact",
            "invalidated_value_is_never_served",
            "cluster::invalidated_value_is_never_served_over_a_cluster",
        ],
        is_soak: false,
        usual: Duration::from_secs(180),
        limit: Duration::from_secs(1_800),
    },
    Round {
        name: "chaos between languages",
        test: "chaos",
        words: &[
            "--exact",
            "languages::invalidated_value_is_never_served_in_another_language",
            "--include-ignored",
        ],
        is_soak: true,
        usual: Duration::from_secs(90),
        limit: Duration::from_secs(400),
    },
];

/// The built test programs, and what they need.
#[derive(Debug)]
pub(super) struct Rounds {
    chaos: PathBuf,
    checker: PathBuf,
    /// The environment of the tests between languages; `None` if something for them is not installed.
    languages: Option<Vec<(&'static str, OsString)>>,
}

impl Rounds {
    /// Builds the tests, as `cargo xtask test` does.
    pub(super) fn build() -> Result<Self> {
        stages::build()?;
        let find = ["test", "--workspace", "--locked", "--no-run", "--message-format=json", "--quiet"];
        let find = [&find[..], &["--test", "chaos", "--test", "checker"]].concat();
        let output = stages::command(&find).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
        ensure!(output.status.success(), "the tests cannot be built");
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        let program = |name| program(&messages, name).with_context(|| format!("there is no test {name}"));
        let missing = languages::missing();
        missing.iter().for_each(|missing| println!("left out: {missing}"));
        let languages = if missing.is_empty() { Some(languages::environment()?) } else { None };
        Ok(Rounds { chaos: program("chaos")?, checker: program("checker")?, languages })
    }

    /// Runs rounds in turn until the soak is over. `first` counts those of earlier runs: histories go on behind theirs.
    pub(super) fn run(&self, shared: &Shared, first: u64, folder: &Path, end: Instant) -> Result<()> {
        let output = folder.join("round.txt");
        for number in first.. {
            let round = &ROUNDS[(number % ROUNDS.len() as u64) as usize];
            if shared.is_over() || Instant::now() + round.usual > end {
                return Ok(());
            }
            let Some(mut command) = self.command(round, number) else { continue };
            let log = File::create(&output)?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            let Some(status) = await_end(shared, round, command)? else { return Ok(()) };
            if status.is_some_and(|status| status.success()) {
                lock(&shared.rounds).0 += 1;
                continue;
            }
            lock(&shared.rounds).1 += 1;
            let kept = folder.with_file_name(format!("failed-round-{number}.txt"));
            std::fs::copy(&output, &kept)?;
            let how = status.map_or("it did not end".to_owned(), |status| status.to_string());
            shared.fail(format!("{}: {how}; its output is in {}", round.name, kept.display()));
        }
        Ok(())
    }

    fn command(&self, round: &Round, number: u64) -> Option<Command> {
        // The load goes before: a round may wait.
        let mut command = Command::new("nice");
        command.args(["-n", "10"]).arg(if round.test == "checker" { &self.checker } else { &self.chaos });
        command.args(round.words).current_dir(root().join("crates/larder")).process_group(0);
        if round.is_soak {
            command.env("LARDER_SOAK", SOAK);
        }
        let turn = number / ROUNDS.len() as u64;
        command.env("LARDER_CHECKER_HISTORIES", HISTORIES.to_string());
        command.env("LARDER_CHECKER_CLUSTER_HISTORIES", CLUSTER_HISTORIES.to_string());
        command.env("LARDER_CHECKER_SKIP", (turn * HISTORIES).to_string());
        if round.words.contains(&"--include-ignored") {
            command.envs(self.languages.clone()?);
        }
        Some(command)
    }
}

/// Runs a round: `None` if the soak is over before, and `Some(None)` if it takes too long.
fn await_end(shared: &Shared, round: &Round, mut command: Command) -> Result<Option<Option<ExitStatus>>> {
    let mut running = Running::start(&mut command).context("cannot run nice")?;
    let start = Instant::now();
    loop {
        if let Some(status) = running.wait_within(LOOK)? {
            return Ok(Some(Some(status)));
        }
        if shared.is_over() || start.elapsed() > round.limit {
            // With the servers that it has started.
            running.kill_group();
            return Ok((!shared.is_over()).then_some(None));
        }
    }
}

/// The program of a test, in the messages of cargo.
fn program(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter(|message| {
        message["reason"] == "compiler-artifact"
            && message["target"]["name"] == name
            && message["target"]["kind"][0] == "test"
    });
    programs.find_map(|message| Some(PathBuf::from(text(message.get("executable")?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_of_a_test_is_found_in_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"chaos","kind":["lib"]},"executable":null}
not a message
{"reason":"compiler-artifact","target":{"name":"chaos","kind":["test"]},"executable":"/t/chaos-1"}"#;
        assert_eq!(program(messages, "chaos"), Some(PathBuf::from("/t/chaos-1")));
        assert_eq!(program(messages, "checker"), None);
    }
}
