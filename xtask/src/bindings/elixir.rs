//! The tests of the package for Elixir: with the library of the test build.

use super::{copy, replace_folder};
use crate::stages::number_before;
use crate::workspace::{root, target};
use anyhow::{Context, Result, bail, ensure};
use larder_process::find_program;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of the package.
const SOURCE: &str = "bindings/elixir";

/// Runs the tests, and prints their output. Returns how many passed, and those that were skipped.
pub(crate) fn run() -> Result<(u64, Vec<String>)> {
    if find_program("mix").is_none() {
        return Ok((0, vec!["the tests of the package for Elixir: mix is not installed".to_owned()]));
    }
    let project = stage()?;
    let mut child = mix(&project).arg("test").stdout(Stdio::piped()).spawn().context("cannot run mix")?;
    let (mut passed, mut skipped) = (0, Vec::new());
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).lines() {
        let line = line?;
        println!("{line}");
        if line.contains(" tests, ") {
            passed = number_before(&line, " tests") + number_before(&line, " doctests");
            let left_out = number_before(&line, " skipped") + number_before(&line, " excluded");
            skipped.extend((left_out > 0).then(|| format!("of the package for Elixir: {line}")));
        }
    }
    if child.wait()?.success() {
        Ok((passed, skipped))
    } else {
        bail!("tests of the package for Elixir failed")
    }
}

fn mix(project: &Path) -> Command {
    let mut mix = Command::new("mix");
    mix.current_dir(project)
        .env("MIX_ENV", "test")
        .env("LARDER_ROOT", root())
        .env("LARDER_PEER", target().join("debug/examples/peer"))
        .stdin(Stdio::null());
    mix
}

/// Compiles the package in the target folder, beside its tests. Returns its folder.
pub(super) fn stage() -> Result<PathBuf> {
    let (source, project) = (root().join(SOURCE), target().join("elixir"));
    for folder in ["lib", "test", "examples", "bench"] {
        replace_folder(&source.join(folder), &project.join(folder))?;
    }
    for file in ["mix.exs", ".formatter.exs", "README.md"] {
        copy(&source.join(file), &project.join(file))?;
    }
    copy(&target().join("debug/liblarder_elixir.so"), &project.join("priv/larder_elixir.so"))?;
    let compiled =
        mix(&project).args(["compile", "--warnings-as-errors"]).status().context("cannot run mix")?;
    ensure!(compiled.success(), "the package for Elixir does not compile");
    Ok(project)
}

/// The folder with the modules of a staged package.
pub(super) fn modules(project: &Path) -> PathBuf {
    project.join("_build/test/lib/larder_cache/ebin")
}
