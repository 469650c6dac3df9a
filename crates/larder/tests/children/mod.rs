//! Nodes in other languages: child processes that obey lines. `bindings/interop/protocol.md` describes these. Mounted by the
//! `chaos`, which judges what such nodes return, and by the `conformance`, whose behaviours run against them.
//!
//! `LARDER_CHILDREN` has a line for each kind of child: its name, `=`, and its command. The stage `languages` of
//! `cargo xtask test` sets it.

mod call;
#[allow(dead_code, reason = "the behaviours stop, kill and fork no child")]
pub(crate) mod child;
#[allow(dead_code, reason = "the chaos test has no null")]
pub(crate) mod words;

use std::process::Command;

/// A kind of child.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    command: String,
}

impl Kind {
    fn command(&self) -> Command {
        let mut words = self.command.split_whitespace();
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words);
        command
    }
}

/// The kinds of which there are programs.
pub(crate) fn kinds() -> Vec<Kind> {
    let lines = std::env::var("LARDER_CHILDREN").unwrap_or_default();
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    let kind = |line: &str| {
        let (name, command) = line.split_once('=').expect("LARDER_CHILDREN has lines of NAME=COMMAND");
        Kind { name: name.trim().to_owned(), command: command.to_owned() }
    };
    lines.map(kind).collect()
}
