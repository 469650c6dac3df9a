//! The crates that a package is built from, as `cargo tree` prints them.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};

/// The crates of a package: its normal and build dependencies on this platform, with its default features.
pub(crate) struct Graph {
    /// The package itself.
    pub(crate) root: String,
    /// The direct dependencies of each; a name is followed by its version, as in `serde v1.0.0`.
    pub(crate) dependencies: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// From `cargo tree`, because `cargo metadata` unites the features of the whole workspace.
    pub(crate) fn read(package: &str) -> Result<Graph> {
        let arguments =
            ["tree", "--locked", "-p", package, "-e", "normal,build", "--prefix", "depth", "--no-dedupe"];
        let output = crate::stages::command(&arguments).output().context("cannot run cargo tree")?;
        if !output.status.success() {
            bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Graph::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Each line has the depth of a crate, its name and its version.
    pub(crate) fn parse(tree: &str) -> Result<Graph> {
        let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut path: Vec<String> = Vec::new();
        for line in tree.lines() {
            let digits = line.find(|next: char| !next.is_ascii_digit()).unwrap_or(0);
            let depth: usize = line[..digits].parse().with_context(|| format!("no depth in {line:?}"))?;
            let name: Vec<&str> = line[digits..].split(' ').take(2).collect();
            path.truncate(depth);
            path.push(name.join(" "));
            dependencies.entry(path[depth].clone()).or_default();
            if let Some(parent) = depth.checked_sub(1) {
                dependencies.entry(path[parent].clone()).or_default().insert(path[depth].clone());
            }
        }
        let root = path.first().context("cargo tree printed nothing")?.clone();
        Ok(Graph { root, dependencies })
    }

    /// The crates that the program needs, as if it did not name `without`.
    pub(crate) fn reached(&self, without: Option<&str>) -> BTreeSet<&str> {
        let direct = self.dependencies[&self.root].iter().map(String::as_str);
        let mut reached = BTreeSet::from([self.root.as_str()]);
        for name in direct.filter(|name| Some(*name) != without) {
            self.reach(name, &mut reached);
        }
        reached
    }

    fn reach<'a>(&'a self, name: &'a str, reached: &mut BTreeSet<&'a str>) {
        if reached.insert(name) {
            self.dependencies[name].iter().for_each(|dependency| self.reach(dependency, reached));
        }
    }

    /// Each direct dependency with the number of crates that would go with it, and of all that it needs; the dearest first.
    pub(crate) fn costs(&self) -> Vec<(&str, usize, usize)> {
        let all = self.reached(None).len();
        let mut costs: Vec<_> = self.dependencies[&self.root]
            .iter()
            .map(|name| {
                let mut own = BTreeSet::new();
                self.reach(name, &mut own);
                let short = name.split(' ').next().unwrap_or(name);
                (short, all - self.reached(Some(name)).len(), own.len())
            })
            .collect();
        costs.sort_by_key(|(_, alone, all)| std::cmp::Reverse((*alone, *all)));
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_that_two_dependencies_share_is_brought_by_neither_alone() {
        let tree = "0app v1 (/somewhere)\n1a v1\n2shared v1\n2own v2\n1b v1\n2shared v1\n";
        let graph = Graph::parse(tree).unwrap();
        assert_eq!(graph.reached(None).len(), 5);
        assert_eq!(graph.costs(), [("a", 2, 3), ("b", 1, 2)]);
    }
}
