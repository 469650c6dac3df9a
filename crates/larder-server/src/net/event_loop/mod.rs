//! The loop of a thread that serves connections: waits for sockets and messages, and gives each ready connection a turn.
//!
//! ```text
//! wait ─► sockets that are ready: one turn each ─► connections that yielded: one turn each ─► messages of all threads
//!   ▲                                                                                                  │
//!   └──────────────── does not sleep while a connection has more to do, or a message is there ◄────────┘
//! ```
//!
//! Sockets are registered edge-triggered and for reading only; a connection whose client does not read its replies is
//! registered for writing meanwhile. A registration reports what is ready already, so no state has to be kept for that.

mod handshakes;
mod turns;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use larder_engine::raw::Compaction;
use mio::{Events, Interest, Poll, Token, Waker};

use super::batch::Batch;
use super::connection::{Connection, ThreadBuffers};
use super::load::{Advice, LoadMeter, choose};
use super::peers::{Peer, Peers};
use crate::client::{Client, Inbox, Message};
use crate::state::ServerState;
use crate::system::{self, Moment};
use handshakes::Handshakes;

/// Interval at which expired entries are reclaimed, by the first thread.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(100);
/// Entries that are reclaimed at a time: less than a millisecond.
const RECLAIM_BUDGET: usize = 256;
/// Entries that are evicted at a time, if they take more memory than they may.
const EVICT_BUDGET: usize = 128;
/// Slots whose records are moved at a time, if their memory lies in pieces.
const COMPACT_BUDGET: usize = 512;
/// How long no compaction begins after one that emptied less than an eighth of its pages: the first time, doubled each time
/// that it happens again, and at most.
const COMPACT_PAUSE: Duration = Duration::from_millis(100);
const COMPACT_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Interval at which connections without requests are looked for, if they have a time limit.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which clients are looked for that do not read their messages, by the first thread.
const OUTPUT_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Events that are read from the system at a time.
const EVENTS: usize = 1024;
/// The token of the waker. Those of connections are their positions.
const WAKER: Token = Token(usize::MAX);

/// The state of one thread.
pub(crate) struct EventLoop {
    index: usize,
    state: Arc<ServerState>,
    peers: Peers,
    poll: Poll,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// Connections that have more to do without waiting.
    yielding: Vec<usize>,
    /// Connections whose next command waits for the end of a pause.
    paused: Vec<usize>,
    /// Connections whose command waits for others, by the end of their time.
    sleeping: BTreeSet<(Moment, usize)>,
    handshakes: Handshakes,
    buffers: ThreadBuffers,
    batch: Batch,
    /// The number of turns so far, modulo 2^32.
    turns: u32,
    meter: LoadMeter,
    reclaim_at: Moment,
    compaction: Option<Compaction>,
    /// When the next one may begin.
    compact_at: Moment,
    /// How long the next pause is.
    compact_pause: Duration,
    /// When connections without requests are looked for, if they have a time limit.
    idle_check_at: Moment,
    /// When clients that do not read their messages are looked for.
    output_check_at: Moment,
    /// Set by [`Message::Stop`]: the end of the drain.
    drain_until: Option<Moment>,
}

impl EventLoop {
    pub(crate) fn new(index: usize, state: Arc<ServerState>, peers: Peers) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        state.inboxes[index].attach(Arc::clone(&waker));
        peers[index].arrivals.attach(waker);
        let now = Moment::now();
        Ok(EventLoop {
            index,
            poll,
            connections: Vec::new(),
            free: Vec::new(),
            yielding: Vec::new(),
            paused: Vec::new(),
            sleeping: BTreeSet::new(),
            handshakes: Handshakes::default(),
            buffers: ThreadBuffers::new(),
            batch: Batch::default(),
            turns: 0,
            meter: LoadMeter::new(state.stats.started, now),
            reclaim_at: now + RECLAIM_INTERVAL,
            compaction: None,
            compact_at: now,
            compact_pause: COMPACT_PAUSE,
            idle_check_at: now,
            output_check_at: now,
            drain_until: None,
            state,
            peers,
        })
    }

    /// Serves until [`Message::Stop`], and then until no connection is left or the drain timeout is over.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut now = Moment::now();
        // Messages may have been sent before the waker was there.
        self.read_messages();
        while !self.is_done(now) {
            let timeout = if self.fall_asleep() { self.timeout(now) } else { Some(Duration::ZERO) };
            let polled = self.poll.poll(&mut events, timeout);
            self.inbox().wake_up();
            self.own().arrivals.wake_up();
            match polled {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(thread = self.index, %error, "cannot wait for connections");
                    return;
                }
            }
            let start = Moment::now();
            self.own().load.begin_round(self.meter.ms(start));
            now = self.serve(&events, start);
            self.reclaim(now);
            self.close_idle(now);
            self.close_late_handshakes(now);
            self.close_slow_readers(now);
            self.balance(now);
            self.own().load.end_round();
        }
    }

    /// From now on whoever sends a message wakes the thread. Returns whether it may sleep, because none is there.
    fn fall_asleep(&self) -> bool {
        let inboxes_are_empty = [self.inbox().fall_asleep(), self.own().arrivals.fall_asleep()];
        inboxes_are_empty == [true; 2]
    }

    fn is_done(&self, now: Moment) -> bool {
        let has_connections = self.free.len() < self.connections.len();
        self.drain_until.is_some_and(|until| now >= until || !has_connections)
    }

    /// How long the thread may sleep; `None` until it is woken.
    fn timeout(&self, now: Moment) -> Option<Duration> {
        if !self.yielding.is_empty() {
            return Some(Duration::ZERO);
        }
        let mut until = if self.index == 0 { self.reclaim_at } else { Moment::NEVER };
        if let Some(drain_until) = self.drain_until {
            until = until.min(drain_until);
        }
        if self.state.idle_timeout().is_some() {
            until = until.min(self.idle_check_at);
        }
        if let Some(end) = self.handshakes.first_deadline() {
            until = until.min(end);
        }
        if let Some((end, _)) = self.sleeping.first() {
            until = until.min(*end);
        }
        if !self.paused.is_empty() {
            until = until.min(now + self.state.pause.left(now).unwrap_or_default());
        }
        (until != Moment::NEVER).then(|| until.since(now))
    }

    /// Gives a turn to each connection that is ready. Returns the time of the last turns.
    fn serve(&mut self, events: &Events, mut now: Moment) -> Moment {
        self.handshakes.begin_round();
        if !self.paused.is_empty() && self.state.pause.current(now).is_none() {
            self.resume();
        }
        let yielded = std::mem::take(&mut self.yielding);
        for event in events {
            // That of the waker is none.
            let position = event.token().0;
            if let Some(Some(connection)) = self.connections.get_mut(position) {
                connection.set_ready(event.is_read_closed() || event.is_error());
                // A connection in the queue gets its turn below.
                let waits =
                    connection.queued || connection.is_handshaking() && self.defers_handshake(position);
                if !waits {
                    now = self.begin_turn(position, now);
                }
            }
        }
        now = self.run_batch(now);
        for position in yielded {
            let Some(Some(connection)) = self.connections.get_mut(position) else { continue };
            connection.queued = false;
            if connection.is_handshaking() && self.defers_handshake(position) {
                continue;
            }
            now = self.turn(position, now);
        }
        if self.inbox().has_unread() || self.own().arrivals.has_unread() {
            self.read_messages();
        }
        self.resume_late(now)
    }

    fn read_messages(&mut self) {
        for connection in self.own().arrivals.take() {
            self.adopt(connection);
        }
        let messages = self.inbox().take();
        // Once for all of them: `CLIENT KILL` may mark thousands, each with a message of its own.
        if messages.iter().any(|message| matches!(message, Message::Wake)) {
            self.close_marked();
        }
        for message in messages {
            match message {
                Message::Wake => {}
                Message::Mail(client) => self.send_mail(&client),
                Message::Served(client) => self.resume_served(&client),
                Message::Resume => self.resume(),
                Message::Stop => self.start_drain(),
                #[cfg(test)]
                Message::Panic => panic!("a bug outside of all turns"),
            }
        }
    }

    /// Gives turns to the connections that wait for the end of a pause.
    fn resume(&mut self) {
        for position in std::mem::take(&mut self.paused) {
            // The connection may have been closed or moved meanwhile.
            if let Some(Some(connection)) = self.connections.get_mut(position) {
                connection.set_paused(false);
                if !std::mem::replace(&mut connection.queued, true) {
                    self.yielding.push(position);
                }
            }
        }
    }

    /// Gives turns to the connections whose time is over.
    fn resume_late(&mut self, now: Moment) -> Moment {
        let mut now = now;
        while let Some((end, position)) = self.sleeping.first().copied()
            && end <= now
        {
            self.wake_up(position);
            now = self.turn(position, now);
        }
        now
    }

    /// The connection does not sleep any more.
    fn wake_up(&mut self, position: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(position)
            && let Some(until) = connection.sleeps_until.take()
        {
            self.sleeping.remove(&(until, position));
        }
    }

    /// Gives a turn to a connection that has got what it has waited for. One that was moved meanwhile has one on its new thread.
    fn resume_served(&mut self, client: &Arc<Client>) {
        let position = client.position();
        if self.is_here(position, client) {
            self.turn(position, Moment::now());
        }
    }

    fn is_here(&self, position: usize, client: &Arc<Client>) -> bool {
        let connection = self.connections.get(position).and_then(Option::as_ref);
        connection.is_some_and(|connection| Arc::ptr_eq(connection.client(), client))
    }

    /// Sends the messages of a mailbox. A connection that was moved meanwhile sends them on its new thread.
    fn send_mail(&mut self, client: &Arc<Client>) {
        let position = client.position();
        if self.is_here(position, client) {
            self.guarded_turn(position, Connection::mail_turn);
        }
    }

    fn inbox(&self) -> &Inbox<Message> {
        &self.state.inboxes[self.index]
    }

    /// This thread, as the others see it.
    fn own(&self) -> &Peer {
        &self.peers[self.index]
    }

    /// Serves a connection from now on.
    fn adopt(&mut self, mut connection: Box<Connection>) {
        let position = self.free.pop().unwrap_or(self.connections.len());
        if let Err(error) = connection.register(self.poll.registry(), Token(position), READING) {
            tracing::warn!(%error, "cannot wait for a connection");
            self.free.extend((position < self.connections.len()).then_some(position));
            return;
        }
        if position == self.connections.len() {
            self.connections.push(None);
        }
        // It may have been marked while it was between two threads, or have received requests that are left to execute.
        let is_marked = connection.client().is_closing();
        connection.queued = true;
        connection.client().set_position(position);
        self.yielding.push(position);
        if connection.is_handshaking() {
            self.handshakes.add(connection.client().id, position);
        }
        self.connections[position] = Some(connection);
        if is_marked || self.drain_until.is_some() {
            self.remove(position);
        }
    }

    /// Closes the connections that another thread wants closed. This is rare, so no index is kept for it.
    fn close_marked(&mut self) {
        self.remove_if(|connection| connection.client().is_closing());
    }

    /// Closes idle connections. The others close after their replies are sent.
    fn start_drain(&mut self) {
        let limit = Duration::from_millis(self.state.config.drain_timeout_ms);
        self.drain_until = Some(Moment::now() + limit);
        self.remove_if(|connection| !connection.has_unsent());
    }

    fn remove_if(&mut self, condition: impl Fn(&Connection) -> bool) {
        for position in 0..self.connections.len() {
            if self.connections[position].as_deref().is_some_and(&condition) {
                self.remove(position);
            }
        }
    }

    /// Ends the service of a connection and closes it.
    fn remove(&mut self, position: usize) {
        if let Some(connection) = self.take(position) {
            connection.close();
        }
    }

    /// Ends the service of a connection, which stays open.
    fn take(&mut self, position: usize) -> Option<Box<Connection>> {
        self.wake_up(position);
        let mut connection = self.connections[position].take()?;
        connection.queued = false;
        connection.set_paused(false);
        connection.deregister(self.poll.registry());
        self.free.push(position);
        Some(connection)
    }

    /// Closes connections whose clients have sent and received nothing for too long. Subscribers and monitors may wait.
    fn close_idle(&mut self, now: Moment) {
        let Some(limit) = self.state.idle_timeout().filter(|_| now >= self.idle_check_at) else { return };
        self.idle_check_at = now + IDLE_CHECK_INTERVAL;
        self.remove_if(|connection| {
            let client = connection.client();
            connection.waits_for_client() && !client.waits_for_messages() && client.idle(now) > limit
        });
    }

    /// Closes connections of all threads whose clients do not read their messages. No timer is set: the first thread wakes up
    /// more often to reclaim.
    fn close_slow_readers(&mut self, now: Moment) {
        if self.index == 0 && now >= self.output_check_at {
            self.output_check_at = now + OUTPUT_CHECK_INTERVAL;
            self.state.clients.close_slow_readers();
        }
    }

    fn reclaim(&mut self, now: Moment) {
        if self.index != 0 || now < self.reclaim_at {
            return;
        }
        let store = &self.state.store;
        self.state.stats.sample(now);
        self.state.stats.record_memory(store.used_memory());
        let has_more_due = store.reclaim_expired(RECLAIM_BUDGET) >= RECLAIM_BUDGET;
        let exceeds_memory = store.follow_memory(now, EVICT_BUDGET);
        let has_more = self.compact(now) || has_more_due || exceeds_memory;
        self.reclaim_at = if has_more { now } else { now + RECLAIM_INTERVAL };
    }

    /// Goes on with a compaction, or begins one if memory lies in pieces. Returns whether there is more to do.
    fn compact(&mut self, now: Moment) -> bool {
        if self.compaction.is_none() && now >= self.compact_at {
            self.compaction = Compaction::begin();
        }
        let Some(compaction) = &mut self.compaction else { return false };
        // Records move to other pages while clients wait, so it goes on in small steps, of which each locks a shard for a moment.
        if self.state.store.compact(compaction, COMPACT_BUDGET) {
            return true;
        }
        // Under load a part of the pages stays; if nearly all do, the next walk over all slots may be in vain too.
        if compaction.emptied() * 8 < compaction.pages() {
            self.compact_at = now + self.compact_pause;
            self.compact_pause = (self.compact_pause * 2).min(COMPACT_PAUSE_MAX);
        } else {
            self.compact_pause = COMPACT_PAUSE;
        }
        self.compaction = None;
        false
    }

    /// Moves connections to another thread if the load of this one asks for it.
    fn balance(&mut self, now: Moment) {
        let peers = &self.peers;
        if peers.len() == 1 || self.drain_until.is_some() {
            return;
        }
        let first = (self.index != 0).then(|| &peers[0].load);
        let own = &peers[self.index].load;
        match self.meter.end_window(now, own, first, system::thread_cpu_time, system::idle_time) {
            Advice::Stay => {}
            Advice::Share => self.share(self.meter.ms(now)),
            Advice::Join => {
                let all = (0..self.connections.len()).collect::<Vec<_>>();
                self.move_to(0, &all);
            }
        }
    }

    /// Moves a part of the work to the thread with the least.
    fn share(&mut self, now_ms: u64) {
        let peers = &self.peers;
        let load = |index: &usize| peers[*index].load.percent(now_ms);
        let Some(other) = (0..peers.len()).filter(|index| *index != self.index).min_by_key(load) else {
            return;
        };
        let turns: Vec<u32> = self
            .connections
            .iter_mut()
            .map(|connection| connection.as_mut().map_or(0, |connection| connection.take_turns()))
            .collect();
        let chosen = choose(&turns, load(&self.index), load(&other));
        self.move_to(other, &chosen);
    }

    fn move_to(&mut self, thread: usize, positions: &[usize]) {
        let mut moved = 0;
        for position in positions {
            // A blocked connection waits for its client, as one in a handshake does; the other thread could not do more for it.
            let connection = self.connections[*position].as_deref();
            if connection.is_none_or(|connection| connection.has_unsent() || connection.is_handshaking()) {
                continue;
            }
            if let Some(mut connection) = self.take(*position) {
                connection.assign(thread);
                self.peers[thread].arrivals.send(connection);
                moved += 1;
            }
        }
        self.yielding.retain(|position| self.connections[*position].is_some());
        tracing::debug!(from = self.index, to = thread, moved, "moved connections");
    }
}

/// What a connection waits for: requests, or also that its client reads its replies.
const READING: Interest = Interest::READABLE;
const BLOCKED: Interest = Interest::READABLE.add(Interest::WRITABLE);

impl Drop for EventLoop {
    fn drop(&mut self) {
        // A message may refer to what has this inbox: neither would be freed.
        self.inbox().close();
        self.own().arrivals.close();
    }
}

#[cfg(test)]
mod tests;
