//! The proxies that are compared: what each is called, what it speaks, and how it is configured.
//!
//! No configuration has a TTL of its own: the fields of the origin decide. Each has two workers where that can be chosen, keeps
//! its connections to the origin and those of idle clients, and writes no access log.

mod httpd;
mod larder;
mod nginx;
mod squid;
mod traffic_server;
mod varnish;

use crate::tool::{Certificate, Protocol};
use anyhow::Result;
use larder_process::find_program;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The threads or processes that serve, one for each processor of the smallest machine.
const WORKERS: usize = 2;
/// The memory for stored responses.
const MEMORY_BYTES: u64 = 1 << 30;
/// More than the longest body.
const MAX_BODY_BYTES: usize = 2 * super::origin::MAX_BYTES;
/// More than the clients of any workload.
const MAX_CONNECTIONS: usize = 16_384;
/// How long an idle connection stays open.
const IDLE_SECONDS: u64 = 3_600;

/// A proxy with a response cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Larder,
    Nginx,
    Varnish,
    Httpd,
    Squid,
    TrafficServer,
}

/// What a proxy is started with.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    /// An empty folder, into which every user may write: a proxy that root starts continues as another user.
    pub(super) folder: &'a Path,
    pub(super) address: SocketAddr,
    pub(super) origin: SocketAddr,
    /// With it the proxy serves TLS, without it plain HTTP.
    pub(super) certificate: Option<&'a Certificate>,
}

impl Peer {
    pub(super) const ALL: [Peer; 6] =
        [Peer::Larder, Peer::Nginx, Peer::Varnish, Peer::Httpd, Peer::Squid, Peer::TrafficServer];

    pub(super) fn subject(self) -> &'static str {
        match self {
            Peer::Larder => "larder",
            Peer::Nginx => "nginx",
            Peer::Varnish => "varnish",
            Peer::Httpd => "httpd",
            Peer::Squid => "squid",
            Peer::TrafficServer => "traffic server",
        }
    }

    /// The program in `PATH`; `None` for that of this project.
    pub(super) fn program(self) -> Option<&'static str> {
        match self {
            Peer::Larder => None,
            Peer::Nginx => Some("nginx"),
            Peer::Varnish => Some("varnishd"),
            Peer::Httpd => Some("apache2"),
            Peer::Squid => Some("squid"),
            Peer::TrafficServer => Some("traffic_server"),
        }
    }

    pub(super) fn is_installed(self) -> bool {
        self.program().is_none_or(|program| find_program(program).is_some())
    }

    /// Whether it serves this protocol over TLS as Debian builds it.
    pub(super) fn speaks(self, protocol: Protocol) -> bool {
        match self {
            Peer::Larder | Peer::Nginx | Peer::Httpd | Peer::TrafficServer => true,
            Peer::Squid => protocol == Protocol::Http1,
            Peer::Varnish => false,
        }
    }

    /// Writes its files, and returns the command that serves in the foreground.
    pub(super) fn command(self, setup: Setup<'_>) -> Result<Command> {
        match self {
            Peer::Larder => larder::command(setup),
            Peer::Nginx => nginx::command(setup),
            Peer::Varnish => Ok(varnish::command(setup)),
            Peer::Httpd => httpd::command(setup),
            Peer::Squid => squid::command(setup),
            Peer::TrafficServer => traffic_server::command(setup),
        }
    }
}

/// Creates a folder into which every user may write.
fn create_open(folder: &Path) -> Result<()> {
    std::fs::create_dir(folder)?;
    open_to_all(folder)
}

/// Lets every user write into a folder: a proxy that root starts continues as another user.
pub(super) fn open_to_all(folder: &Path) -> Result<()> {
    Ok(std::fs::set_permissions(folder, Permissions::from_mode(0o777))?)
}
