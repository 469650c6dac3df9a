//! The arrows between the files of a crate, and the circles that they form.

use super::source::{Module, stem};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The files of a crate, and which file uses which, with one line that does.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) files: BTreeSet<String>,
    pub(super) arrows: BTreeMap<(String, String), usize>,
}

impl Graph {
    pub(super) fn new(modules: &[Module]) -> Self {
        let by_path: HashMap<&[String], &Module> =
            modules.iter().rev().map(|module| (module.path.as_slice(), module)).collect();
        let mut graph = Self::default();
        for module in modules {
            graph.files.insert(module.file.clone());
            for (path, line) in &module.uses {
                let Some(used) = resolve(&by_path, module, path, 0) else { continue };
                if used.file != module.file {
                    graph.arrows.entry((module.file.clone(), used.file.clone())).or_insert(*line);
                }
            }
        }
        graph
    }

    /// The arrows between files of which none is the parent of the other.
    pub(super) fn between_modules(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        let arrows = self.arrows.iter().map(|((from, to), line)| (from.as_str(), to.as_str(), *line));
        arrows.filter(|(from, to, _)| !is_parent(from, to) && !is_parent(to, from))
    }

    /// The circles: the largest sets of files that reach each other, parents aside.
    pub(super) fn circles(&self) -> Vec<BTreeSet<&str>> {
        let mut targets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (from, to, _) in self.between_modules() {
            targets.entry(from).or_default().push(to);
        }
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            targets.keys().map(|file| (*file, reachable(&targets, file))).collect();
        let mut circles: Vec<BTreeSet<&str>> = Vec::new();
        for (file, reach) in &reached {
            if !reach.contains(file) || circles.iter().any(|circle| circle.contains(file)) {
                continue;
            }
            circles.push(reach.iter().copied().filter(|other| reached[other].contains(file)).collect());
        }
        circles
    }
}

fn reachable<'a>(targets: &BTreeMap<&'a str, Vec<&'a str>>, start: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        for target in targets.get(file).into_iter().flatten() {
            if reached.insert(*target) {
                open.push(target);
            }
        }
    }
    // Only files with arrows of their own can be part of a circle.
    reached.retain(|file| targets.contains_key(file));
    reached
}

/// Whether the module of the first file contains the one of the second. The root contains all.
fn is_parent(parent: &str, child: &str) -> bool {
    let parent = stem(parent);
    matches!(parent, "lib" | "main")
        || stem(child).strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

/// The module that defines what a path names, if it is one of this crate.
fn resolve<'a>(
    modules: &HashMap<&[String], &'a Module>,
    from: &'a Module,
    path: &[String],
    depth: usize,
) -> Option<&'a Module> {
    // Imports that name each other end somewhere.
    if depth > 8 {
        return None;
    }
    let (mut current, mut rest) = start(modules, from, path, depth)?;
    while let Some((name, after)) = rest.split_first() {
        let child: Vec<String> = current.path.iter().cloned().chain([name.clone()]).collect();
        if let Some(module) = modules.get(child.as_slice()) {
            current = module;
        } else if current.items.contains(name) {
            return Some(current);
        } else if let Some(import) = current.imports.get(name) {
            let import: Vec<String> = import.iter().chain(after).cloned().collect();
            return resolve(modules, current, &import, depth + 1).or(Some(current));
        } else {
            let defining = current.globs.iter().find_map(|glob| {
                let module = resolve(modules, current, glob, depth + 1)?;
                module.items.contains(name).then_some(module)
            });
            return Some(defining.unwrap_or(current));
        }
        rest = after;
    }
    Some(current)
}

/// The module in which a path starts, with the rest of the path.
fn start<'a, 'p>(
    modules: &HashMap<&[String], &'a Module>,
    from: &'a Module,
    path: &'p [String],
    depth: usize,
) -> Option<(&'a Module, &'p [String])> {
    let mut at = from.path.as_slice();
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "crate" => at = &[],
            "self" | "$" => {}
            "super" => at = at.split_last()?.1,
            _ => break,
        }
        rest = after;
    }
    if rest.len() < path.len() {
        return Some((modules.get(at)?, rest));
    }
    // A name without prefix: a child of the module, or something that it imports.
    let first = path.first()?;
    let child: Vec<String> = from.path.iter().chain([first]).cloned().collect();
    if modules.contains_key(child.as_slice()) {
        return Some((from, path));
    }
    let import = from.imports.get(first)?;
    // `use name;` of another crate names itself.
    if import.first() == Some(first) {
        return None;
    }
    Some((resolve(modules, from, import, depth + 1)?, &path[1..]))
}
