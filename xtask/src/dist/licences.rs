//! The licences of the crates that the program is built from, in one text: most of them demand that a copy comes with the program.

use super::sbom::packages;
use crate::graph::Graph;
use crate::workspace::{files_below, text};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// What the name of a file with a licence begins with.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// Each text once, below the names of the crates that have it.
pub(super) fn collect(graph: &Graph, metadata: &Value) -> Result<String> {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::from("The crates that larder is built from, and their licences.\n\n");
    for (_, package) in packages(graph, metadata)? {
        // The licences of our own crates are files of their own.
        if package["source"].is_null() {
            continue;
        }
        let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
        writeln!(list, "{name}: {}", text(&package["license"]))?;
        let folder =
            Path::new(text(&package["manifest_path"])).parent().context("a manifest is in a folder")?;
        for file in files_below(folder, "").into_iter().filter(|file| is_licence(file)) {
            let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let owners = owners.entry(String::from_utf8_lossy(&bytes).trim().to_owned()).or_default();
            if owners.last() != Some(&name) {
                owners.push(name.clone());
            }
        }
    }
    for (text, names) in owners {
        write!(list, "\n{}\n{}:\n\n{text}\n", "─".repeat(100), names.join(", "))?;
    }
    Ok(list)
}

fn is_licence(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    let is_source = [".RS", ".C", ".H", ".PY", ".JSON"].iter().any(|ending| name.ends_with(ending));
    NAMES.iter().any(|start| name.starts_with(start)) && !is_source
}
