//! Runs the program of a language, which prints one line of JSON for each case. Other lines are log output of
//! libraries.
//!
//! ```text
//! program ──► {"client": "ioredis", "protocol": 3, "case": "WATCH", "ms": 4}            the case has passed
//! program ──► {"client": "ioredis", "protocol": 3, "case": "WATCH", "ms": 4, "error": "…"}
//! program ──► {"restart": true}          every client has a connection
//! program ◄── restarted                  the server is at the same address, and empty
//! ```

use larder_testkit::{PATIENCE, start, wait_for_end};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use super::server::Server;

/// The outcome of a case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outcome {
    pub(super) client: String,
    /// 2 or 3 if the case runs for both versions.
    #[serde(default)]
    pub(super) protocol: Option<u8>,
    pub(super) case: String,
    /// For whoever runs a program by hand.
    #[serde(rename = "ms")]
    _ms: u64,
    #[serde(default)]
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restart {
    #[serde(rename = "restart")]
    _restart: bool,
}

/// Runs a program with the host and the port of the server as further arguments, to its end.
pub(super) fn run(mut command: Command, server: &mut Server) -> Vec<Outcome> {
    let address = server.address();
    let mut errors = tempfile::tempfile().expect("a temporary file");
    command.arg(address.ip().to_string()).arg(address.port().to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(errors.try_clone().expect("a file can be shared"));
    let mut process = start(&mut command);
    let mut input = process.child().stdin.take().expect("stdin is piped");
    let lines = lines_of(process.child().stdout.take().expect("stdout is piped"));
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut log = Vec::new();
    let end = loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                if let Ok(outcome) = serde_json::from_str(&line) {
                    outcomes.push(outcome);
                } else if serde_json::from_str::<Restart>(&line).is_ok() {
                    server.restart();
                    writeln!(input, "restarted").expect("the program waits for the restart");
                } else {
                    log.push(line);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break wait_for_end(&mut process).to_string(),
            Err(RecvTimeoutError::Timeout) => break format!("nothing within {PATIENCE:?}"),
        }
    };
    if end != "exit status: 0" {
        let mut text = String::new();
        errors.rewind().expect("a file can be read again");
        errors.read_to_string(&mut text).expect("libraries log text");
        let last = outcomes.last();
        panic!("the program ended with {end} after {last:?}\n{}\n{text}", log.join("\n"));
    }
    outcomes
}

/// The lines of a program, read by a thread so that the wait for one has a limit.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
