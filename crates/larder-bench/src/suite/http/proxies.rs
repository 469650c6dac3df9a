//! nginx and Varnish, if they are installed: caches in processes of their own, in front of a server of this process.

use super::server::Usage;
use crate::tool;
use anyhow::{Context, Result};
use larder_process::{Running, find_program};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a proxy may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program with a response cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nginx,
    Varnish,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Nginx, Kind::Varnish];

    pub(super) fn subject(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Varnish => "varnish",
        }
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Varnish => "varnishd",
        }
    }
}

/// The programs that are not installed.
pub(super) fn missing() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| find_program(kind.program()).is_none())
}

/// A running proxy. Dropping it ends its processes.
pub(super) struct Proxy {
    address: SocketAddr,
    running: Running,
    _folder: TempDir,
}

impl Proxy {
    /// Starts a proxy in front of `origin`; `None` if the program is not installed.
    pub(super) fn start(kind: Kind, origin: SocketAddr) -> Result<Option<Proxy>> {
        let Some(program) = find_program(kind.program()) else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let address = tool::free_address()?;
        let mut command = Command::new(program);
        match kind {
            Kind::Nginx => {
                std::fs::write(folder.path().join("nginx.conf"), nginx(folder.path(), address, origin))?;
                command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf", "-e", "stderr"]);
            }
            Kind::Varnish => {
                let (listen, origin) = (address.to_string(), origin.to_string());
                command.args(["-F", "-a", &listen, "-b", &origin, "-s", "malloc,1g", "-t", "3600"]);
                command.arg("-n").arg(folder.path()).args(["-T", "none", "-p", "nuke_limit=500"]);
                // The rounds of the others take longer than its default of five seconds.
                command.args(["-p", "timeout_idle=3600"]);
            }
        }
        let running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
            .with_context(|| format!("cannot start {}", kind.program()))?;
        let proxy = Proxy { address, running, _folder: folder };
        tool::await_listener(address, PATIENCE).context(kind.program())?;
        Ok(Some(proxy))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The processor time of all processes and threads of the proxy.
    pub(super) fn usage(&self) -> Usage {
        Usage { cpu: tool::Usage::of(self.running.id()).cpu, answered: None }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The first process ends its children before it ends; a kill would leave them.
        self.running.terminate();
        _ = self.running.wait_within(PATIENCE);
    }
}

/// One worker, which keeps the responses in files; the system keeps those in memory.
fn nginx(folder: &Path, address: SocketAddr, origin: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off; worker_processes 1; pid {folder}/pid;
        events {{ worker_connections 1024; }}
        http {{
            access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
            keepalive_timeout 1h;
            client_body_temp_path {folder}/client; proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
            proxy_cache_path {folder}/cache keys_zone=responses:16m max_size=1g inactive=1h use_temp_path=off;
            server {{
                listen {address} reuseport;
                location / {{
                    proxy_pass http://{origin}; proxy_http_version 1.1; proxy_set_header Connection '';
                    proxy_cache responses; proxy_cache_valid 200 1h; proxy_max_temp_file_size 1024m;
                }}
            }}
        }}
"
    )
}
