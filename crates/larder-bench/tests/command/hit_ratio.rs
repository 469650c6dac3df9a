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
        (vec!["--format", "lirs", "--capacity", "0"], "0 is not in 1..="),
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
