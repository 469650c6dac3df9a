//! `run` that fails or is ended: what it leaves.

use crate::{bench, command, text};
use larder_process::Running;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of processes whose command line has this folder, without that of the run itself.
fn processes_with(folder: &Path, run: u32) -> usize {
    let has_folder = |line: Vec<u8>| String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy());
    let ids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let lines =
        ids.filter(|id: &u32| *id != run).filter_map(|id| std::fs::read(format!("/proc/{id}/cmdline")).ok());
    lines.filter(|line| has_folder(line.clone())).count()
}

fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(120), "too late");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn run_that_is_terminated_leaves_no_process_and_no_folder() {
    if larder_testkit::program("redis-server").is_none() {
        return;
    }
    for (send, status) in [(Running::terminate as fn(&Running), 143), (Running::interrupt, 130)] {
        let [folder, out] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut run = command();
        run.args(["run", "tiers", "--quick", "--out"]).arg(out.path()).env("TMPDIR", folder.path());
        let mut run = Running::start(run.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
        let id = run.id();
        until(|| processes_with(folder.path(), id) > 0);
        send(&run);
        let ended = run.wait_within(Duration::from_secs(60)).unwrap().expect("the run ends");
        assert_eq!(ended.code(), Some(status), "{ended:?}");
        until(|| processes_with(folder.path(), id) == 0);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn run_that_fails_leaves_no_empty_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = command().args(arguments).current_dir(folder.path()).env("PATH", "").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    };
    run(&["run", "server", "--quick"]);
    run(&["run", "server", "--quick", "--out", "a/b"]);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    // A folder that was there stays.
    std::fs::create_dir(folder.path().join("mine")).unwrap();
    run(&["run", "server", "--quick", "--out", "mine"]);
    assert!(folder.path().join("mine").is_dir());
}

#[test]
fn default_folder_of_results_is_not_the_program_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("larder-bench");
    std::fs::copy(env!("CARGO_BIN_EXE_larder-bench"), &program).unwrap();
    let mut run = Command::new(&program);
    let output =
        run.args(["run", "server", "--quick"]).current_dir(folder.path()).env("PATH", "").output().unwrap();
    assert!(!text(&output.stderr).contains("cannot create"), "{}", text(&output.stderr));
    assert!(text(&bench(&["run", "--help"]).stdout).contains("./bench-results/"));
}

#[test]
fn results_that_cannot_be_written_are_an_error_before_the_run() {
    let ended = bench(&["run", "tiers", "--quick", "--out", "/dev/null/results"]);
    let expected = "larder-bench: cannot create /dev/null/results: Not a directory (os error 20)\n";
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(1), expected));
    assert_eq!(text(&ended.stdout), "");
}

#[test]
fn number_out_of_range_is_a_usage_error_with_the_range() {
    for (words, flag, range) in [
        (&["run", "--seed", "x"][..], "--seed <N>", "0 to 18446744073709551615"),
        (
            &["hit-ratio", "--synthetic", "zipf:keys=9", "--capacity", "0"],
            "--capacity <N>",
            "1 to 4611686018427387904",
        ),
    ] {
        let ended = bench(words);
        let value = words.last().expect("a value");
        let line =
            format!("error: invalid value '{value}' for '{flag}': expected a whole number from {range}\n");
        assert!(ended.status.code() == Some(2) && text(&ended.stderr).starts_with(&line), "{ended:?}");
    }
    let source = bench(&["hit-ratio", "--capacity", "100"]);
    let message = text(&source.stderr);
    assert!(message.contains("--trace <FILE>") && message.contains("--synthetic <SPEC>"), "{message}");
}
