//! The metrics of `larder up`, and the Grafana dashboard that draws them.

use crate::http::get;
use crate::process::Up;
use std::collections::BTreeSet;

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("larder_")).collect()
}

#[test]
fn grafana_dashboard_uses_metrics_that_exist() {
    let data = tempfile::tempdir().unwrap();
    let up = Up::start(data.path());
    let metrics = get(up.admin, "/metrics").body;
    let existing = names(&metrics);
    let dashboard = include_str!("../../../../docs/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let used = names(expression);
            assert!(!used.is_empty(), "{expression}");
            for name in used {
                assert!(
                    existing.contains(name),
                    "{} draws {name}, which is not in\n{metrics}",
                    panel["title"]
                );
            }
        }
    }
    assert_eq!(panels.len(), 10);
    up.stop();
}
