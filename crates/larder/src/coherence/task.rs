//! The coherence task of a cache with Redis: it subscribes to announcements, sends heartbeats, and replays pending
//! invalidations.
//!
//! ```text
//!          ┌──────────── closed, heartbeats late, another server ────────────┐
//!          ▼                                                                 │
//!       subscribe ─► another server? requeue the last minute ─► end the gap ─► heartbeat, proof, replay
//!          │ refused: the server has no announcements
//!          └────► standalone: replay
//! ```

use super::Coordinator;
use super::announcement::CachePushHandler;
use crate::events::Event;
use crate::node::guarded_tier::GuardedTier;
use crate::node::ledger::untagged_members;
use crate::tier::{LedgerQuery, ServerId, SubscribeOptions, Subscription, Tier};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Consecutive heartbeats without a reply after which the connection is closed.
const MAX_LATE_HEARTBEATS: u32 = 3;
/// The shortest and the longest pause between attempts to connect.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The longest time between heartbeats, and between replays.
const MAX_INTERVAL: Duration = Duration::from_millis(250);

/// The task and the server that it is connected to. Dropping it ends the task.
pub(crate) struct Connection {
    /// The server of the last subscription.
    server: Mutex<Option<ServerId>>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// Closed after the first attempt to connect. It wakes its waiters in order; a watch channel would not.
    first_attempt: Semaphore,
}

impl Connection {
    pub(super) fn new() -> Self {
        Connection { server: Mutex::new(None), task: Mutex::new(None), first_attempt: Semaphore::new(0) }
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
        if task.as_ref().is_none_or(|task| task.is_finished()) {
            let options = SubscribeOptions {
                channel: self.node.keyspace.channel.clone(),
                tracking: self.options.foreign_writers.then(|| self.node.keyspace.prefix()),
            };
            *task = Some(tokio::spawn(run(
                Arc::downgrade(self),
                redis.tier.clone(),
                options,
                self.node.keyspace.ledger.clone(),
            )));
        }
    }

    fn on_connected(&self, server: &ServerId) {
        let Some(redis) = &self.node.redis else { return };
        let before = self.connection.server.lock().replace(server.clone());
        if before.is_some_and(|before| before != *server) {
            let (seq, requeued) = self.replay_log.requeue_recent();
            tracing::warn!(
                invalidations = requeued.len(),
                "redis is another server or an older copy: recent invalidations are replayed"
            );
            self.apply_locally(&requeued, seq);
            self.node.observers.emit(|| Event::ServerChanged { replayed: requeued.len() });
        }
        // Requests fail until the server is accepted. The requeued keys are blocked by now.
        redis.tier.accept(server);
        redis.breaker.succeeded();
        self.node.ledger.record_gap();
        self.node.trust.end_gap();
        self.node.observers.emit(|| Event::Connected);
    }

    /// Without a subscription, a request finds out that the server is another one.
    fn accept_new_server(&self) {
        let Some(redis) = &self.node.redis else { return };
        if let Some(server) = redis.new_server.lock().take() {
            self.on_connected(&server);
        }
    }

    fn end_first_attempt(&self) {
        self.connection.first_attempt.close();
    }
}

async fn run(
    coordinator: Weak<Coordinator>,
    tier: Arc<dyn Tier>,
    options: SubscribeOptions,
    ledger: Vec<u8>,
) {
    let mut pause = RECONNECT_PAUSE.0;
    loop {
        if let Err(reason) = probe(&*tier, &ledger).await {
            tracing::debug!(reason, "cannot reach redis");
        } else if tier.capabilities().is_some_and(|can| !can.coherent()) {
            return run_standalone(coordinator).await;
        }
        let (closed, mut is_closed) = watch::channel(false);
        let handler = Arc::new(CachePushHandler { coordinator: coordinator.clone(), closed });
        if tier.capabilities().is_some()
            && let Ok(subscription) = tier.subscribe(&options, handler).await
        {
            let Some(strong) = coordinator.upgrade() else { return };
            strong.on_connected(subscription.server());
            strong.end_first_attempt();
            drop(strong);
            pause = RECONNECT_PAUSE.0;
            send_heartbeats(&coordinator, &*subscription, &mut is_closed, options.tracking.is_some()).await;
            if let Some(strong) = coordinator.upgrade() {
                strong.node.observers.emit(|| Event::Disconnected);
            }
        }
        let Some(strong) = coordinator.upgrade() else { return };
        strong.accept_new_server();
        strong.end_first_attempt();
        drop(strong);
        sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_PAUSE.1);
    }
}

/// Reaches the server once, which determines its capabilities.
async fn probe(tier: &dyn Tier, ledger: &[u8]) -> Result<(), String> {
    if tier.capabilities().is_some() {
        return Ok(());
    }
    let reply = tier.read_stamps(&LedgerQuery { key: ledger, members: &untagged_members() }).await;
    match (reply, tier.capabilities()) {
        (Err(error), None) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Sends heartbeats until the connection is closed.
async fn send_heartbeats(
    coordinator: &Weak<Coordinator>,
    subscription: &dyn Subscription,
    closed: &mut watch::Receiver<bool>,
    tracking: bool,
) {
    let (mut previous, mut late) = (None, 0);
    loop {
        let Some(strong) = coordinator.upgrade() else { return };
        let sent = strong.node.now();
        let interval = (strong.node.trust.max_lag() / 4).min(MAX_INTERVAL);
        drop(strong);
        let reply = subscription.heartbeat().await;
        let Some(strong) = coordinator.upgrade() else { return };
        let trust = &strong.node.trust;
        let mut wait = interval;
        match reply {
            Ok(()) => {
                late = 0;
                // Tracked writes are pushed after the reply, so with tracking a reply proves the previous heartbeat.
                match previous.replace(sent).filter(|_| tracking) {
                    Some(previous) => trust.record_proof(previous),
                    None if tracking => wait = Duration::ZERO,
                    None => trust.record_proof(sent),
                }
                strong.replay().await;
            }
            Err(error) => {
                late += 1;
                tracing::debug!(%error, late, "heartbeat got no reply");
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

/// Without announcements there is no subscription; pending invalidations are replayed all the same.
async fn run_standalone(coordinator: Weak<Coordinator>) {
    loop {
        let Some(strong) = coordinator.upgrade() else { return };
        strong.node.trust.set_standalone();
        strong.end_first_attempt();
        strong.accept_new_server();
        strong.replay().await;
        drop(strong);
        sleep(MAX_INTERVAL).await;
    }
}
