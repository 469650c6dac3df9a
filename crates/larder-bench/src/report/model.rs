//! The formula for what many nodes cost a primary, with the constants that the suite `scale` has measured:
//!
//! ```text
//! share of a core = f · N · h + (A / M) · (x + N · δ)
//! ```
//!
//! of N nodes that send f heartbeats a second each and announce A deletions a second together, on M primaries.

use crate::result::ResultFile;

/// The heartbeats of a node to each primary in a second.
const HEARTBEATS: f64 = 4.0;

/// The ways in which keys are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Alone = 0,
    Bursts = 1,
}

impl Manner {
    pub(super) const ALL: [Manner; 2] = [Manner::Alone, Manner::Bursts];

    fn workload(self) -> &'static str {
        match self {
            Manner::Alone => "delete alone",
            Manner::Bursts => "delete in bursts",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Manner::Alone => "alone",
            Manner::Bursts => "in bursts",
        }
    }
}

/// The constants; times in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    primaries: f64,
    heartbeat: f64,
    deletion: f64,
    delivery: f64,
    pub(super) connections: f64,
}

/// What a primary bears.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Of a core.
    pub(super) share: f64,
    pub(super) connections: f64,
}

impl Model {
    /// The medians of a subject.
    pub(super) fn of(file: &ResultFile, subject: &str, primaries: f64, manner: Manner) -> Option<Model> {
        let median =
            |workload: &str, measure: &str| Some(file.find(workload, measure, subject)?.spread().median);
        let seconds = |workload: &str, measure: &str| Some(median(workload, measure)?.max(0.0) * 1e-6);
        Some(Model {
            primaries,
            heartbeat: seconds("heartbeat", "server cpu")?,
            deletion: seconds(manner.workload(), "server cpu")?,
            delivery: seconds(manner.workload(), "server cpu for each node")?,
            connections: median("memory", "connections of a node")?,
        })
    }

    pub(super) fn at(self, nodes: f64, deletions: f64) -> Cost {
        let announcements = deletions / self.primaries * (self.deletion + nodes * self.delivery);
        Cost {
            share: HEARTBEATS * nodes * self.heartbeat + announcements,
            connections: nodes * self.connections,
        }
    }

    /// The number of nodes with which the primary has no time left.
    pub(super) fn nodes_at_full_core(self, deletions: f64) -> f64 {
        let each = HEARTBEATS * self.heartbeat + deletions / self.primaries * self.delivery;
        ((1.0 - deletions / self.primaries * self.deletion) / each).max(0.0).floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::result::tests::{figure, file};

    #[test]
    fn share_is_heartbeats_and_deliveries() {
        let constant =
            |workload, measure, value| figure(workload, "cluster of 3", measure, Better::Lower, &[value]);
        let file = file(vec![
            constant("heartbeat", "server cpu", 10.0),
            constant("delete alone", "server cpu", 30.0),
            constant("delete alone", "server cpu for each node", 3.0),
            constant("memory", "connections of a node", 6.0),
        ]);
        let model = Model::of(&file, "cluster of 3", 3.0, Manner::Alone).unwrap();
        let cost = model.at(100.0, 300.0);
        // 400 heartbeats, and 100 deletions a second that 100 nodes hear.
        assert!((cost.share - (0.004 + 100.0 * (30e-6 + 100.0 * 3e-6))).abs() < 1e-9, "{cost:?}");
        assert_eq!(cost.connections, 600.0);
        let full = model.nodes_at_full_core(300.0);
        assert!(model.at(full, 300.0).share <= 1.0 && model.at(full + 1.0, 300.0).share > 1.0);
        assert!(Model::of(&file, "one server", 1.0, Manner::Alone).is_none());
        assert!(Model::of(&file, "cluster of 3", 3.0, Manner::Bursts).is_none());
    }
}
