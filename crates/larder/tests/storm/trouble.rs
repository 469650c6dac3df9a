//! What happens to the server and to the lines to it.

use crate::promise::rng::Rng;
use larder_testkit::{Cutter, RedisServer};
use std::thread::sleep;
use std::time::Duration;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Killed with SIGKILL, and started anew with nothing.
    Killed,
    /// Killed, and started with what it held some time ago.
    WentBack,
    /// Stopped with SIGSTOP for a while.
    Stopped,
    /// It closed every connection.
    HungUp,
    /// It closed the connections by which the nodes listen.
    Deafened,
    /// The connections of one node were cut at random bytes for a while.
    Cut,
    /// One node was held up: its line kept all bytes back for a while, while the others went on.
    HeldUp,
    /// It took no writes for a while.
    Full,
    /// It forgot its scripts.
    Unscripted,
}

impl Trouble {
    pub(crate) const ALL: [Trouble; 9] = [
        Trouble::Killed,
        Trouble::WentBack,
        Trouble::Stopped,
        Trouble::HungUp,
        Trouble::Deafened,
        Trouble::Cut,
        Trouble::HeldUp,
        Trouble::Full,
        Trouble::Unscripted,
    ];

    /// In how many bytes a line breaks that is being cut: small enough for requests to be split, large enough for
    /// connections to get through their greeting now and then.
    const CUT_AFTER: std::ops::Range<u64> = 1..1_500;

    /// Makes the trouble, for so long where it lasts, and ends it. Whether anything came of it.
    pub(crate) fn make(
        self,
        server: &mut RedisServer,
        lines: &[Cutter],
        rng: &Rng,
        lasting: Duration,
    ) -> bool {
        let line = &lines[rng.below(0..lines.len() as u64) as usize];
        match self {
            Trouble::Killed => {
                server.kill();
                sleep(lasting);
                server.restart();
            }
            Trouble::WentBack => {
                server.kill();
                sleep(lasting);
                server.restart_from_snapshot();
            }
            Trouble::Stopped => {
                server.pause();
                sleep(lasting);
                server.resume();
            }
            Trouble::HungUp => return hang_up(server, "normal") + hang_up(server, "pubsub") > 0,
            Trouble::Deafened => return hang_up(server, "pubsub") > 0,
            Trouble::HeldUp => {
                line.pause();
                sleep(lasting);
                line.resume();
            }
            Trouble::Cut => {
                let before = line.cuts();
                line.cut_after(Some(Self::CUT_AFTER));
                sleep(lasting);
                line.cut_after(None);
                return line.cuts() > before;
            }
            Trouble::Full => {
                server.set_full(true);
                sleep(lasting);
                server.set_full(false);
            }
            Trouble::Unscripted => server.forget_scripts(),
        }
        true
    }
}

/// Closes all connections of a type; how many there were.
fn hang_up(server: &RedisServer, what: &str) -> u64 {
    let reply = server.command(&format!("CLIENT KILL TYPE {what}"));
    let killed = reply.trim_end().strip_prefix(':').and_then(|number| number.parse().ok());
    killed.unwrap_or_else(|| panic!("CLIENT KILL was answered by {reply:?}"))
}
