//! The proof between languages: the chaos test and the behaviours of every cache, with nodes in other languages.

use super::{node, python};
use crate::workspace::{root, target};
use anyhow::Result;
use larder_process::find_program;
use std::ffi::OsString;
use std::path::PathBuf;

/// Each kind of child: its program in `PATH`, and how it runs. What they are is in `bindings/interop/protocol.md`, and
/// `crates/larder/tests/conformance/languages/mod.rs` has a line for each.
const CHILDREN: [(&str, &str, &str); 4] = [
    ("python-sync", "python3", "sync"),
    ("python-asyncio", "python3", "asyncio"),
    ("node-main", "node", "main"),
    ("node-worker", "node", "worker"),
];

/// The tests. Most of them wait for processes, so more of them run at once than there are processors.
pub(crate) const TESTS: &[&str] = &[
    "test",
    "--workspace",
    "--locked",
    "--no-fail-fast",
    "--test",
    "chaos",
    "--test",
    "conformance",
    "--",
    "languages::",
    "--include-ignored",
    "--test-threads=4",
];

/// What is missing.
pub(crate) fn missing() -> Vec<String> {
    let mut programs = CHILDREN.map(|(_, program, _)| program).to_vec();
    programs.dedup();
    let programs = programs.into_iter().filter(|program| find_program(program).is_none());
    let folders = [node::LIBRARIES, python::LIBRARIES].into_iter();
    let folders = folders.filter(|folder| !target().join(folder).join("installed").is_file());
    programs
        .chain(folders)
        .map(|name| format!("the tests between languages: {name} is not installed"))
        .collect()
}

/// Stages what the children need, and returns the environment of the tests.
pub(crate) fn environment() -> Result<Vec<(&'static str, OsString)>> {
    let (package, tests) = (python::stage()?, node::stage()?);
    let children = CHILDREN.map(|(name, program, how)| {
        let file: PathBuf = match program {
            "node" => tests.join("child.js"),
            _ => root().join("bindings/python/tests/child.py"),
        };
        format!("{name}={program} {} {how}", file.display())
    });
    Ok(vec![
        ("LARDER_CHILDREN", children.join("\n").into()),
        ("PYTHONPATH", package.into()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
    ])
}
