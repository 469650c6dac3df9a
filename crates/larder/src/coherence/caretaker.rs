//! The task behind a cache with a shared tier: it listens, proves that it hears, and pays what is owed.
//!
//! ```text
//!          ┌────────────── closed, late, another server ──────────────┐
//!          ▼                                                          │
//!       connect ─► another server than before? owe the last minute ─► end the gap ─► beat, prove, pay ─┘
//!          │ refused: the server has no such thing
//!          └────► alone: pay
//! ```

use crate::cache::Inner;
use crate::coherence::announce::CachePushHandler;
use crate::coherence::ledger::members_of;
use crate::events::Event;
use crate::tier::guard::Guarded;
use crate::tier::{LedgerQuery, ServerId, SubscribeOptions, Subscription, Tier};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Beats that may be late in a row before the connection is given up.
const LATE_BEATS: u32 = 3;
/// The shortest and the longest pause between attempts to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The longest time between beats, and between payments.
const LONGEST_INTERVAL: Duration = Duration::from_millis(250);

impl Inner {
    /// Sees to it that the caretaker runs, and waits for its first attempt to connect. Nothing is in memory before.
    pub(crate) async fn awake(self: &Arc<Self>) {
        let Some(shared) = &self.shared else { return };
        loop {
            self.wake(shared);
            if self.tried.is_closed() {
                return;
            }
            // Not for longer at once: the runtime of the caretaker may end while it tries.
            _ = timeout(LONGEST_INTERVAL, self.tried.acquire()).await;
        }
    }

    /// Starts the caretaker anew if it has ended with the runtime that it was started on, which need not be the last one.
    fn wake(self: &Arc<Self>, shared: &Guarded) {
        let mut caretaker = self.caretaker.lock();
        if caretaker.as_ref().is_none_or(|task| task.is_finished()) {
            let listen = SubscribeOptions {
                channel: self.names.channel.clone(),
                tracking: self.foreign_writers.then(|| [self.namespace.as_bytes(), b":"].concat()),
            };
            *caretaker = Some(tokio::spawn(take_care(
                Arc::downgrade(self),
                shared.tier.clone(),
                listen,
                self.names.ledger.clone(),
            )));
        }
    }

    fn connected(&self, server: &ServerId) {
        let Some(shared) = &self.shared else { return };
        let before = self.server.lock().replace(server.clone());
        let is_another = before.is_some_and(|before| before != *server);
        if is_another {
            let (turn, again) = self.journal.owe_history();
            tracing::warn!(
                owed = again.len(),
                "another redis server, or an older copy: invalidations are repeated"
            );
            self.hold_here(&again, turn);
            self.events.emit(|| Event::ServerChanged { replayed: again.len() });
        }
        // Before this, nothing is asked of it; what is owed is barred by now.
        shared.tier.accept(server);
        shared.breaker.succeeded();
        self.ledger.forget();
        self.trust.end_gap();
        self.events.emit(|| Event::Connected);
    }
}

async fn take_care(cache: Weak<Inner>, tier: Arc<dyn Tier>, listen: SubscribeOptions, ledger: Vec<u8>) {
    let mut pause = PAUSE.0;
    loop {
        if let Err(reason) = meet(&*tier, &ledger).await {
            tracing::debug!(reason, "redis cannot be reached");
        } else if tier.capabilities().is_some_and(|can| !can.coherent()) {
            return alone(cache).await;
        }
        let (closed, mut is_closed) = watch::channel(false);
        let ear = Arc::new(CachePushHandler { cache: cache.clone(), closed });
        if tier.capabilities().is_some()
            && let Ok(link) = tier.subscribe(&listen, ear).await
        {
            let Some(inner) = cache.upgrade() else { return };
            inner.connected(link.server());
            inner.tried.close();
            drop(inner);
            pause = PAUSE.0;
            beat(&cache, &*link, &mut is_closed, listen.tracking.is_some()).await;
            if let Some(inner) = cache.upgrade() {
                inner.events.emit(|| Event::Disconnected);
            }
        }
        let Some(inner) = cache.upgrade() else { return };
        inner.meet_other_server();
        inner.tried.close();
        drop(inner);
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Reaches the server once, which tells what it can do.
async fn meet(tier: &dyn Tier, ledger: &[u8]) -> Result<(), String> {
    if tier.capabilities().is_some() {
        return Ok(());
    }
    let asked = tier.read_stamps(&LedgerQuery { key: ledger, members: &members_of([]) }).await;
    match (asked, tier.capabilities()) {
        (Err(error), None) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Beats until the connection is gone.
async fn beat(
    cache: &Weak<Inner>,
    link: &dyn Subscription,
    closed: &mut watch::Receiver<bool>,
    tracking: bool,
) {
    let (mut before, mut late) = (None, 0);
    loop {
        let Some(inner) = cache.upgrade() else { return };
        let sent = inner.memory.clock().now();
        let interval = (inner.trust.max_lag() / 4).min(LONGEST_INTERVAL);
        drop(inner);
        let answered = link.heartbeat().await;
        let Some(inner) = cache.upgrade() else { return };
        let mut wait = interval;
        match answered {
            Ok(()) => {
                late = 0;
                // What is tracked is told after the answer, so the answer proves the beat before.
                match before.replace(sent).filter(|_| tracking) {
                    Some(before) => inner.trust.prove(before),
                    None if tracking => wait = Duration::ZERO,
                    None => inner.trust.prove(sent),
                }
                inner.pay().await;
            }
            Err(error) => {
                late += 1;
                tracing::debug!(%error, late, "a beat was not answered");
            }
        }
        let Some(shared) = &inner.shared else { return };
        let other_server = shared.other_server.clone();
        drop(inner);
        if *closed.borrow() || late >= LATE_BEATS {
            return;
        }
        tokio::select! {
            biased;
            _ = closed.changed() => return,
            () = other_server.notified() => return,
            () = sleep(wait) => {}
        }
    }
}

/// Without announcements there is nothing to hear; what is owed is paid all the same.
async fn alone(cache: Weak<Inner>) {
    loop {
        let Some(inner) = cache.upgrade() else { return };
        inner.trust.go_alone();
        inner.tried.close();
        inner.meet_other_server();
        inner.pay().await;
        drop(inner);
        sleep(LONGEST_INTERVAL).await;
    }
}

impl Inner {
    /// Without a listener another server shows itself when it is asked something.
    fn meet_other_server(&self) {
        let Some(shared) = &self.shared else { return };
        if let Some(server) = shared.met.lock().take() {
            self.connected(&server);
        }
    }
}
