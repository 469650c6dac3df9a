//! Checks that the paths in the documentation exist, and that every source file starts with a description.

use crate::workspace::{files_below, root};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The paths in backticks and the targets of links in the documentation that do not exist.
pub(super) fn paths_exist() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document)
            .with_context(|| format!("cannot read {}", document.display()))?;
        let name = relative(&document);
        let folder = document.parent().unwrap_or(Path::new(""));
        let named =
            text.split('`').skip(1).step_by(2).filter(|word| is_path(word)).map(|path| root().join(path));
        let linked = links(&text).map(|target| folder.join(target));
        faults.extend(
            named
                .chain(linked)
                .filter(|path| !path.exists())
                .map(|path| format!("{name} mentions {}, which does not exist", relative(&path))),
        );
    }
    Ok(faults)
}

/// All documents, at the root and in `docs/`.
fn documents() -> Vec<PathBuf> {
    let mut documents = files_below(&root().join("docs"), ".md");
    let at_root = std::fs::read_dir(root()).into_iter().flatten().flatten().map(|entry| entry.path());
    documents.extend(at_root.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    documents.sort();
    documents
}

/// Whether a word starts like a path of the tree.
fn is_path(word: &str) -> bool {
    const ROOTS: &[&str] = &["crates/", "docs/", "config/", "xtask/", ".ci/"];
    let is_literal = !word.contains([' ', '*', '{', '<', '…']);
    is_literal && ROOTS.iter().any(|root| word.starts_with(root))
}

/// The targets of links to files, without their anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    local.filter_map(|target| target.split('#').next())
}

/// A path relative to the root.
fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The source files that do not start with a `//!` line.
pub(super) fn files_have_descriptions() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for folder in ["crates", "xtask"] {
        for file in files_below(&root().join(folder), ".rs") {
            if !std::fs::read_to_string(&file)?.starts_with("//! ") {
                faults.push(format!("{} does not start with a `//!` description", relative(&file)));
            }
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_local_targets_without_anchors() {
        let text = "[a](b.md#c) [d](https://e.test) [f](#g) ![h](i.png)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "i.png"]);
    }

    #[test]
    fn is_path_requires_a_folder_of_the_tree() {
        assert!(is_path("crates/larder/src/lib.rs") && !is_path("GET /crates/") && !is_path("crates/*/src"));
    }
}
