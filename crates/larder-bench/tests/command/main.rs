//! The commands as a user runs them: output and exit codes. One file per command.

mod documents;
mod hit_ratio;
mod results;
mod traces;

use std::process::{Command, Output};

/// Runs the bench with `arguments`.
fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder-bench"))
        .args(arguments)
        .output()
        .expect("the bench can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is text")
}
