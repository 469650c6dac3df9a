//! The applications, each a process that prints its address.

use larder_process::Running;
use larder_testkit::{needs, program};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// An interpreter on a busy machine needs a while.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running application.
pub(super) struct App {
    /// The host and port at which it serves.
    pub(super) address: String,
    /// The name of the token in its forms.
    pub(super) token_field: &'static str,
    /// Whether it has the page `/stream`: Erlang's server sends no body in parts.
    pub(super) streams: bool,
    _process: Running,
}

impl App {
    /// Django, over the server of its `runserver`; `None` if it is not installed, as below.
    pub(super) fn django() -> Option<App> {
        let packages = target().join("python/packages");
        needs("the Python package Django", packages.join("django").is_dir())?;
        let mut command = Command::new(program("python3")?);
        command.arg(source("django_app.py")).env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
        Some(App::start(command, "csrfmiddlewaretoken", true))
    }

    /// Express, over the server of Node.js.
    pub(super) fn express() -> Option<App> {
        let packages = target().join("node/node_modules");
        needs("the npm package express", packages.join("express").is_dir())?;
        let mut command = Command::new(program("node")?);
        command.arg(source("express_app.cjs")).env("NODE_PATH", packages);
        Some(App::start(command, "token", true))
    }

    /// Rails, over Puma.
    pub(super) fn rails() -> Option<App> {
        let mut command = Command::new(program("puma")?);
        command.args(["--bind", "tcp://127.0.0.1:0"]).arg(source("rails_app.ru"));
        Some(App::start(command, "authenticity_token", true))
    }

    /// Elixir, over the server of Erlang.
    pub(super) fn elixir() -> Option<App> {
        let mut command = Command::new(program("elixir")?);
        command.arg(source("elixir_app.exs"));
        Some(App::start(command, "token", false))
    }

    fn start(mut command: Command, token_field: &'static str, streams: bool) -> App {
        let mut process = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
        let output = BufReader::new(process.child().stdout.take().expect("it is piped"));
        let (sender, receiver) = mpsc::channel();
        // Reads on, so that the application can write.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                _ = address_in(&line).map(|address| sender.send(address));
            }
        });
        let address = receiver.recv_timeout(DEADLINE).expect("it prints its address");
        App { address, token_field, streams, _process: process }
    }
}

/// The host and port in a line with a URL.
fn address_in(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("http://")?;
    Some(rest.split_whitespace().next()?.trim_end_matches('/').to_owned())
}

/// A file of an application.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxy/behind/apps").join(name)
}

/// Where `cargo xtask install` has put packages.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder")
}
