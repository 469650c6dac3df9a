//! The tests of the package for Ruby: with the library of the test build, and Rails' own tests in the target folder.

use super::{copy, replace_folder};
use crate::stages::number_before;
use crate::workspace::{root, target};
use anyhow::{Context, Result, bail};
use larder_process::find_program;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// The folder of the package.
const SOURCE: &str = "bindings/ruby";
/// The folder below the target folder with the tests of Rails.
pub(crate) const RAILS: &str = "ruby-rails";
/// How many files run at once: most tests wait for servers, processes and times.
const AT_ONCE: usize = 3;

/// Runs the tests, and prints their output. Returns how many passed, and those that were skipped.
pub(crate) fn run() -> Result<(u64, Vec<String>)> {
    if !is_installed() {
        return Ok((0, vec!["the tests of the package for Ruby: run `cargo xtask install`".to_owned()]));
    }
    let (library, tests) = (stage()?, root().join(SOURCE).join("test"));
    let mut files: Vec<PathBuf> = [tests.clone(), tests.join("rails")]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|listed| listed.flatten().map(|entry| entry.path()))
        .filter(|file| file.to_string_lossy().ends_with("_test.rb"))
        .collect();
    files.sort();
    let (mut passed, mut skipped, mut failed) = (0, Vec::new(), Vec::new());
    for (file, output) in run_all(&library, files)? {
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        println!("{}\n{text}", file.display());
        let summary = text.lines().find(|line| line.contains(" assertions, ")).unwrap_or_default();
        if !output.status.success() || summary.is_empty() {
            failed.push(file.display().to_string());
        }
        let skips = text.lines().filter(|line| line.ends_with(" = S"));
        skipped.extend(skips.map(str::to_owned));
        passed += number_before(summary, " runs,") - number_before(summary, " skips");
    }
    if failed.is_empty() {
        Ok((passed, skipped))
    } else {
        bail!("tests of the package for Ruby failed: {}", failed.join(", "))
    }
}

/// Runs each file in a process of its own.
fn run_all(library: &Path, files: Vec<PathBuf>) -> Result<Vec<(PathBuf, Output)>> {
    let (waiting, done) = (Mutex::new(files.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(file) = { waiting.lock().expect("no thread panics").next() } {
                    let output = ruby(library).arg(&file).args(["--verbose"]).output();
                    done.lock().expect("no thread panics").push((file, output));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics");
    done.sort_by(|(one, _), (other, _)| one.cmp(other));
    done.into_iter().map(|(file, output)| Ok((file, output.context("cannot run ruby")?))).collect()
}

fn ruby(library: &Path) -> Command {
    let mut ruby = Command::new("ruby");
    ruby.arg("-I").arg(library).arg("-I").arg(root().join(SOURCE).join("test"));
    ruby.env("LARDER_ROOT", root())
        .env("LARDER_PEER", target().join("debug/examples/peer"))
        .env("LARDER_RAILS_TESTS", target().join(RAILS))
        .stdin(Stdio::null());
    ruby
}

/// Whether Ruby and Rails' tests are there.
pub(super) fn is_installed() -> bool {
    find_program("ruby").is_some() && target().join(RAILS).join("installed").is_file()
}

/// The folder from which Ruby loads the package, as an installation has it.
pub(super) fn stage() -> Result<PathBuf> {
    let folder = target().join("ruby/lib");
    replace_folder(&root().join(SOURCE).join("lib"), &folder)?;
    copy(&target().join("debug/liblarder_ruby.so"), &folder.join("larder/core.so"))?;
    Ok(folder)
}
