//! Turns: connections that are ready are read into a batch; when it is full, or no other one is ready, their requests are
//! executed and their replies written.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mio::Token;

use super::{BLOCKED, EventLoop, READING};
use crate::net::batch::Batch;
use crate::net::connection::{Connection, ThreadBuffers, Turn};
use crate::system::Moment;

/// Of so many turns the last one is timed, with those of its batch, and takes the time anew; others begin at the time of
/// the one before. Reading the clock may take as long as a command.
const TIMED_TURNS: u32 = 16;

impl EventLoop {
    /// Begins the turn of a connection at a time that was `now` a few turns ago. Returns the time for the next one.
    pub(super) fn begin_turn(&mut self, position: usize, now: Moment) -> Moment {
        let now = if self.batch.is_full(self.buffers.input.len()) { self.run_batch(now) } else { now };
        let start = self.batch.input_end();
        let Some(Some(connection)) = self.connections.get_mut(position) else { return now };
        let ThreadBuffers { input, output, .. } = &mut self.buffers;
        match connection.begin_turn(&mut input[start..], output) {
            Ok(length) => {
                self.batch.push(position, start..start + length, connection.is_between_requests());
            }
            Err(turn) => self.end_turn(position, turn),
        }
        now
    }

    /// Gives a turn to a connection, and to those whose turns have begun.
    pub(super) fn turn(&mut self, position: usize, now: Moment) -> Moment {
        let now = self.begin_turn(position, now);
        self.run_batch(now)
    }

    /// Ends the turns that have begun.
    pub(super) fn run_batch(&mut self, mut now: Moment) -> Moment {
        let count = self.batch.len() as u32;
        if count == 0 {
            return now;
        }
        let is_timed = self.turns % TIMED_TURNS + count >= TIMED_TURNS;
        self.turns = self.turns.wrapping_add(count);
        if is_timed {
            now = Moment::now();
        }
        let is_late = match self.batch.take_only() {
            Some((position, received)) => self.run_turn(position, received, now),
            None => self.run_several(now),
        };
        if is_timed {
            self.state.stats.threads[self.index].latency.record_n(now.elapsed(), TIMED_TURNS.into());
        }
        if is_timed || is_late { Moment::now() } else { now }
    }

    /// Ends the turns of several connections. Returns whether one may have taken long.
    fn run_several(&mut self, now: Moment) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        batch.prefetch(&self.buffers.input, |position| {
            let connection = self.connections[position].as_ref();
            self.state.store.database(connection.map_or(0, |connection| connection.database()))
        });
        let is_late = self.run_each(&mut batch, now);
        self.write_deferred(&mut batch);
        batch.clear();
        self.batch = batch;
        is_late
    }

    /// Runs the requests of a connection, and writes the replies. Returns whether it may have taken long: it has
    /// used its budget.
    fn run_turn(&mut self, position: usize, received: Range<usize>, now: Moment) -> bool {
        self.guarded_turn(position, |connection, buffers| connection.run_turn(buffers, received, now));
        self.yielding.last() == Some(&position)
    }

    /// Runs the requests that the batch has received. Replies wait for those to other short requests only. Returns whether a turn
    /// may have taken long.
    fn run_each(&mut self, batch: &mut Batch, now: Moment) -> bool {
        let mut is_late = false;
        for index in 0..batch.len() {
            let slot = &mut batch.slots()[index];
            let position = slot.position;
            if slot.is_short {
                let run = |connection: &mut Connection, buffers: &mut ThreadBuffers| {
                    connection.run_short_turn(buffers, slot, now)
                };
                match self.guarded(position, run) {
                    None => batch.slots()[index].is_deferred = true,
                    Some(turn) => self.end_turn(position, turn),
                }
                continue;
            }
            let received = slot.received.clone();
            self.write_deferred(batch);
            let now = if is_late { Moment::now() } else { now };
            is_late |= self.run_turn(position, received, now);
        }
        is_late
    }

    /// Writes the replies that wait.
    fn write_deferred(&mut self, batch: &mut Batch) {
        for slot in batch.slots().iter_mut().filter(|slot| slot.is_deferred) {
            slot.is_deferred = false;
            self.guarded_turn(slot.position, |connection, _| connection.write_deferred(&mut slot.replies));
        }
    }

    /// Runs a part of a turn that ends it. A panic ends only this connection.
    pub(super) fn guarded_turn(
        &mut self,
        position: usize,
        part: impl FnOnce(&mut Connection, &mut ThreadBuffers) -> Turn,
    ) {
        if let Some(turn) = self.guarded(position, |connection, buffers| Some(part(connection, buffers))) {
            self.end_turn(position, turn);
        }
    }

    /// Runs a part of a turn. A panic ends only this connection.
    fn guarded(
        &mut self,
        position: usize,
        part: impl FnOnce(&mut Connection, &mut ThreadBuffers) -> Option<Turn>,
    ) -> Option<Turn> {
        let Some(Some(connection)) = self.connections.get_mut(position) else { return None };
        let buffers = &mut self.buffers;
        catch_unwind(AssertUnwindSafe(|| part(connection, buffers))).unwrap_or_else(|_| {
            self.state.stats.panics.add(1);
            tracing::error!(client = connection.client().id, "a command panicked; its connection is closed");
            Some(Turn::Closed)
        })
    }

    /// Waits for what a turn has left to do.
    fn end_turn(&mut self, position: usize, turn: Turn) {
        self.wake_up(position);
        let Some(Some(connection)) = self.connections.get_mut(position) else { return };
        let is_kept = match turn {
            Turn::Sleeping(until) => {
                connection.sleeps_until = Some(until);
                self.sleeping.insert((until, position));
                connection.register(self.poll.registry(), Token(position), READING).is_ok()
            }
            Turn::Closed => false,
            Turn::Yielding => {
                // Messages may be sent while it is in the queue.
                if !std::mem::replace(&mut connection.queued, true) {
                    self.yielding.push(position);
                }
                true
            }
            Turn::Paused => {
                if connection.set_paused(true) {
                    self.paused.push(position);
                }
                connection.register(self.poll.registry(), Token(position), READING).is_ok()
            }
            Turn::Blocked => connection.register(self.poll.registry(), Token(position), BLOCKED).is_ok(),
            Turn::Waiting => connection.register(self.poll.registry(), Token(position), READING).is_ok(),
        };
        if !is_kept {
            self.remove(position);
        }
    }
}
