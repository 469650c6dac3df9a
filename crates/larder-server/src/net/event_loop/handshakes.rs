//! TLS handshakes: they have a deadline, and a share of each round, because the processor needs up to a millisecond for one.

use std::collections::VecDeque;
use std::time::Duration;

use super::EventLoop;
use crate::system::Moment;

/// The time of a handshake, from the accepted connection on.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Turns of connections with a handshake in a round, in which all others get one each.
const TURNS_PER_ROUND: usize = 1;

/// The handshakes of a thread.
#[derive(Default)]
pub(super) struct Handshakes {
    /// When each has to be done, by the id and the position of the connection. All have the same time, so the first ends first.
    deadlines: VecDeque<(Moment, u64, usize)>,
    /// Turns in this round.
    turns: usize,
}

impl Handshakes {
    pub(super) fn begin_round(&mut self) {
        self.turns = 0;
    }

    pub(super) fn add(&mut self, client: u64, position: usize) {
        self.deadlines.push_back((Moment::now() + TIMEOUT, client, position));
    }

    pub(super) fn first_deadline(&self) -> Option<Moment> {
        self.deadlines.front().map(|(deadline, ..)| *deadline)
    }
}

impl EventLoop {
    /// Puts a connection with a handshake into the queue, if that has to wait for the next round. Returns whether it did.
    pub(super) fn defers_handshake(&mut self, position: usize) -> bool {
        self.handshakes.turns += 1;
        if self.handshakes.turns <= TURNS_PER_ROUND {
            return false;
        }
        let Some(Some(connection)) = self.connections.get_mut(position) else { return false };
        connection.queued = true;
        self.yielding.push(position);
        true
    }

    /// Closes connections whose handshakes take too long.
    pub(super) fn close_late_handshakes(&mut self, now: Moment) {
        while let Some((deadline, client, position)) = self.handshakes.deadlines.front().copied() {
            let connection = self.connections.get(position).and_then(Option::as_deref);
            let is_waiting = connection
                .is_some_and(|connection| connection.client().id == client && connection.is_handshaking());
            if is_waiting && now < deadline {
                return;
            }
            self.handshakes.deadlines.pop_front();
            if is_waiting {
                tracing::debug!(client, "closed a connection: its TLS handshake takes too long");
                self.remove(position);
            }
        }
    }
}
