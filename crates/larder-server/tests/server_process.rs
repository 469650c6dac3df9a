//! A server in a process of its own, whose memory and file descriptors are no others: this test program again.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStdin, Command, Stdio};

use larder_server::{Config, Server};
use larder_testkit::{Deadline, Running, start};

use crate::support::{Client, connect};

/// The configuration of the server in the child process.
const CONFIG: &str = "LARDER_TEST_SERVER_CONFIG";
/// What the child prints before its address, so that the output of the test runner is no address.
const MARK: &str = "server process: ";

/// A running process. It ends when it is dropped.
pub(crate) struct ServerProcess {
    running: Running,
    address: SocketAddr,
    /// The child ends with this pipe, also if the test is killed.
    _life: ChildStdin,
    _deadline: Deadline,
}

impl ServerProcess {
    /// Starts a server with this configuration, in JSON. `listen` is set.
    pub(crate) fn start(config: &serde_json::Value) -> ServerProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "server_process::life_of_the_process", "--nocapture"]);
        let config = [(CONFIG, config.to_string())];
        let mut running = start(command.envs(config).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let life = running.child().stdin.take().unwrap();
        let output = BufReader::new(running.child().stdout.take().unwrap());
        let address = output.lines().find_map(|line| {
            let (_, address) = line.unwrap().split_once(MARK).map(|(a, b)| (a.len(), b.to_owned()))?;
            Some(address.parse().unwrap())
        });
        let address = address.expect("the server prints its address");
        ServerProcess { running, address, _life: life, _deadline: Deadline::start() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> Client<TcpStream> {
        connect(self.address)
    }

    /// The memory of the process in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        larder_testkit::resident_bytes(&self.running)
    }

    /// A number of `INFO`.
    pub(crate) fn info(&self, field: &str) -> u64 {
        let reply = self.connect().call(&["INFO", "everything"]);
        let text = String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {field} in {text}"))
    }
}

/// Serves until the parent ends. Without its variable this test has nothing to do.
#[test]
fn life_of_the_process() {
    let Ok(config) = std::env::var(CONFIG) else { return };
    let config: Config = serde_json::from_str(&config).unwrap();
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::bind(Config { listen, ..config }).unwrap();
    println!("{MARK}{}", server.local_addr().unwrap());
    std::thread::spawn(|| {
        _ = std::io::stdin().lines().next();
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.run(std::future::pending::<()>())).unwrap();
}
