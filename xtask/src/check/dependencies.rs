//! Dependencies that nothing uses, and crates that are built in twice.

use crate::workspace::{array, files_below, members, text};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Crates that come in several versions because crates that we use have not moved to the same one yet: the last four
/// with the explorer of schedules, in tests only.
const KNOWN_TWICE: &[&str] = &["embedded-io", "syn", "getrandom", "rand", "rand_core", "windows-sys"];

/// A dependency whose name occurs in no source file of its package.
pub(super) fn unused(metadata: &Value) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for package in members(metadata) {
        let manifest = Path::new(text(&package["manifest_path"]));
        let folder = manifest.parent().context("a manifest lies in a folder")?;
        let mut source = String::new();
        for file in files_below(folder, ".rs") {
            source.push_str(&std::fs::read_to_string(&file)?);
        }
        for dependency in array(&package["dependencies"]) {
            let name = dependency["rename"].as_str().unwrap_or(text(&dependency["name"]));
            if !source.contains(&name.replace('-', "_")) {
                wrong.push(format!("{} depends on {name} and does not use it", text(&package["name"])));
            }
        }
    }
    Ok(wrong)
}

/// A crate in more than one version that the list does not know.
pub(super) fn duplicates(metadata: &Value) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in array(&metadata["packages"]) {
        versions.entry(text(&package["name"])).or_default().push(text(&package["version"]));
    }
    versions
        .into_iter()
        .filter(|(name, versions)| versions.len() > 1 && !KNOWN_TWICE.contains(name))
        .map(|(name, versions)| {
            format!("{name} is built in {} versions: {}", versions.len(), versions.join(", "))
        })
        .collect()
}
