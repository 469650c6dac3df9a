//! A child process, and calls of it: many may be under way at once.

pub(crate) use super::call::Failed;
use super::call::{Call, Calls, Message, pass_on};
use super::{Kind, words};
use larder_testkit::{Running, start, until};
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct Child {
    lines: Mutex<Box<dyn Write + Send>>,
    pub(super) calls: Arc<Calls>,
    pub(super) next: AtomicU64,
    process: Process,
    /// Whether this has killed it.
    pub(super) is_killed: AtomicBool,
    /// The optional calls that it has.
    abilities: Vec<String>,
}

/// The process of a child.
#[derive(Debug)]
enum Process {
    /// One that was started here.
    Started(Mutex<Running>),
    /// One that another child has forked.
    Forked(u32),
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Child").field(&self.process).finish()
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Child {
    /// Starts a program, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready.
    pub(crate) fn start(kind: &Kind) -> Arc<Self> {
        let mut running = start(kind.command().stdin(Stdio::piped()).stdout(Stdio::piped()));
        let child = running.child();
        let lines = child.stdin.take().expect("stdin is piped");
        let mut answers = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut first = String::new();
        answers.read_line(&mut first).expect("a line of a child");
        let mut abilities = first.split_whitespace().map(str::to_owned);
        assert_eq!(abilities.next().as_deref(), Some("ready"), "{}: its first line is {first:?}", kind.name);
        let abilities = abilities.collect();
        Self::over(Box::new(lines), answers, Process::Started(Mutex::new(running)), abilities)
    }

    fn over(
        lines: Box<dyn Write + Send>,
        answers: BufReader<impl Read + Send + 'static>,
        process: Process,
        abilities: Vec<String>,
    ) -> Arc<Self> {
        let calls: Arc<Calls> = Arc::new(Mutex::new(Some(HashMap::new())));
        let of_reader = calls.clone();
        std::thread::spawn(move || pass_on(answers, &of_reader));
        let (next, is_killed) = (AtomicU64::new(1), AtomicBool::new(false));
        Arc::new(Child { lines: Mutex::new(lines), calls, next, process, is_killed, abilities })
    }

    pub(crate) fn can(&self, call: &str) -> bool {
        self.abilities.iter().any(|ability| ability == call)
    }

    /// A process that this one forks, and that has inherited its cache.
    pub(crate) async fn fork(&self) -> Arc<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        listener.set_nonblocking(true).expect("a socket can be asked");
        let path = words::word(path.to_str().expect("a path of text"));
        let answer = self.call("fork", [path]).await.expect("it forks");
        let (stream, _) = until("the fork connects", || listener.accept().ok());
        let lines = stream.try_clone().expect("another handle");
        let pid = answer[0].parse().expect("a process id");
        Self::over(Box::new(lines), BufReader::new(stream), Process::Forked(pid), Vec::new())
    }

    /// Calls it and waits for the answer. Dropped before that, it tells the child that the caller has left.
    pub(crate) async fn call(
        &self,
        call: &str,
        words: impl IntoIterator<Item = String>,
    ) -> Result<Vec<String>, Failed> {
        match Call::start(self, call, words).next().await {
            Message::Ended(outcome) => outcome,
            Message::Loading(_) | Message::Updating(_) => panic!("{call} has no loader"),
        }
    }

    /// The same for a call with a loader, which gets the keys and returns the words that stand behind `loaded`.
    pub(crate) async fn load<F>(
        self: &Arc<Self>,
        call: &str,
        words: impl IntoIterator<Item = String>,
        mut loader: impl FnMut(Vec<String>) -> F,
    ) -> Result<Vec<String>, Failed>
    where
        F: Future<Output = Result<Vec<String>, String>> + Send + 'static,
    {
        let mut call = Call::start(self, call, words);
        loop {
            match call.next().await {
                Message::Ended(outcome) => return outcome,
                Message::Updating(_) => panic!("it updates nothing"),
                Message::Loading(keys) => {
                    // The load goes on if its caller has its answer, or leaves.
                    let (child, number, loading) = (self.clone(), call.number, tokio::spawn(loader(keys)));
                    tokio::spawn(async move {
                        match loading.await {
                            Ok(Ok(words)) => child.send(&format!("loaded {number}"), words),
                            Ok(Err(text)) => child.send(&format!("raise {number}"), [words::word(&text)]),
                            Err(_) => child.send(&format!("raise {number}"), [words::word(PANICKED)]),
                        }
                    });
                }
            }
        }
    }

    /// The same for an `update`, whose function gets the word of the value and returns the words that stand behind `updated`.
    pub(crate) async fn update(
        &self,
        words: impl IntoIterator<Item = String>,
        mut function: impl FnMut(&str) -> Vec<String>,
    ) -> Result<Vec<String>, Failed> {
        let mut call = Call::start(self, "update", words);
        loop {
            match call.next().await {
                Message::Ended(outcome) => return outcome,
                Message::Loading(_) => panic!("an update has no loader"),
                Message::Updating(value) => self.send(&format!("updated {}", call.number), function(&value)),
            }
        }
    }

    /// Calls it, and answers nothing: a loader that begins never returns.
    pub(crate) fn call_and_forget(&self, call: &str, words: impl IntoIterator<Item = String>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(&format!("{call} {number}"), words);
    }

    pub(super) fn send(&self, start: &str, words: impl IntoIterator<Item = String>) {
        let mut line = start.to_owned();
        for word in words {
            line.push(' ');
            line.push_str(&word);
        }
        line.push('\n');
        let mut lines = locked(&self.lines);
        // One that has ended takes nothing: its callers hear of that by what it does not say.
        _ = lines.write_all(line.as_bytes()).and_then(|()| lines.flush());
    }

    /// Stops the process: it keeps its connections and does nothing.
    pub(crate) fn pause(&self) {
        match &self.process {
            Process::Started(running) => locked(running).pause(),
            Process::Forked(pid) => signal(*pid, "STOP"),
        }
    }

    pub(crate) fn resume(&self) {
        match &self.process {
            Process::Started(running) => locked(running).resume(),
            Process::Forked(pid) => signal(*pid, "CONT"),
        }
    }

    /// Kills the process. Calls under way never return.
    pub(crate) fn kill(&self) {
        if !self.is_killed.swap(true, Ordering::SeqCst) {
            match &self.process {
                Process::Started(running) => locked(running).kill(),
                Process::Forked(pid) => signal(*pid, "KILL"),
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a child is told of a loader that panics.
pub(crate) const PANICKED: &str = "the loader panicked";

/// Sends a signal to a process that is no child of this one.
fn signal(pid: u32, name: &str) {
    let command = format!("kill -{name} {pid}");
    // It may have ended already.
    _ = Command::new("sh").args(["-c", &command]).stderr(Stdio::null()).status();
}
