//! `hit-ratio`: its table, its JSON and its errors.

use crate::{bench, text};
use std::io::Write;
use tempfile::NamedTempFile;

fn trace(content: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    file
}

fn looped() -> NamedTempFile {
    let lines: String = (0..3000).map(|n| format!("{}\n", n % 400)).collect();
    trace(lines.as_bytes())
}

#[test]
fn table_has_every_cache_and_the_optimum() {
    let file = looped();
    let output = bench(&[
        "hit-ratio",
        "--trace",
        file.path().to_str().unwrap(),
        "--format",
        "lirs",
        "--capacity",
        "300",
    ]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for expected in
        ["3,000 requests, capacity 300 entries", "Bélády's optimum is", "quick_cache", "moka", "ctd"]
    {
        assert!(table.contains(expected), "{expected:?} is missing in\n{table}");
    }
}

#[test]
fn json_has_one_object_per_line() {
    let file = looped();
    let path = file.path().to_str().unwrap();
    let output =
        bench(&["hit-ratio", "--trace", path, "--format", "lirs", "--capacity", "300", "--all", "--json"]);
    let rows: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= 9);
    for row in &rows {
        let (hits, ratio) = (row["hits"].as_f64().unwrap(), row["hit_ratio"].as_f64().unwrap());
        // The parser of JSON may be wrong in the last bit.
        assert!((hits / 3000.0 - ratio).abs() < 1e-12, "{row}");
        assert_eq!((&row["requests"], &row["capacity"]), (&3000.into(), &300.into()));
        assert_eq!(row["trace"], path);
        assert!(row["source"].is_string() && row["policy"].is_string());
        if row["source"] == "larder" {
            assert!(row["max_weight_seen"].as_u64().unwrap() <= 300, "{row}");
        }
    }
}

#[test]
fn contradictory_flags_exit_with_2() {
    let file = looped();
    let path = file.path().to_str().unwrap();
    for (flags, complaint) in [
        (vec!["--format", "lirs", "--capacity", "10", "--bytes"], "--bytes requires sizes"),
        (vec!["--format", "lirs", "--capacity", "0"], "expected a whole number from 1 to"),
        (vec!["--format", "lirs", "--capacity", "10", "--policy", "best"], "possible values: ctd"),
        (vec!["--format", "lirs", "--capacity", "10", "--policy", "lru", "--all"], "cannot be used with"),
        (vec!["--format", "csv", "--capacity", "10"], "possible values: arc, lirs"),
    ] {
        let output = bench(&[&["hit-ratio", "--trace", path], &flags[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(text(&output.stderr).contains(complaint), "{flags:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn unreadable_trace_is_an_error_of_one_line() {
    let truncated = trace(&[0; 12]);
    let empty = trace(b"");
    for (path, format, complaint) in [
        ("/no/such/file", "lirs", "cannot open /no/such/file"),
        (truncated.path().to_str().unwrap(), "u64be", "byte 8: ends after 4 of the 8 bytes of a record"),
        (empty.path().to_str().unwrap(), "lirs", "has no requests"),
    ] {
        let output = bench(&["hit-ratio", "--trace", path, "--format", format, "--capacity", "10"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr.contains(complaint) && stderr.lines().count() == 1, "{stderr}");
    }
}

#[test]
fn synthetic_requests_replace_a_trace() {
    let run = |seed: &str| {
        let spec = format!("window:keys=500,drift=0.2,requests=20000,seed={seed}");
        let output = bench(&[
            "hit-ratio",
            "--synthetic",
            &spec,
            "--capacity",
            "400",
            "--policy",
            "lru",
            "--shards",
            "1",
            "--json",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let row: serde_json::Value = serde_json::from_str(text(&output.stdout)).unwrap();
        assert_eq!((&row["trace"], &row["requests"]), (&spec.into(), &20_000.into()));
        row["hits"].as_u64().unwrap()
    };
    assert_eq!(run("3"), run("3"));
    assert_ne!(run("3"), run("4"));
}

#[test]
fn synthetic_loop_has_no_hits_under_lru() {
    let flags = ["hit-ratio", "--synthetic", "loop:keys=300,requests=5000", "--capacity", "256", "--all"];
    let output = bench(&flags);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(table.starts_with("loop:keys=300,requests=5000,seed=1: 5,000 requests, capacity 256"), "{table}");
    let lru = table.lines().find(|line| line.contains("reference")).unwrap();
    assert!(lru.contains("0.00 %"), "{lru}");
}

#[test]
fn largest_capacity_is_that_of_all_keys() {
    let largest = (1u64 << 62).to_string();
    let flags = ["hit-ratio", "--synthetic", "loop:keys=3,requests=100", "--all", "--capacity", &largest];
    let output = bench(&flags);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("capacity 4,611,686,018,427,387,904"), "{table}");
    let lines = || table.lines().skip_while(|line| !line.starts_with("cache"));
    assert!(lines().skip(1).all(|line| line.contains("97.00 %")), "{table}");
}

#[test]
fn wrong_synthetic_spec_exits_with_2_and_names_the_part() {
    for (flags, complaint) in [
        (vec!["--synthetic", "zipf:keys=0"], "keys is a whole number from 1 to 10000000"),
        (vec!["--synthetic", "stack:keys=99999999999"], "keys is a whole number from 1 to 1000000"),
        (vec!["--synthetic", "zip"], "there is no workload \"zip\""),
        (vec!["--synthetic", "loop", "--trace", "x", "--format", "lirs"], "cannot be used with"),
        (vec!["--synthetic", "loop", "--format", "lirs"], "cannot be used with"),
        (vec!["--synthetic", "loop", "--bytes"], "cannot be used with"),
        (vec!["--trace", "x"], "--format"),
        (vec![], "--trace"),
    ] {
        let output = bench(&[&["hit-ratio", "--capacity", "10"], &flags[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(text(&output.stderr).contains(complaint), "{flags:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn help_explains_the_synthetic_workloads() {
    let output = bench(&["hit-ratio", "--help"]);
    let help = text(&output.stdout);
    for kind in ["zipf", "stack", "loop", "window", "scan", "phases"] {
        assert!(help.contains(&format!("\n          {kind} ")), "{kind} is missing in\n{help}");
    }
}
