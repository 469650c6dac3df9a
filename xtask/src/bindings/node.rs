//! The tests of the package for Node.js: with the library of the test build, and packages of npm in the target folder.

use super::{copy, replace_folder};
use crate::workspace::{root, target};
use anyhow::{Context, Result, bail};
use larder_process::find_program;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The folder of the package.
const SOURCE: &str = "bindings/node";
/// The folder below the target folder where the packages of npm are.
pub(crate) const LIBRARIES: &str = "node";

/// Runs the tests, and prints their output. Returns how many passed, and those that were skipped.
pub(crate) fn run() -> Result<(u64, Vec<String>)> {
    if !is_installed() {
        return Ok((0, vec!["the tests of the package for Node.js: run `cargo xtask install`".to_owned()]));
    }
    let tests = stage()?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(&tests)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".test.js"));
    files.sort();
    let mut child = Command::new("node")
        .args(["--test", "--test-reporter=spec", "--test-concurrency=2", "--test-timeout=300000"])
        .args(files)
        .current_dir(&tests)
        .env("LARDER_PEER", target().join("debug/examples/peer"))
        .env("LARDER_ROOT", root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run node")?;
    let (mut passed, mut skipped) = (0, Vec::new());
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).lines() {
        let line = line?;
        println!("{line}");
        if let Some(number) = line.strip_prefix("ℹ pass ") {
            passed = number.trim().parse().with_context(|| format!("cannot read {line:?}"))?;
        }
        skipped.extend(line.contains(" # SKIP").then(|| line.trim().to_owned()));
    }
    if child.wait()?.success() {
        Ok((passed, skipped))
    } else {
        bail!("tests of the package for Node.js failed")
    }
}

/// Whether the packages of npm are there.
pub(super) fn is_installed() -> bool {
    find_program("node").is_some() && target().join(LIBRARIES).join("installed").is_file()
}

/// Where the package is after [`stage`].
pub(super) fn package() -> PathBuf {
    target().join(LIBRARIES).join("node_modules/larder-cache")
}

/// Installs the package beside those of npm, and the tests where they find both. Returns the folder of the tests.
pub(super) fn stage() -> Result<PathBuf> {
    let (source, package) = (root().join(SOURCE), package());
    replace_folder(&source.join("lib"), &package.join("lib"))?;
    copy(&source.join("package.json"), &package.join("package.json"))?;
    // As Node names this platform.
    let system = std::env::consts::OS.replace("macos", "darwin");
    let processor = std::env::consts::ARCH.replace("x86_64", "x64").replace("aarch64", "arm64");
    let library = package.join(format!("lib/{system}-{processor}.node"));
    copy(&target().join("debug/liblarder_node.so"), &library)?;
    let tests = target().join(LIBRARIES).join("test");
    replace_folder(&source.join("test"), &tests)?;
    Ok(tests)
}
