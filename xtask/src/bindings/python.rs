//! The tests of the package for Python: with the library of the test build, and packages of PyPI in the target folder.

use super::{copy, node, replace_folder};
use crate::stages::number_before;
use crate::workspace::{root, target};
use anyhow::{Context, Result, bail};
use larder_process::find_program;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The folder of the package.
const SOURCE: &str = "bindings/python";
/// The folder below the target folder where the packages of PyPI are.
pub(crate) const LIBRARIES: &str = "python";
/// The folder there with the source distributions of frameworks, which have their tests.
pub(crate) const SOURCES: &str = "python-sources";

/// Runs the tests, and prints their output. Returns how many passed, and those that were skipped.
pub(crate) fn run() -> Result<(u64, Vec<String>)> {
    let libraries = target().join(LIBRARIES);
    if find_program("python3").is_none() || !libraries.join("installed").is_file() {
        return Ok((0, vec!["the tests of the package for Python: run `cargo xtask install`".to_owned()]));
    }
    let package = stage()?;
    // Its example shares a cache with that of Node.js.
    let node = if node::is_installed() { Some(node::stage().map(|_| node::package())?) } else { None };
    let path = std::env::join_paths([package, libraries.join("packages")])?;
    let mut child = Command::new("python3")
        // Most tests wait for servers, processes and times.
        .args(["-m", "pytest", "-p", "no:cacheprovider", "-rs", "--numprocesses=3"])
        .current_dir(root().join(SOURCE))
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LARDER_PEER", target().join("debug/examples/peer"))
        .env("LARDER_DJANGO_TESTS", tests_of("django-")?)
        .env("LARDER_FLASK_CACHING_TESTS", tests_of("flask_caching-")?)
        .envs(node.map(|package| ("LARDER_NODE", package)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run python3")?;
    let (mut passed, mut skipped) = (0, Vec::new());
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).lines() {
        let line = line?;
        println!("{line}");
        passed = passed.max(number_before(&line, " passed"));
        skipped.extend(line.strip_prefix("SKIPPED ").map(str::to_owned));
    }
    if child.wait()?.success() {
        Ok((passed, skipped))
    } else {
        bail!("tests of the package for Python failed")
    }
}

/// The tests of a framework, in its source distribution.
fn tests_of(prefix: &str) -> Result<PathBuf> {
    let sources = target().join(SOURCES);
    let listed = std::fs::read_dir(&sources).with_context(|| format!("cannot list {}", sources.display()))?;
    let mut folders =
        listed.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let missing = || format!("{} has no {prefix}…: run `cargo xtask install`", sources.display());
    let folder = folders.next().with_context(missing)?;
    Ok(folder.path().join("tests"))
}

/// The package as an installation has it: its modules, with the library beside them.
pub(super) fn stage() -> Result<PathBuf> {
    let folder = target().join(LIBRARIES).join("package");
    replace_folder(&root().join(SOURCE).join("python"), &folder)?;
    copy(&target().join("debug/lib_core.so"), &folder.join("larder_cache/_core.abi3.so"))?;
    Ok(folder)
}
