//! One process: how it is started again at the same address, what the system says of it, and how it ended.

use super::END_LIMIT;
use crate::soak::wire::{Http, Reply, Resp};
use anyhow::{Context, Result, bail, ensure};
use larder_process::Running;
use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a member may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// What a member answers once it is ready.
#[derive(Clone, Debug)]
pub(super) enum Ready {
    /// A path with a 200.
    Get(SocketAddr, &'static str),
    /// PING with PONG.
    Ping(SocketAddr),
}

impl Ready {
    fn is_reached(&self) -> bool {
        match self {
            Ready::Get(address, path) => {
                Http::new(*address).get(path).is_ok_and(|response| response.status == 200)
            }
            Ready::Ping(address) => {
                Resp::new(*address).command(&["PING"]).ok() == Some(Reply::Text(b"PONG".to_vec()))
            }
        }
    }
}

/// What the system says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) pid: u32,
    /// Resident memory, and the part of it that belongs to no file, in bytes.
    pub(crate) rss_bytes: u64,
    pub(crate) anonymous_bytes: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

/// A process of the soak. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Member {
    name: &'static str,
    program: PathBuf,
    /// The program of the next start, if that is another one: the two change places with each start.
    other: Option<PathBuf>,
    words: Vec<String>,
    ready: Ready,
    /// Whether SIGTERM ends it with success, as it must end each program of Larder.
    is_larder: bool,
    log: PathBuf,
    running: Option<Running>,
}

impl Member {
    pub(super) fn new(
        name: &'static str,
        program: PathBuf,
        words: Vec<String>,
        ready: Ready,
        log: PathBuf,
    ) -> Self {
        Member { name, program, other: None, words, ready, is_larder: false, log, running: None }
    }

    pub(super) fn of_larder(self) -> Self {
        Member { is_larder: true, ..self }
    }

    /// Another version of the program starts first, and each start after it is of the version that did not run before.
    pub(super) fn alternating_with(self, former: Option<&Path>) -> Self {
        match former {
            Some(former) => Member { other: Some(self.program), program: former.to_owned(), ..self },
            None => self,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Starts the process, and waits until it answers.
    pub(crate) fn start(&mut self) -> Result<()> {
        let log = || OpenOptions::new().create(true).append(true).open(&self.log);
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LARDER_") {
                command.env_remove(name);
            }
        }
        // Ctrl-C in a terminal is for the soak alone, which ends the others.
        command.args(&self.words).process_group(0);
        // A pipe that is never written, and ends with this process.
        command.stdin(Stdio::piped()).stdout(log()?).stderr(log()?);
        let program = self.program.display();
        self.running = Some(Running::start(&mut command).with_context(|| format!("cannot run {program}"))?);
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut self.program, other);
        }
        let start = Instant::now();
        while !self.ready.is_reached() {
            if let Some(how) = self.ended() {
                self.running = None;
                bail!("it ended: {how}: {}", self.last_words());
            }
            ensure!(start.elapsed() < START_LIMIT, "it does not answer: {}", self.last_words());
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    pub(crate) fn pause(&self) {
        self.running.iter().for_each(Running::pause);
    }

    pub(crate) fn resume(&self) {
        self.running.iter().for_each(Running::resume);
    }

    /// Ends it by SIGTERM, and waits for its end.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        running.terminate();
        let status = running.wait_within(END_LIMIT)?.context("it goes on after SIGTERM")?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<()> {
        if self.is_larder {
            return self.stop();
        }
        self.kill();
        Ok(())
    }

    /// How it ended, if it does not run.
    pub(super) fn ended(&mut self) -> Option<String> {
        match &mut self.running {
            None => Some("it was not started".to_owned()),
            Some(running) => Some(running.child().try_wait().ok()??.to_string()),
        }
    }

    pub(crate) fn figures(&self) -> Option<Figures> {
        let pid = self.running.as_ref()?.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        parse(pid, &status, descriptors)
    }

    /// The last line of its log.
    pub(super) fn last_words(&self) -> String {
        self.log_text().lines().last().unwrap_or("no message").to_owned()
    }

    pub(super) fn panic_in_log(&self) -> Option<String> {
        self.log_text().lines().find(|line| line.contains("panicked at")).map(str::to_owned)
    }

    fn log_text(&self) -> String {
        let mut text = Vec::new();
        _ = File::open(&self.log).and_then(|mut log| std::io::copy(&mut log, &mut text));
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// The figures in the file `status` of a process. One that has ended has no memory there.
fn parse(pid: u32, status: &str, descriptors: u64) -> Option<Figures> {
    let number = |name: &str| -> Option<u64> {
        let rest = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let (rss, anonymous) = (number("VmRSS")?, number("RssAnon")?);
    let (rss_bytes, anonymous_bytes) = (rss << 10, anonymous << 10);
    Some(Figures { pid, rss_bytes, anonymous_bytes, descriptors, threads: number("Threads")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_process_are_read() {
        let status = "Name:\ta\nVmRSS:\t    2048 kB\nRssAnon:\t    1024 kB\nThreads:\t7\n";
        let (rss_bytes, anonymous_bytes) = (2 << 20, 1 << 20);
        let expected = Figures { pid: 9, rss_bytes, anonymous_bytes, descriptors: 4, threads: 7 };
        assert_eq!(parse(9, status, 4), Some(expected));
        assert_eq!(parse(9, "Name:\ta\nThreads:\t1\n", 0), None);
    }
}
