//! Maps rot first: the paths that ARCHITECTURE.md names must exist, and every source file must say what it holds.

use crate::workspace::{files_below, root};
use anyhow::{Context, Result};

/// Paths in backticks that ARCHITECTURE.md and README.md name and the tree does not have.
pub(super) fn paths_exist() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for map in ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root().join(map)).with_context(|| format!("cannot read {map}"))?;
        let named = text.split('`').skip(1).step_by(2).filter(|word| is_path(word));
        wrong.extend(
            named
                .filter(|path| !root().join(path).exists())
                .map(|path| format!("{map} names {path}, which does not exist")),
        );
    }
    Ok(wrong)
}

/// A word that begins as a path of this tree does.
fn is_path(word: &str) -> bool {
    const ROOTS: &[&str] = &["crates/", "docs/", "config/", "xtask/", ".ci/", "fuzz/"];
    let plain = !word.contains([' ', '*', '{', '<', '…']);
    plain && ROOTS.iter().any(|root| word.starts_with(root))
}

/// Source files that do not open with a `//!` sentence.
pub(super) fn files_say_what_they_hold() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for folder in ["crates", "xtask"] {
        for file in files_below(&root().join(folder), ".rs") {
            if !std::fs::read_to_string(&file)?.starts_with("//! ") {
                let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
                wrong.push(format!("{name} does not open with a sentence on what it holds"));
            }
        }
    }
    Ok(wrong)
}
