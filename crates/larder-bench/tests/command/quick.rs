//! `quick`: the server that it measures is a process, and wrong names.

use crate::{bench, text};
use larder_testkit::program;

#[test]
fn quick_server_has_a_ratio_for_each_workload_and_peer() {
    if ["redis-server", "redis-benchmark"].iter().any(|name| program(name).is_none()) {
        return;
    }
    let ended = bench(&["quick", "server"]);
    assert!(ended.status.success(), "{ended:?}");
    let table = text(&ended.stdout);
    for workload in ["get-50", "set-50", "get-50-p16"] {
        for peer in ["redis", "bare loop"] {
            let is_row =
                |line: &&str| line.split_whitespace().next() == Some(workload) && line.contains(peer);
            let row = table.lines().find(is_row).unwrap_or_else(|| panic!("{workload}, {peer}:\n{table}"));
            let ratio = row.split_whitespace().rev().nth(1).expect("the row has a ratio");
            assert!(ratio.replace(',', "").parse::<f64>().expect("a number") > 0.0, "{row}");
        }
    }
}

#[test]
fn unknown_part_is_a_usage_error_with_the_parts() {
    let ended = bench(&["quick", "tiers"]);
    let expected =
        "error: invalid value 'tiers' for '<PART>'\n  [possible values: engine, larder, http, server]\n";
    assert!(ended.status.code() == Some(2) && text(&ended.stderr).starts_with(expected), "{ended:?}");
}
