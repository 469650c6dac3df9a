//! The commands as a user runs them: output and exit codes. One file per command.

mod documents;
mod hit_ratio;
mod output;
mod quick;
mod results;
mod run;
mod traces;

use std::process::{Command, Output};

/// The bench without arguments.
fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_larder-bench"))
}

/// Runs the bench with `arguments`.
fn bench(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("the bench can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is text")
}
