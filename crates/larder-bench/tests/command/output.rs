//! Output that cannot be written: a full disk is an error, and a closed pipe is none.

use crate::command;
use std::fs::File;
use std::process::{Output, Stdio};

const WORDS: [&[&str]; 4] = [&["list"], &["--help"], &["run", "--help"], &["--version"]];

fn run(words: &[&str], stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Output {
    command().args(words).stdout(stdout).stderr(stderr).output().expect("it starts")
}

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("Linux has it")
}

/// The help was lost, with status 0.
#[test]
fn full_disk_is_an_error_in_one_line() {
    for words in WORDS {
        let ended = run(words, full(), Stdio::piped());
        let expected =
            "larder-bench: cannot write to the standard output: No space left on device (os error 28)\n";
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), &*stderr), (Some(1), expected), "{words:?}");
    }
}

#[test]
fn closed_pipe_ends_quietly() {
    for words in WORDS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = run(words, writer, Stdio::piped());
        assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]), "{words:?}");
    }
}

/// `eprintln!` panicked.
#[test]
fn error_that_cannot_be_reported_keeps_its_status() {
    let ended = run(&["report", "/nonexistent"], Stdio::piped(), full());
    assert_eq!(ended.status.code(), Some(1), "a panic has another status");
}
