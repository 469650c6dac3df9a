//! A cache in a process of another language, which obeys the lines of `bindings/interop/protocol.md`.

use crate::tool::Language;
use anyhow::{Context, Result, bail, ensure};
use larder_process::Running;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A program whose cache is judged: its language, its file, and what it is called with.
#[derive(Clone, Copy)]
pub(super) struct Program {
    pub(super) language: Language,
    pub(super) script: &'static str,
    pub(super) word: &'static str,
}

pub(super) struct Node {
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// What was said about other calls than the one that is waited for.
    said: HashMap<u64, VecDeque<Said>>,
    calls: u64,
    _running: Running,
    _folder: TempDir,
}

/// A call under way.
pub(super) struct Call(u64);

enum Said {
    Loading,
    Done(Vec<String>),
    Failed(String),
}

impl Node {
    /// Starts a program, and opens its cache.
    pub(super) fn start(program: Program, url: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = program.language.command(program.script, folder.path())?;
        let mut running = Running::start(command.arg(program.word))?;
        let stdin = running.child().stdin.take().context("stdin is piped")?;
        let stdout = BufReader::new(running.child().stdout.take().context("stdout is piped")?);
        let (sender, lines) = channel();
        // Ends with the program, or with this node.
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let ready = lines.recv_timeout(TIMEOUT).unwrap_or_default();
        ensure!(ready.starts_with("ready"), "the first line of {} is {ready:?}", program.word);
        let said = HashMap::new();
        let mut node = Node { stdin, lines, said, calls: 0, _running: running, _folder: folder };
        node.call("open", &[url, "stale", "ttl=1h"])?;
        Ok(node)
    }

    /// A call, and its answer.
    pub(super) fn call(&mut self, name: &str, words: &[&str]) -> Result<Vec<String>> {
        let call = self.begin(name, words)?;
        self.end(call)
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, name: &str, words: &[&str]) -> Result<Call> {
        self.calls += 1;
        writeln!(self.stdin, "{name} {} {}", self.calls, words.join(" "))?;
        Ok(Call(self.calls))
    }

    /// Waits until the loader of a call has begun.
    pub(super) fn await_loader(&mut self, call: &Call) -> Result<()> {
        match self.next(call)? {
            Said::Loading => Ok(()),
            Said::Done(words) => bail!("a fetch ended without a load: {words:?}"),
            Said::Failed(why) => bail!("a fetch failed: {why}"),
        }
    }

    /// The loader of a call has returned this value.
    pub(super) fn loaded(&mut self, call: &Call, value: &str) -> Result<()> {
        Ok(writeln!(self.stdin, "loaded {} {value}", call.0)?)
    }

    /// The answer of a call.
    pub(super) fn end(&mut self, call: Call) -> Result<Vec<String>> {
        match self.next(&call)? {
            Said::Done(words) => Ok(words),
            Said::Failed(why) => bail!("a call failed: {why}"),
            Said::Loading => bail!("a loader was called twice"),
        }
    }

    fn next(&mut self, call: &Call) -> Result<Said> {
        loop {
            if let Some(said) = self.said.get_mut(&call.0).and_then(VecDeque::pop_front) {
                return Ok(said);
            }
            let line = self.lines.recv_timeout(TIMEOUT).context("the program does not answer")?;
            let mut words = line.split(' ').map(str::to_owned);
            let (kind, number) = (words.next(), words.next().and_then(|number| number.parse().ok()));
            let number = number.with_context(|| format!("the program says {line:?}"))?;
            let said = match kind.as_deref() {
                Some("loading") => Said::Loading,
                Some("done") => Said::Done(words.collect()),
                Some("failed") => Said::Failed(words.collect::<Vec<_>>().join(" ")),
                _ => bail!("the program says {line:?}"),
            };
            self.said.entry(number).or_default().push_back(said);
        }
    }
}
