//! Checks the dependencies between the modules of crate `larder`: they point to the same layer or to a lower one.

use crate::workspace::{files_below, root};
use anyhow::{Context, Result};

/// The layers, lowest first, with their modules. Every module must be listed.
const LAYERS: &[(&str, &[&str])] = &[
    ("basics", &["glob", "key", "schema", "stats", "task", "unwind"]),
    ("values", &["absence", "codec", "compression", "envelope", "policy", "random"]),
    ("tier", &["tier"]),
    ("errors", &["error", "events", "reach"]),
    ("node", &["node"]),
    ("coherence", &["coherence"]),
    ("fetch", &["fetch", "load"]),
    ("view", &["raw", "shared", "view"]),
    ("handles", &["builder", "cache", "dynamic", "local"]),
];

const SOURCE: &str = "crates/larder/src";

/// The dependencies that point up, with their file, line and layers.
pub(super) fn check() -> Result<Vec<String>> {
    let folder = root().join(SOURCE);
    let mut faults = Vec::new();
    for path in files_below(&folder, ".rs") {
        let file = path.strip_prefix(&folder)?.display().to_string();
        // The root of the crate re-exports every layer.
        if file != "lib.rs" {
            let source = std::fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
            faults.extend(file_faults(&file, &source));
        }
    }
    Ok(faults)
}

/// The faults of one file, whose path is relative to [`SOURCE`].
fn file_faults(file: &str, source: &str) -> Vec<String> {
    let module: Vec<&str> = file.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect();
    let Some(own) = layer(module[0]) else {
        return vec![format!("{SOURCE}/{file}: xtask/src/check/modules.rs has no layer for this module")];
    };
    let mut faults = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let location = format!("{SOURCE}/{file}:{}", index + 1);
        for used in paths_after(code, "crate::") {
            match layer(used) {
                Some(layer) if layer > own => faults.push(upward(&location, module[0], own, used, layer)),
                Some(_) => {}
                None => faults
                    .push(format!("{location}: crate::{used} is not a module; use the path of its module")),
            }
        }
        for used in modules_above(code, module.len()) {
            if let Some(layer) = layer(used).filter(|layer| *layer > own) {
                faults.push(upward(&location, module[0], own, used, layer));
            }
        }
    }
    faults
}

fn upward(location: &str, module: &str, own: usize, used: &str, layer: usize) -> String {
    let (own, layer) = (LAYERS[own].0, LAYERS[layer].0);
    format!("{location}: {module} (layer {own}) uses {used} (layer {layer}), which is higher")
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, modules)| modules.contains(&module))
}

/// The names after each `prefix` that starts a path.
fn paths_after<'a>(code: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(prefix)
        .filter(|(at, _)| {
            !code[..*at].ends_with(|before: char| is_name(before) || before == '$' || before == ':')
        })
        .map(move |(at, _)| leading_name(&code[at + prefix.len()..]))
}

/// The names in the root of the crate that a module at this depth uses through `super::`.
fn modules_above(code: &str, depth: usize) -> Vec<&str> {
    let to_root = "super::".repeat(depth);
    let starts = code.match_indices(&to_root);
    starts.map(|(start, _)| leading_name(&code[start + to_root.len()..])).collect()
}

fn leading_name(code: &str) -> &str {
    let end = code.find(|next| !is_name(next)).unwrap_or(code.len());
    &code[..end]
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_dependency_is_reported_with_line_and_layers() {
        let faults = file_faults("node/ledger.rs", "use crate::tier::Stamps;\nuse crate::view::View;\n");
        let expected =
            "crates/larder/src/node/ledger.rs:2: node (layer node) uses view (layer view), which is higher";
        assert_eq!(faults, [expected]);
    }

    #[test]
    fn inline_path_and_super_path_are_dependencies() {
        assert_eq!(file_faults("key.rs", "let entry = crate::node::entry::weigh(key);").len(), 1);
        assert_eq!(file_faults("node/entry.rs", "use super::super::fetch::Fetch;").len(), 1);
    }

    #[test]
    fn same_layer_and_lower_layers_are_allowed() {
        let source = "use crate::node::entry::MemoryEntry;\nuse super::Fetch;\nuse crate::load::LoadCx;\n";
        assert_eq!(file_faults("fetch/multi.rs", source), [""; 0]);
    }

    #[test]
    fn comments_and_macros_are_ignored() {
        let source = "/// See [`crate::view::View`].\nlet x = 1; // crate::view\n$crate::view::View\npub(crate) fn f() {}";
        assert_eq!(file_faults("glob.rs", source), [""; 0]);
    }

    #[test]
    fn root_path_is_reported() {
        assert_eq!(file_faults("view/mod.rs", "impl<V: crate::Schema> View<V> {}").len(), 1);
    }

    #[test]
    fn module_without_layer_is_reported() {
        assert_eq!(file_faults("unknown.rs", "").len(), 1);
    }
}
