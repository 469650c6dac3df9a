//! The faults: what happens to the server, to the connections to it, and to the sentinels that watch it.

use crate::ground::Ground;
use crate::promise::rng::Rng;
use larder_testkit::RedisServer;
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
    /// The sentinels make the replica the primary. The former one goes on until they have told it.
    FailedOver,
    /// The primary is killed, and the sentinels promote the replica.
    PrimaryKilled,
    /// The primary is stopped for so long that the replica is promoted, then goes on as if it were the primary.
    PrimaryStopped,
    /// A majority of the sentinels is stopped for a while.
    SentinelsStopped,
}

impl Fault {
    pub(crate) const ALL: [Fault; 15] = [
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
        Fault::FailedOver,
        Fault::PrimaryKilled,
        Fault::PrimaryStopped,
        Fault::SentinelsStopped,
    ];

    /// Whether it needs sentinels.
    pub(crate) fn is_of_sentinels(self) -> bool {
        self.is_failover() || self == Fault::SentinelsStopped
    }

    /// Whether another server is the primary afterwards, which may lack what the former one acknowledged last.
    pub(crate) fn is_failover(self) -> bool {
        matches!(self, Fault::FailedOver | Fault::PrimaryKilled | Fault::PrimaryStopped)
    }

    /// Whether it can also happen to a server that sentinels watch, and makes them promote no other.
    pub(crate) fn is_of_any_server(self) -> bool {
        matches!(self, Fault::Unsubscribed | Fault::ScriptsLost | Fault::LedgerEvicted | Fault::NodeLost)
    }

    /// Whether the server may be an older copy of itself afterwards.
    pub(crate) fn loses_data(self) -> bool {
        self == Fault::Restored || self.is_failover()
    }

    /// After how many bytes a flaky proxy cuts a connection: few enough to split requests, enough for some connections
    /// to complete their handshake.
    const CUT_AFTER: std::ops::Range<u64> = 1..1_500;

    /// Injects the fault, for `lasting` if it takes time, and ends it. Returns whether it had an effect.
    pub(crate) fn inject(self, ground: &mut Ground, rng: &Rng, lasting: Duration) -> bool {
        match self {
            Fault::FailedOver => return ground.sentinels().fail_over(lasting),
            Fault::PrimaryKilled => {
                ground.sentinels().kill_primary();
                return true;
            }
            Fault::PrimaryStopped => {
                ground.sentinels().stop_primary(lasting);
                return true;
            }
            Fault::SentinelsStopped => {
                ground.sentinels().pause(2);
                sleep(lasting);
                ground.sentinels().pause(0);
                return true;
            }
            Fault::Delayed | Fault::Cut => return self.inject_on_the_way(ground, rng, lasting),
            _ => {}
        }
        let server = ground.server();
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
            Fault::Full => {
                server.set_full(true);
                sleep(lasting);
                server.set_full(false);
            }
            Fault::ScriptsLost => server.forget_scripts(),
            Fault::LedgerEvicted => return server.command("DEL chaos::ledger") == ":1\r\n",
            _ => unreachable!("{self:?} is no fault of one server"),
        }
        true
    }

    /// Between one node and the server.
    fn inject_on_the_way(self, ground: &Ground, rng: &Rng, lasting: Duration) -> bool {
        let proxies = ground.proxies();
        let proxy = &proxies[rng.below(0..proxies.len() as u64) as usize];
        if self == Fault::Delayed {
            proxy.pause();
            sleep(lasting);
            proxy.resume();
            return true;
        }
        let before = proxy.cuts();
        proxy.cut_after(Some(Self::CUT_AFTER));
        sleep(lasting);
        proxy.cut_after(None);
        proxy.cuts() > before
    }
}

/// Closes all connections of a type and returns how many there were.
fn close_connections(server: &RedisServer, what: &str) -> u64 {
    let reply = server.command(&format!("CLIENT KILL TYPE {what}"));
    let killed = reply.trim_end().strip_prefix(':').and_then(|number| number.parse().ok());
    killed.unwrap_or_else(|| panic!("CLIENT KILL was answered by {reply:?}"))
}
