//! The proof between languages: the chaos test and the behaviours of every cache, with nodes in other languages.

use super::{elixir, node, python, ruby};
use crate::workspace::{root, target};
use anyhow::Result;
use larder_process::find_program;
use std::ffi::OsString;

/// Each kind of child: its program in `PATH`, and how it runs. What they are is in `bindings/interop/protocol.md`.
const CHILDREN: [(&str, &str, &str); 7] = [
    ("python-sync", "python3", "sync"),
    ("python-asyncio", "python3", "asyncio"),
    ("node-main", "node", "main"),
    ("node-worker", "node", "worker"),
    ("ruby-threads", "ruby", "threads"),
    ("ruby-fibers", "ruby", "fibers"),
    ("elixir", "elixir", ""),
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
    let (ruby, elixir) = (ruby::stage()?, elixir::stage()?);
    let bindings = root().join("bindings");
    let children = CHILDREN.map(|(name, program, how)| {
        let words = match program {
            "node" => tests.join("child.js").display().to_string(),
            "ruby" => format!("-I {} {}", ruby.display(), bindings.join("ruby/test/child.rb").display()),
            "elixir" => {
                let modules = elixir::modules(&elixir);
                format!("-pa {} {}", modules.display(), elixir.join("test/child.exs").display())
            }
            _ => bindings.join("python/tests/child.py").display().to_string(),
        };
        format!("{name}={program} {words} {how}")
    });
    Ok(vec![
        ("LARDER_CHILDREN", children.join("\n").into()),
        ("PYTHONPATH", package.into()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
    ])
}
