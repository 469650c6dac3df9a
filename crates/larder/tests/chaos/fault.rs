//! The faults: what happens to the server and to the connections to it.

use crate::promise::rng::Rng;
use larder_testkit::{FlakyProxy, RedisServer};
use std::thread::sleep;
use std::time::Duration;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server is killed with SIGKILL and started empty.
    Killed,
    /// It is killed and started from an older snapshot.
    Restored,
    /// It is stopped with SIGSTOP for a while.
    Stopped,
    /// It closes every connection.
    Disconnected,
    /// It closes the connections on which the nodes subscribe.
    Unsubscribed,
    /// The connections of one node are cut at random bytes for a while.
    Cut,
    /// The proxy of one node holds all bytes for a while; the other nodes continue.
    Delayed,
    /// It has no memory left for a while and refuses writes.
    Full,
    /// It loses its scripts.
    ScriptsLost,
    /// It evicts the ledger, as a server may that evicts any key.
    LedgerEvicted,
    /// A node ends without confirming anything, and another takes its place.
    NodeLost,
}

impl Fault {
    pub(crate) const ALL: [Fault; 11] = [
        Fault::Killed,
        Fault::Restored,
        Fault::Stopped,
        Fault::Disconnected,
        Fault::Unsubscribed,
        Fault::Cut,
        Fault::Delayed,
        Fault::Full,
        Fault::ScriptsLost,
        Fault::LedgerEvicted,
        Fault::NodeLost,
    ];

    /// Whether this server can have it: `larder server` has no snapshots.
    pub(crate) fn is_possible(self, server: &RedisServer) -> bool {
        server.is_redis() || !matches!(self, Fault::Restored)
    }

    /// After how many bytes a flaky proxy cuts a connection: few enough to split requests, enough for some connections
    /// to complete their handshake.
    const CUT_AFTER: std::ops::Range<u64> = 1..1_500;

    /// Injects the fault, for `lasting` if it takes time, and ends it. Returns whether it had an effect.
    pub(crate) fn inject(
        self,
        server: &mut RedisServer,
        proxies: &[FlakyProxy],
        rng: &Rng,
        lasting: Duration,
    ) -> bool {
        let proxy = &proxies[rng.below(0..proxies.len() as u64) as usize];
        match self {
            Fault::Killed => {
                server.kill();
                sleep(lasting);
                server.restart();
            }
            Fault::Restored => {
                server.kill();
                sleep(lasting);
                server.restart_from_snapshot();
            }
            Fault::Stopped => {
                server.pause();
                sleep(lasting);
                server.resume();
            }
            Fault::Disconnected => {
                return close_connections(server, "normal") + close_connections(server, "pubsub") > 0;
            }
            Fault::Unsubscribed => return close_connections(server, "pubsub") > 0,
            Fault::Delayed => {
                proxy.pause();
                sleep(lasting);
                proxy.resume();
            }
            Fault::Cut => {
                let before = proxy.cuts();
                proxy.cut_after(Some(Self::CUT_AFTER));
                sleep(lasting);
                proxy.cut_after(None);
                return proxy.cuts() > before;
            }
            Fault::Full => {
                server.set_full(true);
                sleep(lasting);
                server.set_full(false);
            }
            Fault::ScriptsLost => server.forget_scripts(),
            Fault::LedgerEvicted => return server.command("DEL chaos::ledger") == ":1\r\n",
            Fault::NodeLost => unreachable!("the run replaces its nodes"),
        }
        true
    }
}

/// Closes all connections of a type and returns how many there were.
fn close_connections(server: &RedisServer, what: &str) -> u64 {
    let reply = server.command(&format!("CLIENT KILL TYPE {what}"));
    let killed = reply.trim_end().strip_prefix(':').and_then(|number| number.parse().ok());
    killed.unwrap_or_else(|| panic!("CLIENT KILL was answered by {reply:?}"))
}
