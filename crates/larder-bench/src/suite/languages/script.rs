//! The program of a language: the package with the library of this build, and the peers that are installed.

use crate::tool::Language;
use anyhow::{Context, Result, bail};
use larder_process::Running;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use tempfile::TempDir;

/// A running program.
pub(super) struct Script {
    pub(super) language: Language,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _running: Running,
    _folder: TempDir,
}

impl Script {
    /// Starts it with the address of Redis.
    pub(super) fn start(language: Language, redis: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = language.command(calls(language), folder.path())?;
        command.arg(redis);
        let mut running = Running::start(&mut command)?;
        let stdin = running.child().stdin.take().context("stdin is piped")?;
        let stdout = running.child().stdout.take().context("stdout is piped")?;
        Ok(Script { language, stdin, stdout: BufReader::new(stdout), _running: running, _folder: folder })
    }

    /// The nanoseconds of a call.
    pub(super) fn measure(&mut self, workload: &str, subject: &str, calls: usize) -> Result<f64> {
        writeln!(self.stdin, "{workload}\t{subject}\t{calls}")?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        match answer.trim_end().parse() {
            Ok(nanoseconds) => Ok(nanoseconds),
            Err(_) if answer.is_empty() => bail!("the program has ended"),
            Err(_) => bail!("{}", answer.trim_end()),
        }
    }
}

/// The program of the calls.
fn calls(language: Language) -> &'static str {
    match language {
        Language::Python => "bench/calls.py",
        Language::Node => "bench/calls.js",
        Language::Ruby => "bench/calls.rb",
        Language::Elixir => "bench/calls.exs",
    }
}
