//! Checks that the paths in the documentation exist, that every source file starts with a description, and that the modules
//! that a description lists exist.

use crate::workspace::{files_below, root};
use anyhow::{Context, Result};
use std::collections::HashSet;
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
    const ROOTS: &[&str] = &["crates/", "docs/", "config/", "packaging/", "xtask/", ".ci/"];
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

/// The source files that do not start with a `//!` line, and those that list modules in it which they do not have.
pub(super) fn check_descriptions() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for folder in ["crates", "xtask"] {
        for file in files_below(&root().join(folder), ".rs") {
            let text = std::fs::read_to_string(&file)?;
            if !text.starts_with("//! ") {
                faults.push(format!("{} does not start with a `//!` description", relative(&file)));
            }
            let missing = missing_modules(&text);
            faults.extend(
                missing.map(|name| format!("{} lists {name}, which it does not have", relative(&file))),
            );
        }
    }
    Ok(faults)
}

/// The names of modules that a description links to, and that are no words of the code: no module, function or import has
/// them. Only a file that declares modules lists any.
fn missing_modules(text: &str) -> impl Iterator<Item = &str> {
    let (description, code): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("//!"));
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let code: Vec<&str> = code.into_iter().filter(|line| !line.trim_start().starts_with("//")).collect();
    let words: HashSet<&str> =
        code.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    let has_modules =
        code.iter().any(|line| line.ends_with(';') && line.split(' ').any(|word| word == "mod"));
    let links = description.into_iter().flat_map(|line| line.split("[`").skip(1));
    let names = links.filter_map(|rest| rest.split_once("`]")).filter(|(_, rest)| !rest.starts_with('('));
    names.map(|(name, _)| name).filter(is_name).filter(move |name| has_modules && !words.contains(name))
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
    fn listed_modules_are_declared_or_imported() {
        let head = "//! - [`lookup`], [`lease`]: in Redis; [`Ledger`], [`begin`], [`out`](crate::out).\n";
        let code = "// lookup\nmod lease;\nuse tier::begin;\n";
        assert_eq!(missing_modules(&format!("{head}{code}")).collect::<Vec<_>>(), ["lookup"]);
        assert_eq!(missing_modules(head).count(), 0, "a file without modules has no list of them");
    }

    #[test]
    fn is_path_requires_a_folder_of_the_tree() {
        assert!(is_path("crates/larder/src/lib.rs") && !is_path("GET /crates/") && !is_path("crates/*/src"));
    }
}
