//! Output that cannot be written: a full disk is an error in one line, and a closed pipe is none.

use crate::process::{Ended, FREE, larder, run};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The reason of the system for a write to `/dev/full`.
const FULL: &str = "No space left on device (os error 28)";

fn run_with(command: &mut Command, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Ended {
    let ended = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (stdout, stderr) = (text(ended.stdout), text(ended.stderr));
    Ended { code: ended.status.code(), stdout, stderr, waited: Duration::ZERO }
}

fn run_on_full_disk(command: &mut Command) -> Ended {
    run_with(command, full(), Stdio::piped())
}

/// Runs with a pipe whose reader has gone.
fn run_on_closed_pipe(command: &mut Command) -> Ended {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    run_with(command, writer, Stdio::piped())
}

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("Linux has it")
}

fn token(database: &Path, words: &[&str]) -> Command {
    let mut command = larder(["links", "token"]);
    command.args(words).env("LARDER_LINKS_DATABASE", database);
    command
}

#[test]
fn full_disk_is_an_error_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    assert_eq!(run(&mut token(&database, &["add"])).code, Some(0));
    let csv = folder.path().join("links.csv");
    std::fs::write(&csv, "name,url\nA,https://a.example/\n").expect("the file can be written");
    let mut import = larder(["links", "import"]);
    import.arg(&csv).arg("--database").arg(&database);
    let mut export = larder(["links", "export"]);
    export.env("LARDER_LINKS_DATABASE", &database);
    for (name, mut command) in [
        ("config", larder(["config"])),
        ("completions", larder(["completions", "zsh"])),
        ("links token", token(&database, &["list"])),
        ("links token", token(&database, &["remove", "1"])),
        ("links import", import),
        ("links export", export),
        ("server", larder(["server", "--listen", FREE])),
    ] {
        let ended = run_on_full_disk(&mut command);
        ended.assert_failure(&format!("larder {name}: cannot write to the standard output: {FULL}"));
    }
}

#[test]
fn help_on_a_full_disk_is_an_error_in_one_line() {
    for words in [&["help"][..], &["--version"], &["server", "--help"]] {
        run_on_full_disk(&mut larder(words))
            .assert_failure(&format!("larder: cannot write to the standard output: {FULL}"));
        let closed = run_on_closed_pipe(&mut larder(words));
        assert_eq!((closed.code, &*closed.stderr), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn closed_pipe_ends_quietly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    assert_eq!(run(&mut token(&database, &["add"])).code, Some(0));
    for mut command in [larder(["config"]), larder(["completions", "zsh"]), token(&database, &["list"])] {
        let ended = run_on_closed_pipe(&mut command);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{command:?}");
    }
}

#[test]
fn token_that_cannot_be_shown_is_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("links.db");
    let start = "larder links token: no token was created: cannot write to the standard output";
    run_on_full_disk(&mut token(&database, &["add"])).assert_failure(&format!("{start}: {FULL}"));
    let closed = run_on_closed_pipe(&mut token(&database, &["add"]));
    closed.assert_failure(&format!("{start}: Broken pipe (os error 32)"));
    assert_eq!(run(&mut token(&database, &["list"])).stdout.lines().count(), 1, "only the heading");
}

#[test]
fn error_that_cannot_be_reported_keeps_its_status() {
    let ended = run_with(&mut larder(["server", "--config", "/nonexistent"]), Stdio::piped(), full());
    assert_eq!(ended.code, Some(1), "a panic has another status");
}
