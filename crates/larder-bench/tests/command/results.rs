//! `list`, and `compare` and `report`, which read result files.

use crate::{bench, text};
use serde_json::{Value, json};
use std::path::Path;

/// A result file as `run` writes it, with one figure.
fn result_file(rounds: &[f64]) -> Value {
    let figure = json!({
        "workload": "get-zipf", "subject": "larder", "measure": "time", "unit": "ns", "better": "lower", "rounds": rounds,
    });
    let machine = json!({
        "processor": "a processor", "threads": 2, "memory_bytes": 1u64 << 34, "kernel": "6.1", "load_average": 0.0,
    });
    json!({
        "form": 1, "suite": "engine", "quick": false, "seed": 42, "date": "Sat, 21 Nov 2026 00:00:00 GMT",
        "commit": null, "debug_build": false, "machine": machine, "versions": {"moka": "0.12.16"}, "notes": [],
        "figures": [figure], "verdicts": [],
    })
}

fn write_results(folder: &Path, rounds: &[f64]) {
    std::fs::write(folder.join("engine.json"), result_file(rounds).to_string()).unwrap();
}

/// What `compare` prints about two result files.
fn compared(a: &Value, b: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [("a.json", a), ("b.json", b)].map(|(name, file)| {
        let path = folder.path().join(name);
        std::fs::write(&path, file.to_string()).unwrap();
        path.display().to_string()
    });
    let output = bench(&["compare", &a, &b]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// The cells of the figure in the output of `compare`.
fn cells(table: &str) -> Vec<&str> {
    let line = table.lines().find(|line| line.starts_with("get-zipf time, ns: larder")).expect("the figure");
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn list_prints_the_suites() {
    let output = bench(&["list"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("engine"), "{}", text(&output.stdout));
}

#[test]
fn unknown_suite_is_a_usage_error() {
    let output = bench(&["run", "engines"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("possible values: engine, hit-ratio"), "{}", text(&output.stderr));
}

#[test]
fn compare_prints_ratios() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_results(a.path(), &[40.0, 41.0, 42.0]);
    write_results(b.path(), &[20.0, 20.5, 21.0]);
    let output =
        bench(&["compare", a.path().to_str().unwrap(), b.path().join("engine.json").to_str().unwrap()]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        table.contains("get-zipf time, ns: larder") && table.contains("0.500") && table.contains("better"),
        "{table}"
    );
}

#[test]
fn ratio_to_zero_has_no_number_and_is_judged() {
    for (better, verdict) in [("lower", "worse"), ("higher", "better")] {
        let [a, b] = [&[0.0, 0.0][..], &[3.0, 4.0]].map(|rounds| {
            let mut file = result_file(rounds);
            file["figures"][0]["better"] = better.into();
            file
        });
        let table = compared(&a, &b);
        let expected = ["get-zipf time, ns: larder", "0", "3.50 (3.00–4.00)", "–", "–", verdict];
        assert_eq!(cells(&table), expected, "{table}");
    }
    let table = compared(&result_file(&[1e-9, 1e-9]), &result_file(&[2e10, 2e10]));
    assert_eq!(cells(&table)[3..], ["2.00e19", "2.00e19–2.00e19", "worse"], "{table}");
}

#[test]
fn ratio_that_prints_as_one_has_no_trend() {
    let table = compared(&result_file(&[1000.0, 1000.0]), &result_file(&[1002.0, 1002.0]));
    assert_eq!(cells(&table)[3..], ["1.00", "1.00–1.00"], "{table}");
    let table = compared(&result_file(&[1000.0, 1000.0]), &result_file(&[1020.0, 1020.0]));
    assert_eq!(cells(&table)[3..], ["1.02", "1.02–1.02", "worse"], "{table}");
}

#[test]
fn runs_that_are_not_comparable_are_not_judged() {
    let base = result_file(&[10.0, 10.0]);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut file = result_file(&[20.0, 20.0]);
        change(&mut file);
        compared(&base, &file)
    };
    let same = changed(&|_| {});
    assert!(
        same.contains(", seed 42") && same.contains("worse") && !same.contains("not comparable"),
        "{same}"
    );
    for (change, difference) in [
        (&(|file: &mut Value| file["quick"] = true.into()) as &dyn Fn(&mut Value), "quick"),
        (&|file: &mut Value| file["seed"] = 43.into(), "seed"),
        (&|file: &mut Value| file["machine"]["processor"] = "another".into(), "processor"),
        (&|file: &mut Value| file["machine"]["threads"] = 4.into(), "threads"),
        (&|file: &mut Value| file["debug_build"] = true.into(), "optimisation"),
    ] {
        let table = changed(change);
        let line = format!("A and B are not comparable and not judged: they differ in {difference}.");
        assert!(table.lines().any(|printed| printed == line), "{line}\n{table}");
        assert_eq!(cells(&table)[3..], ["2.00", "2.00–2.00"], "{table}");
    }
    let two = changed(&|file| {
        file["quick"] = true.into();
        file["seed"] = 7.into();
    });
    assert!(two.contains("they differ in quick, seed.\n") && two.contains(", seed 7"), "{two}");
}

#[test]
fn figures_of_different_units_have_no_ratio() {
    let mut other = result_file(&[20.0]);
    other["figures"][0]["unit"] = "µs".into();
    let figure = json!({
        "workload": "get", "subject": "larder", "measure": "cpu", "unit": "ns", "better": "lower", "rounds": [1.0],
    });
    let mut base = result_file(&[10.0]);
    for file in [&mut base, &mut other] {
        file["figures"].as_array_mut().unwrap().push(figure.clone());
    }
    let table = compared(&base, &other);
    let line = "get-zipf time of larder is in ns in A and in µs in B: no ratio.";
    assert!(table.lines().any(|printed| printed == line), "{table}");
    assert!(!table.contains("2.00") && table.contains("get cpu, ns: larder"), "{table}");
}

#[test]
fn figure_without_rounds_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.json");
    for (rounds, complaint) in
        [(json!([]), "has no rounds"), (json!([1.0, null]), "has a round that is no number")]
    {
        let mut file = result_file(&[]);
        file["figures"][0]["rounds"] = rounds;
        std::fs::write(&path, file.to_string()).unwrap();
        let (file, folder) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
        for arguments in [&["compare", file, file][..], &["report", folder]] {
            let output = bench(arguments);
            assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
            let line = format!("larder-bench: {file}: get-zipf time of larder {complaint}\n");
            assert_eq!(text(&output.stderr), line);
        }
    }
}

#[test]
fn report_writes_a_page_and_its_data() {
    let folder = tempfile::tempdir().unwrap();
    write_results(folder.path(), &[40.0, 41.0, 42.0]);
    // Twice: the files of the first report are no result files.
    for _ in 0..2 {
        let output = bench(&["report", folder.path().to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("get-zipf") && page.contains("moka 0.12.16"));
    let data = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let data: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(data[0]["figures"][0]["rounds"][1], 41.0);
}

#[test]
fn invalid_results_are_an_error_of_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let complaint = |arguments: &[&str]| {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr).to_owned()
    };
    assert!(complaint(&["report", path]).contains("has no result files"));
    assert!(complaint(&["compare", "/no/such/file", path]).contains("cannot open /no/such/file"));
    std::fs::write(folder.path().join("other.json"), "[]").unwrap();
    let stderr = complaint(&["report", path]);
    assert!(stderr.contains("other.json is not a result file") && stderr.lines().count() == 1, "{stderr}");
}
