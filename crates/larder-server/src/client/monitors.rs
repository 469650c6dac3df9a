//! The connections that monitor the server: each gets a line for every command that is executed.
//!
//! Nothing is done for them while there are none: a turn asks once.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use larder_resp::Args;
use parking_lot::Mutex;

use super::Client;
use crate::spec::CommandSpec;

/// The connections that monitor a server.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    count: AtomicUsize,
    clients: Mutex<Vec<Arc<Client>>>,
}

/// Who executes a command, as monitors are told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Executor<'a> {
    Client(&'a Client),
    #[cfg(feature = "scripts")]
    Script,
}

impl Monitors {
    /// Whether there are any.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Sends them a line of about `bytes`, which is made if any of them has room for it. One that does not read its lines is
    /// closed, as a subscriber is.
    pub(crate) fn post(&self, bytes: usize, make_line: impl Fn() -> String) {
        let mut line = None;
        for client in &*self.clients.lock() {
            client.post(bytes, |message| message.simple(line.get_or_insert_with(&make_line)));
        }
    }
}

/// A connection that monitors the server, until this is dropped.
pub(crate) struct Monitoring {
    monitors: Arc<Monitors>,
    client: Arc<Client>,
}

impl Monitoring {
    pub(crate) fn begin(monitors: Arc<Monitors>, client: Arc<Client>) -> Self {
        client.set_monitor(true);
        monitors.clients.lock().push(Arc::clone(&client));
        monitors.count.fetch_add(1, Ordering::SeqCst);
        Monitoring { monitors, client }
    }
}

impl Drop for Monitoring {
    fn drop(&mut self) {
        self.client.set_monitor(false);
        self.monitors.clients.lock().retain(|client| client.id != self.client.id);
        self.monitors.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The line about a command, in the format of Redis. Secrets are not in it.
pub(crate) fn line(
    time: Duration,
    database: u8,
    executor: Executor<'_>,
    spec: &CommandSpec,
    args: Args<'_>,
) -> String {
    let mut line = format!("{}.{:06} [{database} ", time.as_secs(), time.subsec_micros());
    match executor {
        #[cfg(feature = "scripts")]
        Executor::Script => line.push_str("lua"),
        Executor::Client(client) => line.push_str(&source(client.address())),
    }
    line.push(']');
    for (index, arg) in args.iter().enumerate() {
        line.push_str(" \"");
        push_escaped(&mut line, spec.shown_argument(args, index, arg));
        line.push('"');
    }
    line
}

/// The address of a client; that of a Unix socket is its path.
fn source(address: &str) -> String {
    match address.strip_suffix(":0").filter(|path| path.starts_with('/')) {
        Some(path) => format!("unix:{path}"),
        None => address.to_owned(),
    }
}

fn push_escaped(line: &mut String, text: &[u8]) {
    for byte in text {
        match byte {
            b'"' | b'\\' => line.extend(['\\', char::from(*byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x07 => line.push_str("\\a"),
            0x08 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(*byte)),
            // Writing to a String cannot fail.
            _ => _ = write!(line, "\\x{byte:02x}"),
        }
    }
}
