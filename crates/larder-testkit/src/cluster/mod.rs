//! A cluster of servers that share the hash slots: what a test does with it. `start` and `file`
//! have how it begins, `view` what the servers know of each other, `slots` how a slot moves, and `mover` how slots move while
//! servers fail.

mod file;
mod mover;
mod slots;
mod start;
mod view;

pub use mover::{MoveMethod, Mover};
pub use slots::slot_of;

use crate::network::NetworkPart;
use crate::wait::Deadline;
use file::Identity;
use start::Setup;
use std::ops::Range;
use std::sync::Arc;

/// A cluster of the test's own, on free TCP ports of 127.0.0.1, without persistence. It ends with the test.
///
/// The servers are numbered in the order of their start: first the primaries, whose slots are equal parts in this order,
/// then the replica of each, in the same order, then those of [`Cluster::add_primary`]. A server keeps its number when its
/// role changes. A server that does not reply for a second is down for the others.
#[derive(Debug)]
pub struct Cluster {
    setup: Setup,
    servers: Vec<Server>,
    _deadline: Deadline,
}

#[derive(Debug)]
struct Server {
    identity: Identity,
    process: larder_process::RedisServer,
    /// The part of the test's network where it runs.
    part: Option<Arc<NetworkPart>>,
    is_paused: bool,
}

impl Cluster {
    /// The address for caches: every server.
    pub fn url(&self) -> String {
        let hosts =
            self.servers.iter().map(|Server { identity, .. }| format!("{}:{}", identity.host, identity.port));
        let hosts: Vec<_> = hosts.collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The numbers of the servers.
    pub fn servers(&self) -> Range<usize> {
        0..self.servers.len()
    }

    /// The port of a server.
    pub fn port(&self, server: usize) -> u16 {
        self.servers[server].identity.port
    }

    /// The id of a server in the cluster, which it keeps over a restart.
    pub fn id(&self, server: usize) -> &str {
        &self.servers[server].identity.id
    }

    /// Sends one inline command to a server, over its socket, and returns the raw reply, which must fit into one read.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn command(&self, server: usize, line: &str) -> String {
        let reply = self.servers[server].process.command(line);
        reply.unwrap_or_else(|error| panic!("server {server} does not answer {line:?}: {error}"))
    }

    /// The same for a command that has no other reply than OK.
    fn execute(&self, server: usize, line: &str) {
        assert_eq!(self.command(server, line), "+OK\r\n", "server {server}: {line}");
    }

    /// Ends a server at once. Its address refuses connections then.
    pub fn kill(&mut self, server: usize) {
        self.servers[server].process.kill();
        self.servers[server].is_paused = false;
    }

    /// Starts a server again, empty, at the same address and with what it knew of the cluster. It becomes a replica if
    /// another has its slots. Returns when it replies, before it has its role: see [`Cluster::await_ok`].
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self, server: usize) {
        self.kill(server);
        let Server { process, part, .. } = &mut self.servers[server];
        _ = std::fs::remove_file(process.folder().join("dump.rdb"));
        start::in_part(part.as_deref(), || process.run()).expect("the server starts");
    }

    /// Stops a server from running: it keeps its connections and answers nothing.
    ///
    /// # Panics
    /// If it was killed.
    pub fn pause(&mut self, server: usize) {
        self.servers[server].process.process().expect("the server runs").pause();
        self.servers[server].is_paused = true;
    }

    /// Lets a paused server run again.
    ///
    /// # Panics
    /// If it was killed.
    pub fn resume(&mut self, server: usize) {
        self.servers[server].process.process().expect("the server runs").resume();
        self.servers[server].is_paused = false;
    }

    /// Whether a server answers: it is neither killed nor paused.
    fn answers(&self, server: usize) -> bool {
        let server = &self.servers[server];
        server.process.process().is_some() && !server.is_paused
    }

    /// The servers that answer.
    fn answering(&self) -> impl Iterator<Item = usize> {
        self.servers().filter(|server| self.answers(*server))
    }

    /// Closes the connections of clients to a server, of this type of CLIENT KILL: `normal`, or `pubsub` for those with
    /// subscriptions. Returns their number.
    ///
    /// # Panics
    /// If the server does not answer, or knows no such type.
    pub fn close_clients(&self, server: usize, kind: &str) -> usize {
        let reply = self.command(server, &format!("CLIENT KILL TYPE {kind}"));
        let closed = reply.strip_prefix(':').and_then(|number| number.trim_end().parse().ok());
        closed.unwrap_or_else(|| panic!("server {server} closes no {kind} clients: {reply}"))
    }
}
