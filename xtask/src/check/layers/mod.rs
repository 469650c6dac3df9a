//! Checks the dependencies between the files of a crate: they point down its layers, and form no circles.

mod crates;
mod graph;
mod source;

use anyhow::Result;
use crates::{CRATES, CrateLayers, Exception};
use graph::Graph;
use std::collections::BTreeSet;

/// The file that a fault tells its reader to change.
const LIST: &str = "xtask/src/check/layers/crates.rs";

/// The dependencies that point up, the circles, and the exceptions that nothing needs any more.
pub(super) fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for list in CRATES {
        let graph = Graph::new(&source::modules(list.name)?);
        faults.extend(crate_faults(list, &graph));
    }
    Ok(faults)
}

fn crate_faults(list: &CrateLayers, graph: &Graph) -> Vec<String> {
    let mut faults = missing_modules(list, graph);
    faults.extend(upward_arrows(list, graph));
    let mut needed = vec![false; list.exceptions.len()];
    faults.extend(circles(list, graph, &mut needed));
    let unneeded = list.exceptions.iter().zip(needed).filter(|(_, needed)| !needed);
    faults.extend(unneeded.map(|(exception, _)| {
        format!("{LIST}: {} has an exception for what does not exist: {}", list.name, exception.describe())
    }));
    faults
}

/// The modules without layer, and the layers' modules that do not exist.
fn missing_modules(list: &CrateLayers, graph: &Graph) -> Vec<String> {
    let existing: BTreeSet<&str> =
        graph.files.iter().map(|file| top_module(file)).filter(|module| !is_root(module)).collect();
    let listed: BTreeSet<&str> = list.layers.iter().flat_map(|(_, modules)| *modules).copied().collect();
    let without_layer = existing
        .difference(&listed)
        .map(|module| format!("{LIST}: module {module} of {} has no layer", list.name));
    let without_module = listed
        .difference(&existing)
        .map(|module| format!("{LIST}: {} has no module {module}, which a layer names", list.name));
    without_layer.chain(without_module).collect()
}

fn upward_arrows(list: &CrateLayers, graph: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    for ((from, to), line) in &graph.arrows {
        let (Some(from_layer), Some(to_layer)) = (list.layer(from), list.layer(to)) else { continue };
        if to_layer <= from_layer {
            continue;
        }
        faults.push(format!(
            "crates/{}/src/{from}:{line}: layer {} uses {to} of layer {}, which is higher",
            list.name, list.layers[from_layer].0, list.layers[to_layer].0
        ));
    }
    faults
}

fn circles(list: &CrateLayers, graph: &Graph, needed: &mut [bool]) -> Vec<String> {
    let mut faults = Vec::new();
    for circle in graph.circles() {
        match list.exceptions.iter().position(|exception| exception.is_circle(&circle)) {
            Some(index) => needed[index] = true,
            None => {
                let arrows = graph
                    .between_modules()
                    .filter(|(from, to, _)| circle.contains(from) && circle.contains(to));
                let arrows: Vec<String> =
                    arrows.map(|(from, to, line)| format!("{from}:{line} → {to}")).collect();
                faults.push(format!(
                    "crates/{}/src: {} files form a circle: {}",
                    list.name,
                    circle.len(),
                    arrows.join(", ")
                ));
            }
        }
    }
    faults
}

impl CrateLayers {
    fn layer(&self, file: &str) -> Option<usize> {
        let module = top_module(file);
        self.layers.iter().position(|(_, modules)| modules.contains(&module))
    }
}

impl Exception {
    /// Whether this is a circle of exactly these files.
    fn is_circle(&self, files: &BTreeSet<&str>) -> bool {
        let Self::Circle { files: own } = self;
        own.iter().copied().collect::<BTreeSet<_>>() == *files
    }

    fn describe(&self) -> String {
        let Self::Circle { files } = self;
        format!("a circle of {}", files.join(", "))
    }
}

/// The name of the module in the root of the crate that a file belongs to.
fn top_module(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn is_root(module: &str) -> bool {
    matches!(module, "lib" | "main")
}

#[cfg(test)]
mod tests;
