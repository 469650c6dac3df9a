//! Runs the test programs of the workspace, two at a time. cargo runs one after the other, and most of them spend most of their
//! time waiting: for a server to start, a lease to end, a deadline to pass.

use crate::stages::command;
use crate::workspace::{array, text};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How many programs run at once.
const AT_ONCE: usize = 2;
/// Programs that run for long, by name. They begin first, so that none of them runs alone at the end.
const LONG: [&str; 8] = ["main", "tiers", "proxy", "cli", "checker", "chaos", "conformance", "scripted"];

/// A program of `cargo test`, and the folder of its package, which it runs in.
struct Program {
    name: String,
    executable: PathBuf,
    folder: PathBuf,
}

/// What a program printed and how it ended.
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) output: String,
    pub(crate) succeeded: bool,
    pub(crate) lasted: Duration,
}

/// Builds and runs all programs, with these variables. `each` gets what each one printed as soon as it has ended.
pub(crate) fn run(environment: &[(&str, OsString)], mut each: impl FnMut(Ended)) -> Result<()> {
    let mut programs = built()?;
    // Stable: others stay in the order of cargo.
    programs.sort_by_key(|program| LONG.iter().position(|long| *long == program.name).unwrap_or(LONG.len()));
    let libraries = libraries(&programs)?;
    let queue = Mutex::new(VecDeque::from(programs));
    let (ended, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            let (ended, queue, libraries) = (ended.clone(), &queue, &libraries);
            scope.spawn(move || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(program) = next else { return };
                    if ended.send(program.run(environment, libraries)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(ended);
        results.iter().try_for_each(|ended| ended.map(&mut each))
    })
}

impl Program {
    fn run(&self, environment: &[(&str, OsString)], libraries: &OsString) -> Result<Ended> {
        let started = Instant::now();
        let mut program = Command::new(&self.executable);
        program.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO", env!("CARGO"));
        program.env("LD_LIBRARY_PATH", libraries).envs(environment.iter().cloned()).stdin(Stdio::null());
        // Not a pipe: a server that a failed test leaves behind would keep it open, and nobody would hear of the failure.
        let log = self.executable.with_extension("output");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        program.stdout(file.try_clone()?).stderr(file);
        let status = program.status().with_context(|| format!("cannot run {}", self.executable.display()))?;
        let output = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
        Ok(Ended { name: self.name.clone(), output, succeeded: status.success(), lasted: started.elapsed() })
    }
}

/// What `cargo test --workspace` would run.
fn built() -> Result<Vec<Program>> {
    let words = ["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    let output = command(&words).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let programs: Vec<Program> = messages.filter_map(|message| program(&message)).collect();
    if programs.is_empty() { bail!("cargo built no tests") } else { Ok(programs) }
}

/// The program of a message about what was built, if it has tests.
fn program(message: &Value) -> Option<Program> {
    let executable = message["executable"].as_str()?;
    let is_example = array(&message["target"]["kind"]).any(|kind| text(kind) == "example");
    if message["profile"]["test"] != true || is_example {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let name = text(&message["target"]["name"]).to_owned();
    Some(Program { name, executable: executable.into(), folder: folder.into() })
}

/// Where the programs of procedural macros find the libraries of the compiler, as cargo tells them.
fn libraries(programs: &[Program]) -> Result<OsString> {
    let output =
        Command::new("rustc").args(["--print", "target-libdir"]).output().context("cannot run rustc")?;
    let own = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let built = programs.first().and_then(|program| program.executable.parent()).map(Path::to_owned);
    std::env::join_paths([Some(own), built].into_iter().flatten())
        .context("a folder with a colon in its name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_with_tests_are_what_cargo_would_run() {
        let message = |kind: &str, test: bool, executable: Value| {
            json!({
                "reason": "compiler-artifact", "manifest_path": "/larder/crates/larder/Cargo.toml",
                "target": { "name": "tiers", "kind": [kind] }, "profile": { "test": test }, "executable": executable,
            })
        };
        let found = program(&message("test", true, json!("/larder/target/tiers-1"))).expect("a program");
        assert_eq!(
            (found.name.as_str(), found.folder.as_path()),
            ("tiers", Path::new("/larder/crates/larder"))
        );
        assert!(program(&message("bin", false, json!("/larder/target/larder"))).is_none());
        assert!(program(&message("lib", true, Value::Null)).is_none());
        assert!(program(&message("example", true, json!("/larder/target/guard"))).is_none());
        assert!(program(&json!({ "reason": "build-finished", "success": true })).is_none());
    }
}
