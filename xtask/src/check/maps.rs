//! The documentation as a map of the tree: the paths that it names must exist, and every source file must say what it holds.

use crate::workspace::{files_below, root};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Paths in backticks, and targets of links, that the documentation names and the tree does not have.
pub(super) fn paths_exist() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for map in maps() {
        let text = std::fs::read_to_string(&map).with_context(|| format!("cannot read {}", map.display()))?;
        let name = map.strip_prefix(root()).unwrap_or(&map).display().to_string();
        let folder = map.parent().unwrap_or(Path::new(""));
        let named =
            text.split('`').skip(1).step_by(2).filter(|word| is_path(word)).map(|path| root().join(path));
        let linked = links(&text).map(|target| folder.join(target));
        wrong.extend(
            named
                .chain(linked)
                .filter(|path| !path.exists())
                .map(|path| format!("{name} names {}, which does not exist", shown(&path))),
        );
    }
    Ok(wrong)
}

/// All documents: those at the root and those in `docs/`.
fn maps() -> Vec<PathBuf> {
    let mut maps = files_below(&root().join("docs"), ".md");
    let at_root = std::fs::read_dir(root()).into_iter().flatten().flatten().map(|entry| entry.path());
    maps.extend(at_root.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    maps.sort();
    maps
}

/// Whether a word begins as a path of this tree does.
fn is_path(word: &str) -> bool {
    const ROOTS: &[&str] = &["crates/", "docs/", "config/", "xtask/", ".ci/"];
    let plain = !word.contains([' ', '*', '{', '<', '…']);
    plain && ROOTS.iter().any(|root| word.starts_with(root))
}

/// The targets of links to files, without their anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    local.filter_map(|target| target.split('#').next())
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Source files that do not open with a `//!` sentence.
pub(super) fn files_say_what_they_hold() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for folder in ["crates", "xtask"] {
        for file in files_below(&root().join(folder), ".rs") {
            if !std::fs::read_to_string(&file)?.starts_with("//! ") {
                wrong.push(format!("{} does not open with a sentence on what it holds", shown(&file)));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_targets_are_local_and_without_anchor() {
        let text = "[a](b.md#c) [d](https://e.test) [f](#g) ![h](i.png)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "i.png"]);
    }

    #[test]
    fn path_in_backticks_needs_a_folder_of_the_tree() {
        assert!(is_path("crates/larder/src/lib.rs") && !is_path("GET /crates/") && !is_path("crates/*/src"));
    }
}
