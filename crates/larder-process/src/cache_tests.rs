//! The suite http-cache-tests: its origin and its client, which asks a proxy what RFC 9111 requires, run in Node.js.

use crate::{Running, find_program};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

/// What the script writes before the address of the origin.
const LISTENING: &str = "listening ";

/// The suite, whose origin listens. Dropping it ends its process.
#[derive(Debug)]
pub struct CacheTests {
    running: Running,
    origin: SocketAddr,
    output: BufReader<ChildStdout>,
    log: JoinHandle<String>,
}

/// How a proxy did in one test.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Score {
    /// What a failure would mean.
    pub kind: TestKind,
    /// How the test ended.
    pub result: TestResult,
    /// What was observed, for a test that did not pass.
    pub detail: String,
}

/// What a test of the suite is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestKind {
    /// What the specification requires.
    Required,
    /// What makes a cache useful: to answer where it may.
    Optimal,
    /// What caches do differently; neither is better.
    Check,
}

/// How a test of the suite ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestResult {
    /// It passed; for [`TestKind::Check`]: the proxy does so.
    Pass,
    /// It did not pass.
    Fail,
    /// The proxy did not do what the test presumes.
    Setup,
    /// The suite itself failed.
    Harness,
    /// A test that this one is based on did not pass.
    Dependency,
    /// The proxy sent a request twice.
    Retry,
}

impl CacheTests {
    /// The folder of the npm package below a target folder, if `cargo xtask install` has brought it.
    pub fn package(target: &Path) -> Option<PathBuf> {
        let folder = target.join("http-cache-tests/node_modules/http-cache-tests");
        folder.is_dir().then_some(folder)
    }

    /// Starts the origin of the suite in `folder`, a package or a copy of the repository, by the script `score.mjs`.
    ///
    /// # Errors
    /// If Node.js is not installed, or the script fails: then with the last line that it wrote.
    pub fn start(script: &Path, folder: &Path) -> Result<Self> {
        let node = find_program("node").ok_or_else(|| Error::other("node is not installed"))?;
        let mut command = Command::new(node);
        command.arg("--no-warnings").arg(script).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut command)?;
        let missing = || Error::other("the script has no pipes");
        let mut output = BufReader::new(running.child().stdout.take().ok_or_else(missing)?);
        let mut errors = running.child().stderr.take().ok_or_else(missing)?;
        // The suite logs more than a pipe holds.
        let log = std::thread::spawn(move || {
            let mut log = Vec::new();
            _ = errors.read_to_end(&mut log);
            String::from_utf8_lossy(&log).trim_end().lines().last().unwrap_or("no message").to_owned()
        });
        let mut line = String::new();
        output.read_line(&mut line)?;
        match line.strip_prefix(LISTENING).and_then(|address| address.trim().parse().ok()) {
            Some(origin) => Ok(CacheTests { running, origin, output, log }),
            None => Err(failure(running, log)),
        }
    }

    /// The address of the origin, which the proxy must be in front of.
    pub fn origin(&self) -> SocketAddr {
        self.origin
    }

    /// Runs all tests against the proxy at `address`, and returns how it did by the names of the tests. That takes about a
    /// minute, most of it pauses.
    ///
    /// # Errors
    /// If the proxy does not answer, or the suite fails.
    pub fn run(mut self, address: SocketAddr) -> Result<BTreeMap<String, Score>> {
        let mut stdin = self.running.child().stdin.take().ok_or_else(|| Error::other("it runs once"))?;
        writeln!(stdin, "http://{address}")?;
        let mut json = String::new();
        // The script ends after some minutes, whatever the proxy does.
        self.output.read_to_string(&mut json)?;
        serde_json::from_str(&json).map_err(|_| failure(self.running, self.log))
    }
}

/// Why the script has ended.
fn failure(running: Running, log: JoinHandle<String>) -> Error {
    // Its end closes the pipe of the log.
    drop(running);
    Error::other(log.join().unwrap_or_else(|_| "no message".to_owned()))
}
