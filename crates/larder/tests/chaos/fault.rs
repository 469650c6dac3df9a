//! The faults: what happens to the servers, to the connections to them, and to the sentinels that watch one.

use crate::ground::Ground;
use crate::promise::rng::Rng;
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
    /// A node ends without confirming anything, and another takes its place. One in another language is killed with SIGKILL.
    NodeLost,
    /// A node in another language is stopped with SIGSTOP for a while.
    NodeStopped,
    /// A replica becomes the primary because it was told to. Behind sentinels the former one goes on until they have told it.
    FailedOver,
    /// A primary is killed, and its replica takes its place.
    PrimaryKilled,
    /// A primary is stopped for so long that its replica takes its place, then goes on as if it were the primary.
    PrimaryStopped,
    /// A primary and a node are cut off from all others for so long that a replica takes its place, and longer.
    Partitioned,
    /// A majority of the sentinels is stopped for a while.
    SentinelsStopped,
}

impl Fault {
    pub(crate) const ALL: [Fault; 17] = [
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
        Fault::NodeStopped,
        Fault::FailedOver,
        Fault::PrimaryKilled,
        Fault::PrimaryStopped,
        Fault::Partitioned,
        Fault::SentinelsStopped,
    ];

    /// Whether it cannot happen to one server.
    pub(crate) fn needs_several_servers(self) -> bool {
        self.is_failover() || matches!(self, Fault::Partitioned | Fault::SentinelsStopped)
    }

    /// Whether another server is the primary afterwards, which may lack what the former one acknowledged last.
    pub(crate) fn is_failover(self) -> bool {
        matches!(self, Fault::FailedOver | Fault::PrimaryKilled | Fault::PrimaryStopped)
    }

    /// Whether it can also happen to one of several servers, and makes no other the primary.
    pub(crate) fn is_of_any_server(self) -> bool {
        matches!(
            self,
            Fault::Disconnected
                | Fault::Unsubscribed
                | Fault::ScriptsLost
                | Fault::LedgerEvicted
                | Fault::NodeLost
        )
    }

    /// Whether the server may be an older copy of itself afterwards.
    pub(crate) fn loses_data(self) -> bool {
        self.is_failover() || matches!(self, Fault::Restored | Fault::Partitioned)
    }

    /// After how many bytes a flaky proxy cuts a connection: few enough to split requests, enough for some connections
    /// to complete their handshake.
    const CUT_AFTER: std::ops::Range<u64> = 1..1_500;

    /// Injects the fault, for `lasting` if it takes time, and ends it. Returns whether it had an effect.
    pub(crate) fn inject(self, ground: &mut Ground, rng: &Rng, lasting: Duration) -> bool {
        match self {
            Fault::FailedOver => return ground.fail_over(rng, lasting),
            Fault::PrimaryKilled => {
                ground.kill_primary(rng);
                return true;
            }
            Fault::PrimaryStopped => {
                ground.stop_primary(rng, lasting);
                return true;
            }
            Fault::Unsubscribed => return close_connections(ground, "pubsub") > 0,
            Fault::ScriptsLost => {
                let replies = ground.commands("SCRIPT FLUSH");
                return replies.iter().all(|reply| reply == "+OK\r\n");
            }
            Fault::LedgerEvicted => {
                let replies = ground.commands("DEL chaos::ledger");
                return replies.iter().any(|reply| reply == ":1\r\n");
            }
            Fault::Disconnected => {
                return close_connections(ground, "normal") + close_connections(ground, "pubsub") > 0;
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
            Fault::Full => {
                server.set_full(true);
                sleep(lasting);
                server.set_full(false);
            }
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
fn close_connections(ground: &mut Ground, what: &str) -> u64 {
    let killed = ground.commands(&format!("CLIENT KILL TYPE {what}")).into_iter().map(|reply| {
        let killed = reply.trim_end().strip_prefix(':').and_then(|number| number.parse::<u64>().ok());
        killed.unwrap_or_else(|| panic!("CLIENT KILL was answered by {reply:?}"))
    });
    killed.sum()
}
