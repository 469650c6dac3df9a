//! Checks the dependencies between the files of a crate: they point down its layers, and form no circles.

mod graph;
mod houses;
mod source;

use anyhow::Result;
use graph::Graph;
use houses::{Exception, HOUSES, House};
use std::collections::BTreeSet;

/// The file that a fault tells its reader to change.
const LIST: &str = "xtask/src/check/layers/houses.rs";

/// The dependencies that point up, the circles, and the exceptions that nothing needs any more.
pub(super) fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for house in HOUSES {
        let graph = Graph::new(&source::modules(house.name)?);
        faults.extend(house_faults(house, &graph));
    }
    Ok(faults)
}

fn house_faults(house: &House, graph: &Graph) -> Vec<String> {
    let mut faults = missing_modules(house, graph);
    faults.extend(upward_arrows(house, graph));
    let mut needed = vec![false; house.exceptions.len()];
    faults.extend(circles(house, graph, &mut needed));
    let unneeded = house.exceptions.iter().zip(needed).filter(|(_, needed)| !needed);
    faults.extend(unneeded.map(|(exception, _)| {
        format!("{LIST}: {} has an exception for what does not exist: {}", house.name, exception.describe())
    }));
    faults
}

/// The modules without layer, and the layers' modules that do not exist.
fn missing_modules(house: &House, graph: &Graph) -> Vec<String> {
    let existing: BTreeSet<&str> =
        graph.files.iter().map(|file| top_module(file)).filter(|module| !is_root(module)).collect();
    let listed: BTreeSet<&str> = house.layers.iter().flat_map(|(_, modules)| *modules).copied().collect();
    let without_layer = existing
        .difference(&listed)
        .map(|module| format!("{LIST}: module {module} of {} has no layer", house.name));
    let without_module = listed
        .difference(&existing)
        .map(|module| format!("{LIST}: {} has no module {module}, which a layer names", house.name));
    without_layer.chain(without_module).collect()
}

fn upward_arrows(house: &House, graph: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    for ((from, to), line) in &graph.arrows {
        let (Some(own), Some(used)) = (house.layer(from), house.layer(to)) else { continue };
        if used <= own {
            continue;
        }
        faults.push(format!(
            "crates/{}/src/{from}:{line}: layer {} uses {to} of layer {}, which is higher",
            house.name, house.layers[own].0, house.layers[used].0
        ));
    }
    faults
}

fn circles(house: &House, graph: &Graph, needed: &mut [bool]) -> Vec<String> {
    let mut faults = Vec::new();
    for circle in graph.circles() {
        match house.exceptions.iter().position(|exception| exception.is_circle(&circle)) {
            Some(index) => needed[index] = true,
            None => {
                let arrows = graph
                    .between_rooms()
                    .filter(|(from, to, _)| circle.contains(from) && circle.contains(to));
                let arrows: Vec<String> =
                    arrows.map(|(from, to, line)| format!("{from}:{line} → {to}")).collect();
                faults.push(format!(
                    "crates/{}/src: {} files form a circle: {}",
                    house.name,
                    circle.len(),
                    arrows.join(", ")
                ));
            }
        }
    }
    faults
}

impl House {
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
