//! The list of crates that the program is built from, as a software bill of materials: CycloneDX 1.5 in JSON.

use crate::graph::Graph;
use crate::workspace::{array, text};
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Describes a program by its graph and by what `cargo metadata` says of its crates. Neither time nor random number is in it, so
/// that the same sources have the same description.
pub(super) fn describe(graph: &Graph, metadata: &Value) -> Result<Value> {
    let mut components = Vec::new();
    for (name, package) in packages(graph, metadata)? {
        if name != graph.root {
            components.push(component(package, "library"));
        }
    }
    let root = package(&graph.root, metadata)?;
    let mut dependencies = Vec::new();
    for (name, direct) in &graph.dependencies {
        let direct = direct.iter().map(|name| Ok(reference(package(name, metadata)?)));
        let direct: Vec<String> = direct.collect::<Result<_>>()?;
        dependencies.push(json!({ "ref": reference(package(name, metadata)?), "dependsOn": direct }));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(root, "application") },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Each crate of a graph with what is known of it.
pub(super) fn packages<'a>(graph: &'a Graph, metadata: &'a Value) -> Result<Vec<(&'a str, &'a Value)>> {
    graph.dependencies.keys().map(|name| Ok((name.as_str(), package(name, metadata)?))).collect()
}

/// The package of a name with its version, such as `serde v1.0.0`.
fn package<'a>(name: &str, metadata: &'a Value) -> Result<&'a Value> {
    let is_that =
        |package: &&Value| name == format!("{} v{}", text(&package["name"]), text(&package["version"]));
    array(&metadata["packages"]).find(is_that).with_context(|| format!("cargo metadata has no {name}"))
}

fn component(package: &Value, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        // A slash is an old form of OR.
        "licenses": [{ "expression": text(&package["license"]).replace('/', " OR ") }],
    });
    if !package["source"].is_null() {
        component["purl"] = reference(package).into();
    }
    component
}

/// The name of a crate in the list. That of a published one is its package URL.
fn reference(package: &Value) -> String {
    let kind = if package["source"].is_null() { "" } else { "pkg:cargo/" };
    format!("{kind}{}@{}", text(&package["name"]), text(&package["version"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_listed_with_licence_and_dependencies() {
        let graph = Graph::parse("0app v1.0.0 (/somewhere)\n1a v2.0.0\n").unwrap();
        let package = |name: &str, version: &str, source: Value| json!({ "name": name, "version": version, "license": "MIT/Apache-2.0", "source": source });
        let packages = [package("app", "1.0.0", Value::Null), package("a", "2.0.0", "registry".into())];
        let list = describe(&graph, &json!({ "packages": packages })).unwrap();
        let expected = json!([{
            "type": "library", "bom-ref": "pkg:cargo/a@2.0.0", "name": "a", "version": "2.0.0",
            "licenses": [{ "expression": "MIT OR Apache-2.0" }], "purl": "pkg:cargo/a@2.0.0",
        }]);
        assert_eq!(list["components"], expected);
        assert_eq!(list["metadata"]["component"]["bom-ref"], "app@1.0.0");
        let edges = json!([
            { "ref": "pkg:cargo/a@2.0.0", "dependsOn": [] },
            { "ref": "app@1.0.0", "dependsOn": ["pkg:cargo/a@2.0.0"] },
        ]);
        assert_eq!(list["dependencies"], edges);
        assert!(describe(&graph, &json!({ "packages": [] })).is_err());
    }
}
