//! Checks for unused dependencies, and for crates in several versions.

use crate::workspace::{array, files_below, members, text};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Crates with several versions, because our dependencies require different ones. Those from `getrandom` on are dependencies
/// of the schedule explorer and of the fuzz tests, in tests only. The second version of `base64` is that of async-graphql,
/// that of `miniz_oxide` is png's. That of `thiserror` is one of a test, which writes a database of countries. That of
/// `synstructure` is never built: it belongs to an optional dependency of rcgen that is not enabled, and cargo lists it. The
/// clients of SQLite and of PostgreSQL require different versions of `fallible-iterator`, and PostgreSQL's TLS an older
/// `const-oid`; `wasi` is for another platform. ratatui requires newer versions of `darling` and `strum` than async-graphql, and
/// prost a newer one of `itertools` than ratatui.
const ALLOWED_DUPLICATES: &[&str] = &[
    "base64",
    "const-oid",
    "darling",
    "darling_core",
    "darling_macro",
    "embedded-io",
    "fallible-iterator",
    "itertools",
    "miniz_oxide",
    "strum",
    "strum_macros",
    "syn",
    "synstructure",
    "thiserror",
    "thiserror-impl",
    "getrandom",
    "proc-macro-crate",
    "r-efi",
    "rand",
    "rand_chacha",
    "rand_core",
    "toml_datetime",
    "toml_edit",
    "wasi",
    "windows-sys",
    "winnow",
];

/// The dependencies whose name occurs in no source file of their package.
pub(super) fn unused(metadata: &Value) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for package in members(metadata) {
        let manifest = Path::new(text(&package["manifest_path"]));
        let folder = manifest.parent().context("a manifest is in a folder")?;
        let mut source = String::new();
        for file in files_below(folder, ".rs") {
            source.push_str(&std::fs::read_to_string(&file)?);
        }
        for dependency in array(&package["dependencies"]) {
            let name = dependency["rename"].as_str().unwrap_or(text(&dependency["name"]));
            if !source.contains(&name.replace('-', "_")) {
                faults.push(format!("{} depends on {name} and does not use it", text(&package["name"])));
            }
        }
    }
    Ok(faults)
}

/// The crates with several versions that are not allowed duplicates.
pub(super) fn duplicates(metadata: &Value) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in array(&metadata["packages"]) {
        versions.entry(text(&package["name"])).or_default().push(text(&package["version"]));
    }
    versions
        .into_iter()
        .filter(|(name, versions)| versions.len() > 1 && !ALLOWED_DUPLICATES.contains(name))
        .map(|(name, versions)| {
            format!("{name} is built in {} versions: {}", versions.len(), versions.join(", "))
        })
        .collect()
}
