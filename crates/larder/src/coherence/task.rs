//! The coherence task of a cache with Redis: it subscribes to announcements, sends heartbeats, replays pending
//! invalidations, and releases lost leases.
//!
//! ```text
//!          ┌──────────── closed, heartbeats late, another server ────────────┐
//!          ▼                                                                 │
//!       subscribe ─► another server? requeue the last minute ─► end the gap ─► heartbeat, proof, replay
//! ```
//! A server that lacks a requirement is asked again after each pause: the user may get further permissions.

use super::Coordinator;
use super::announcement::{self, CachePushHandler};
use super::marker::restored_age;
use super::problem::{CoherenceProblem, LastProblem};
use super::replay_log::Invalidated;
use crate::key::MemoryKey;
use crate::node::guarded_tier::{GuardedTier, Support};
use crate::node::ledger::{Invalidation, untagged_members};
use crate::node::listeners::RemoteInvalidation;
use crate::node::server_clock::TimeRequest;
use crate::report::error::CacheError;
use crate::report::events::Event;
use crate::tier::{
    LedgerAdvance, LedgerAdvanced, Marker, Pulse, Requirement, SubscribeOptions, Subscription, Tier,
    TierError,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Consecutive heartbeats without a reply after which the connection is closed.
const MAX_LATE_HEARTBEATS: u32 = 3;
/// The shortest and the longest pause between attempts to connect.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often a cache that is closed looks for pending invalidations.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);
/// The longest time between heartbeats, and between replays.
const MAX_INTERVAL: Duration = Duration::from_millis(250);

/// The task and what it knows of its connection. Dropping it ends the task.
pub(crate) struct Connection {
    task: Mutex<Option<JoinHandle<()>>>,
    /// Whether no task is started any more.
    has_ended: AtomicBool,
    /// Closed after the first attempt to connect. It wakes its waiters in order; a watch channel would not.
    first_attempt: Semaphore,
    /// Since when the announcements of the last subscription were received.
    subscribed_at: Mutex<Option<Duration>>,
    /// Why there is no proof now, if there is none.
    pub(super) problem: LastProblem,
    /// The highest ledger clock that was known when an older copy of the ledger was accepted. Its clock may be lower.
    clock_at_accept: AtomicU64,
}

impl Connection {
    pub(super) fn new() -> Self {
        Connection {
            task: Mutex::new(None),
            has_ended: AtomicBool::new(false),
            first_attempt: Semaphore::new(0),
            subscribed_at: Mutex::new(None),
            problem: LastProblem::default(),
            clock_at_accept: AtomicU64::new(0),
        }
    }

    /// Ends the task, and wakes those who wait for its first attempt.
    fn end(&self) {
        let mut task = self.task.lock();
        self.has_ended.store(true, Ordering::Release);
        if let Some(task) = task.take() {
            task.abort();
        }
        self.first_attempt.close();
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().take() {
            task.abort();
        }
    }
}

impl Coordinator {
    /// Leaves task and connections to the parent: dropping them here would take the parent's sockets from its event loop,
    /// which both processes share.
    pub(super) fn leave_to_parent(&mut self) {
        std::mem::forget(self.connection.task.get_mut().take());
        std::mem::forget(self.node.redis.take());
    }

    /// Starts the task if it does not run, and waits for its first attempt to connect. Memory is empty before.
    pub(crate) async fn ensure_connected(self: &Arc<Self>) {
        let Some(redis) = &self.node.redis else { return };
        loop {
            self.ensure_task(redis);
            if self.connection.first_attempt.is_closed() {
                return;
            }
            // The runtime of the task may end during the attempt, so the task is checked again.
            _ = timeout(MAX_INTERVAL, self.connection.first_attempt.acquire()).await;
        }
    }

    /// The task ends with the runtime that it was started on, and the cache may be used on another one.
    fn ensure_task(self: &Arc<Self>, redis: &GuardedTier) {
        let mut task = self.connection.task.lock();
        let is_missing = task.as_ref().is_none_or(|task| task.is_finished());
        if is_missing && !self.connection.has_ended() {
            *task = Some(self.node.tasks.spawn(run(Arc::downgrade(self), redis.tier.clone())));
        }
    }

    /// Waits for the first attempt to connect. If the server is not supported, removes the key from memory.
    pub(crate) async fn ensure_supported(self: &Arc<Self>, key: &MemoryKey) -> Result<(), CacheError> {
        self.ensure_connected().await;
        let support = self.node.redis.as_ref().map_or(Ok(()), GuardedTier::check_support);
        support.inspect_err(|_| self.node.invalidate_memory(key))
    }

    fn subscribe_options(&self) -> SubscribeOptions {
        let keyspace = &self.node.keyspace;
        SubscribeOptions {
            // An error may quote it, and the client reads no error with other bytes than text: not this node's origin.
            announcement: announcement::keys(&keyspace.channel, Default::default(), []),
            tracking: self.options.foreign_writers.then(|| keyspace.prefix()),
            ledger: keyspace.ledger.clone(),
            marker: keyspace.marker.clone(),
            max_lag: self.node.trust.max_lag(),
        }
    }

    /// The server was reached and lacks something: nothing is sent to it.
    fn on_unsupported(&self, lacks: Requirement) {
        let Some(redis) = &self.node.redis else { return };
        *self.connection.subscribed_at.lock() = None;
        self.connection.problem.clear();
        if self.node.stop_coordinating(redis, lacks) == Support::Lacks(lacks) {
            return;
        }
        redis.breaker.succeeded();
        tracing::warn!(reason = %lacks, "the server is not supported: nodes do not coordinate");
        self.node.observers.emit(|| Event::Unsupported { lacks });
    }

    /// The task has a subscription, whose server replied to a heartbeat that was sent at `sent`.
    fn on_connected(
        &self,
        subscription: &dyn Subscription,
        (sent, request): (Duration, TimeRequest),
        pulse: &Pulse,
    ) {
        let Some(redis) = &self.node.redis else { return };
        let is_replaced = redis.tier.accepted().is_some_and(|accepted| subscription.replaces(&accepted));
        let replaced_at = self.node.now();
        if is_replaced {
            self.requeue_recent(pulse);
        }
        self.node.server_clock.replace(request, pulse.time);
        self.node.ledger.observe(pulse.ledger_clock.unwrap_or(0));
        // Requests fail until the server is accepted. The requeued keys are blocked by now.
        redis.tier.accept(subscription.server());
        if is_replaced {
            // The former server has executed mutations until now.
            let (seq, requeued) = self.replay_log.requeue_since(replaced_at);
            self.apply_locally(&requeued, seq);
        }
        redis.breaker.succeeded();
        self.node.start_coordinating(redis);
        self.node.listeners.tell(RemoteInvalidation::Unknown);
        *self.connection.subscribed_at.lock() = Some(sent);
    }

    /// Another server answers, maybe with an older copy of the data.
    fn requeue_recent(&self, pulse: &Pulse) {
        let node = &self.node;
        let now = node.now();
        // The ledger that will be made starts now: nothing that the server has is newer.
        let has_no_ledger = pulse.ledger_clock.is_none();
        let subscribed_at = *self.connection.subscribed_at.lock();
        let listened_for = subscribed_at.map_or(Duration::ZERO, |at| now.saturating_sub(at));
        let restored_age = match has_no_ledger {
            true => Some(Duration::ZERO),
            false => restored_age(&node.server_clock, pulse).filter(|age| *age <= listened_for),
        };
        let (seq, requeued) = self.replay_log.requeue_recent(restored_age);
        tracing::warn!(
            invalidations = requeued.len(),
            restored_age = restored_age.map(|age| age.as_secs_f64()),
            "redis is another server or an older copy: recent invalidations are replayed"
        );
        self.apply_locally(&requeued, seq);
        let lowest_clock = if has_no_ledger { 0 } else { node.ledger.clock() };
        self.connection.clock_at_accept.store(lowest_clock, Ordering::Release);
        node.observers.emit(|| Event::ServerChanged { replayed: requeued.len() });
    }

    /// Compares the ledger's clock in a heartbeat with the clock that this node knew before it. Returns why, if
    /// Redis refuses to have a ledger that can be used: other nodes can announce no invalidation of a tag without it.
    async fn check_ledger(&self, known_clock: u64, pulse: &Pulse) -> Option<String> {
        match pulse.ledger_clock {
            // Whoever makes the next ledger must know the latest clock.
            None if known_clock > 0 => {
                let read = self.node.read_stamps(&untagged_members()).await;
                if let Err(CacheError::Refused(reason)) = read {
                    return Some(reason);
                }
            }
            Some(clock) if clock < known_clock => self.on_older_ledger(known_clock, clock),
            Some(clock) => self.node.ledger.observe(clock),
            None => {}
        }
        None
    }

    /// Redis has lost the ledger, and a node that knew an older clock has made a new one, which does not know all
    /// invalidations.
    fn on_older_ledger(&self, known_clock: u64, clock: u64) {
        if self.has_accepted_older(known_clock) {
            return;
        }
        tracing::warn!(known_clock, clock, "redis has lost the ledger: everything is invalidated");
        let everything = [Invalidated::everything()];
        let queued = self.replay_log.queue(everything.clone());
        self.apply_locally(&everything, queued.seq);
        self.node.listeners.tell(RemoteInvalidation::Everything(Invalidation::Hard));
        self.node.observers.emit(|| Event::LedgerLost);
    }

    /// Whether the ledger may have an older clock than this one, because an older copy was accepted.
    pub(super) fn has_accepted_older(&self, known_clock: u64) -> bool {
        known_clock == self.connection.clock_at_accept.load(Ordering::Acquire)
    }

    /// The ledger was advanced. If it was another one than this node knew, no later heartbeat shows it any more.
    pub(super) fn on_advanced(&self, advance: &LedgerAdvance<'_>, advanced: LedgerAdvanced) {
        if advanced.is_other {
            self.on_older_ledger(advance.at_least, advanced.clock);
        }
    }

    /// Replays pending invalidations for at most `limit`. Returns how many are still pending.
    pub(crate) async fn drain(self: &Arc<Self>, limit: Duration) -> usize {
        if self.node.is_inherited() {
            // They are the parent's.
            return 0;
        }
        let draining = async {
            // Mutations that Redis has not answered yet are not pending yet.
            drop(self.mutation_gate.write().await);
            while self.replay_log.pending_count() > 0 && !self.connection.has_ended() {
                // The task replays after each heartbeat; it finds out when Redis replies.
                self.ensure_connected().await;
                sleep(DRAIN_PAUSE).await;
            }
        };
        _ = timeout(limit, draining).await;
        self.replay_log.pending_count()
    }

    /// Ends the cache. Returns how many invalidations are lost.
    pub(crate) async fn shut_down(self: &Arc<Self>, limit: Duration) -> usize {
        if self.node.is_inherited() {
            return 0;
        }
        self.node.shut_down();
        let pending = self.drain(limit).await;
        self.connection.end();
        if let Some(redis) = &self.node.redis {
            redis.tier.close();
        }
        self.node.memory.clear();
        pending
    }

    fn end_first_attempt(&self) {
        self.connection.first_attempt.close();
    }
}

async fn run(coordinator: Weak<Coordinator>, tier: Arc<dyn Tier>) {
    let mut pause = RECONNECT_PAUSE.0;
    loop {
        if connect_and_listen(&coordinator, &*tier).await {
            pause = RECONNECT_PAUSE.0;
        }
        let Some(strong) = coordinator.upgrade() else { return };
        strong.end_first_attempt();
        drop(strong);
        sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_PAUSE.1);
    }
}

/// What the reply to a heartbeat proves: that every announcement from before a heartbeat was received.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The announcements from before this heartbeat.
    This,
    /// Those from before the previous one: tracked writes are pushed after the reply.
    Previous,
}

/// Opens a connection and sends heartbeats until it is closed. Returns whether it was opened.
async fn connect_and_listen(coordinator: &Weak<Coordinator>, tier: &dyn Tier) -> bool {
    let Some(options) = coordinator.upgrade().map(|strong| strong.subscribe_options()) else { return false };
    let (closed, mut is_closed) = watch::channel(false);
    let handler = Arc::new(CachePushHandler::new(coordinator.clone(), closed));
    let subscription = match tier.subscribe(&options, handler.clone()).await {
        Ok(subscription) => subscription,
        Err(error) => {
            match (error, coordinator.upgrade()) {
                (TierError::Unsupported(lacks), Some(strong)) => strong.on_unsupported(lacks),
                (error, Some(strong)) => strong.connection.problem.set_unreached(error.into()),
                (_, None) => {}
            }
            return false;
        }
    };
    let proof = if options.tracking.is_some() { Proof::Previous } else { Proof::This };
    let sent = coordinator.upgrade().map(|strong| (strong.node.now(), strong.node.server_clock.request()));
    let Some(sent) = sent else { return false };
    // Without a former server there is nothing that a copy could be older than.
    let former = tier.accepted();
    let former = former.as_ref().map_or(Marker::Ignore, Marker::Read);
    let pulse = subscription.heartbeat(former).await;
    let Some(strong) = coordinator.upgrade() else { return false };
    let pulse = match pulse {
        Ok(pulse) => pulse,
        Err(error) => {
            strong.connection.problem.set_unreached(error.into());
            return false;
        }
    };
    strong.on_connected(&*subscription, sent, &pulse);
    strong.end_first_attempt();
    handler.set_replay_epoch(strong.replay_log.replay_epoch());
    strong.node.observers.emit(|| Event::Connected);
    if subscription.may_evict_ledger() {
        // No reason to worry: caches usually evict any key, and what is lost then is loaded again.
        tracing::info!("redis evicts any key when it is full: losing the ledger of tags empties the cache");
        strong.node.observers.emit(|| Event::LedgerEvictable);
    }
    drop(strong);
    send_heartbeats(coordinator, &*subscription, &mut is_closed, proof).await;
    if let Some(strong) = coordinator.upgrade() {
        strong.node.observers.emit(|| Event::Disconnected);
    }
    true
}

/// Sends heartbeats until the connection is closed.
async fn send_heartbeats(
    coordinator: &Weak<Coordinator>,
    subscription: &dyn Subscription,
    closed: &mut watch::Receiver<bool>,
    proof: Proof,
) {
    let (mut previous, mut late) = (None, 0);
    loop {
        let Some(strong) = coordinator.upgrade() else { return };
        let (sent, known_clock) = (strong.node.now(), strong.node.ledger.clock());
        // A write: a primary that hands over to another server, or that was cut off from the others, answers reads longer.
        // The time is a little older than now: then a copy seems older than it is, never younger.
        let marker = strong.node.server_clock.last_reply();
        let request = strong.node.server_clock.request();
        let interval = (strong.node.trust.max_lag() / 4).min(MAX_INTERVAL);
        drop(strong);
        let reply = subscription.heartbeat(marker.map_or(Marker::Ignore, Marker::Store)).await;
        let Some(strong) = coordinator.upgrade() else { return };
        let (trust, connection) = (&strong.node.trust, &strong.connection);
        let mut wait = interval;
        match reply {
            Ok(pulse) => {
                late = 0;
                if let Some(time) = pulse.time {
                    strong.node.server_clock.record(request, time);
                }
                let ledger_refused = strong.check_ledger(known_clock, &pulse).await;
                let problem = pulse
                    .doubt
                    .map(CoherenceProblem::NoReply)
                    .or(ledger_refused.map(CoherenceProblem::Refused));
                let is_proof = problem.is_none();
                problem.map_or_else(|| connection.problem.clear(), |problem| connection.problem.set(problem));
                match (proof, previous.replace(sent)) {
                    _ if !is_proof => {}
                    (Proof::This, _) => trust.record_proof(sent),
                    (Proof::Previous, Some(previous)) => trust.record_proof(previous),
                    (Proof::Previous, None) => wait = Duration::ZERO,
                }
                strong.replay().await;
                strong.release_lost_leases().await;
            }
            Err(error) => {
                late += 1;
                tracing::debug!(%error, late, "heartbeat got no reply");
                connection.problem.set(error.into());
            }
        }
        let Some(redis) = &strong.node.redis else { return };
        let server_changed = redis.server_changed.clone();
        drop(strong);
        if *closed.borrow() || late >= MAX_LATE_HEARTBEATS {
            return;
        }
        tokio::select! {
            biased;
            _ = closed.changed() => return,
            () = server_changed.notified() => return,
            () = sleep(wait) => {}
        }
    }
}
