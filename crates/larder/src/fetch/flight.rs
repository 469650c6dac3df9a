//! A load from its ticket to its loader: what the tiers can answer is not loaded. One task for one key or for many.

use crate::coherence::lease::{Claim, Purpose, Seen};
use crate::coherence::ledger::Judgement;
use crate::coherence::trust::nanos;
use crate::envelope::Head;
use crate::error::FetchError;
use crate::fetch::{Outcome, Policy, Source};
use crate::load::{LoadCx, NoValue, Start};
use crate::tier::memory::{MemoryEntry, MemoryTicket};
use crate::view::{Kept, Opened, Shared};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often a key is looked at again because what was there changed under the look.
const TRIES: usize = 4;

/// One key of a flight.
pub(crate) struct Want<V, E> {
    pub(crate) redis_key: Vec<u8>,
    /// Gone once the key has its answer.
    pub(crate) ticket: Option<MemoryTicket>,
    pub(crate) held: Option<Kept>,
    pub(crate) answer: Option<oneshot::Sender<Outcome<V, E>>>,
    pub(super) start: Start,
    /// When it was begun to get the value, on the engine's clock.
    pub(super) looked_at: Duration,
    /// A value in grace.
    pub(super) stale: Option<MemoryEntry>,
}

impl<V, E> Want<V, E> {
    pub(crate) fn new(
        redis_key: Vec<u8>,
        ticket: MemoryTicket,
        held: Option<Kept>,
    ) -> (Self, oneshot::Receiver<Outcome<V, E>>) {
        let (answer, answered) = oneshot::channel();
        let start = Start { claim: Claim::None, clock: 0, epoch: 0, generation: 0, changes: 0 };
        let (ticket, answer) = (Some(ticket), Some(answer));
        let looked_at = Duration::ZERO;
        (Want { redis_key, ticket, held, answer, start, looked_at, stale: None }, answered)
    }

    /// Whether nothing is known yet.
    pub(crate) fn is_open(&self) -> bool {
        self.ticket.is_some()
    }

    pub(super) fn tell(&mut self, outcome: Outcome<V, E>) {
        if let Some(answer) = self.answer.take() {
            // The caller may be gone; the tiers are filled all the same.
            _ = answer.send(outcome);
        }
    }
}

/// What is the same for all keys of a flight.
pub(crate) struct Flight<V> {
    pub(crate) view: Arc<Shared<V>>,
    pub(crate) policy: Policy,
    pub(crate) tags: Vec<Box<str>>,
    /// Whether values that are there are loaded anew.
    pub(crate) force: bool,
}

impl<V> Flight<V>
where
    V: Send + Sync + 'static,
{
    /// Answers what the tiers can answer. What is open afterwards has to be loaded.
    pub(crate) async fn look<E: Send + Sync + 'static>(&self, wants: &mut [Want<V, E>]) {
        let inner = &self.view.cache.inner;
        if inner.shared.is_some() {
            inner.awake().await;
        }
        for want in &mut *wants {
            want.looked_at = inner.memory.clock().now();
            want.start = Start {
                claim: Claim::None,
                clock: 0,
                epoch: inner.ledger.epoch(),
                generation: inner.trust.generation(),
                changes: inner.changes.count(&want.redis_key),
            };
            if let Some(held) = want.held.as_ref().filter(|held| !held.suspect) {
                want.stale = Some(held.entry.clone());
            }
        }
        if inner.shared.is_none() {
            return;
        }
        if let [want] = &mut *wants {
            self.look_alone(want).await;
        } else {
            self.look_at_all(wants).await;
        }
    }

    async fn look_alone<E: Send + Sync + 'static>(&self, want: &mut Want<V, E>) {
        let inner = &self.view.cache.inner;
        if inner.journal.blocks(&want.redis_key) {
            self.stand_in(want);
            return;
        }
        if want.held.as_ref().is_some_and(|held| held.suspect) && !self.compare(want).await {
            return;
        }
        for _ in 0..TRIES {
            match inner.see_or_wait(std::slice::from_ref(&want.redis_key)).await {
                Ok((seen, clock)) => {
                    want.start.clock = clock;
                    let dead = self.saw(want, seen).await;
                    let Some(dead) = dead else { return };
                    // Over what nobody may have, a lease keeps the other nodes from loading too.
                    if let Some(claim) = inner.lease_over(&want.redis_key, &dead).await {
                        want.start.claim = claim;
                        return;
                    }
                }
                Err(error) => {
                    inner.report(&error);
                    return self.stand_in(want);
                }
            }
        }
    }

    async fn look_at_all<E: Send + Sync + 'static>(&self, wants: &mut [Want<V, E>]) {
        let inner = &self.view.cache.inner;
        let (mut places, mut keys) = (Vec::new(), Vec::new());
        for (place, want) in wants.iter_mut().enumerate() {
            if inner.journal.blocks(&want.redis_key) {
                self.stand_in(want);
            } else {
                places.push(place);
                keys.push(want.redis_key.clone());
            }
        }
        if keys.is_empty() {
            return;
        }
        match inner.see(&keys, Purpose::Load).await {
            Ok((seen, clock)) => {
                for (place, seen) in places.into_iter().zip(seen) {
                    let want = &mut wants[place];
                    want.start.clock = clock;
                    if let Some(dead) = self.saw(want, seen).await {
                        // Only what a node wrote has an id: what a program wrote may be written again just so.
                        want.start.claim = match Head::parse(&dead) {
                            Ok(Head::Value(_)) => inner.claim_over(&dead),
                            _ => inner.lease_over(&want.redis_key, &dead).await.unwrap_or(Claim::None),
                        };
                    }
                }
            }
            Err(error) => {
                inner.report(&error);
                places.into_iter().for_each(|place| self.stand_in(&mut wants[place]));
            }
        }
    }

    /// Takes in what Redis has under a key. Returns bytes that nobody may have any more.
    async fn saw<E: Send + Sync + 'static>(&self, want: &mut Want<V, E>, seen: Seen) -> Option<Vec<u8>> {
        let inner = &self.view.cache.inner;
        if let Some(held) = want.held.as_ref().filter(|held| held.suspect) {
            // Compared or not, what comes now is newer.
            held.entry.facts().disprove();
        }
        want.start.claim = match seen {
            Seen::Mine(id) => Claim::mine(id),
            Seen::Theirs(id) => Claim::Theirs(id),
            Seen::Absent if inner.trust.is_alone() => inner.claim_over(&[]),
            Seen::Absent => Claim::None,
            Seen::Bytes { bytes, remaining_ttl } => {
                match self.view.open(&want.redis_key, &bytes, remaining_ttl, &want.start).await {
                    Opened::Fresh(entry) if !self.force => {
                        if let Some(ticket) = want.ticket.take() {
                            self.view.commit(&want.redis_key, ticket, &entry, want.start.changes);
                        }
                        let fetched = self.view.fetched(entry, Source::Redis, false);
                        want.tell(fetched.ok_or(FetchError::Dropped));
                        return None;
                    }
                    Opened::Fresh(entry) | Opened::Stale(entry) => {
                        want.stale = Some(entry);
                        inner.claim_over(&bytes)
                    }
                    Opened::Dead => return Some(bytes),
                }
            }
        };
        None
    }

    /// Compares what memory has with Redis. False if the key has its answer.
    async fn compare<E: Send + Sync + 'static>(&self, want: &mut Want<V, E>) -> bool {
        let inner = &self.view.cache.inner;
        let Some(held) = want.held.clone() else { return true };
        let facts = held.entry.facts();
        match inner.revalidate(&want.redis_key, facts).await {
            Some(Judgement::Valid) if self.is_fresh(&held.entry) && !self.force => {
                self.give(want, held.entry);
                false
            }
            Some(judgement @ (Judgement::Valid | Judgement::Stale))
                if judgement == Judgement::Valid || facts.has_grace() =>
            {
                want.held = None;
                want.stale = Some(held.entry);
                true
            }
            Some(_) => {
                facts.disprove();
                want.held = None;
                true
            }
            None => {
                self.stand_in(want);
                false
            }
        }
    }

    /// Redis cannot be asked: memory answers by itself for a while.
    fn stand_in<E: Send + Sync + 'static>(&self, want: &mut Want<V, E>) {
        let inner = &self.view.cache.inner;
        let Some(held) = want.held.clone().filter(|held| held.suspect) else { return };
        let facts = held.entry.facts();
        let is_dead = facts.is_disproved() || inner.ledger.judge(facts) == Judgement::Dead;
        if is_dead || !inner.trust.may_serve_alone(facts) {
            return;
        }
        if self.is_fresh(&held.entry) && !self.force {
            self.give(want, held.entry);
        } else {
            want.stale = Some(held.entry);
        }
    }

    /// Hands out what is in memory already.
    fn give<E: Send + Sync + 'static>(&self, want: &mut Want<V, E>, entry: MemoryEntry) {
        entry.facts().hand_out(self.view.cache.inner.memory.clock().now());
        if let Some(ticket) = want.ticket.take() {
            ticket.deliver(entry.clone());
        }
        let source = if entry.facts().stale { Source::Stale } else { Source::Memory };
        want.tell(self.view.fetched(entry, source, false).ok_or(FetchError::Dropped));
    }

    fn is_fresh(&self, entry: &MemoryEntry) -> bool {
        nanos(self.view.cache.inner.memory.clock().now()) < entry.facts().fresh_until_nanos()
    }

    /// A context for the loader of a key.
    pub(crate) fn context<E>(&self, want: &Want<V, E>) -> LoadCx<V> {
        LoadCx::new(want.stale.as_ref().and_then(|stale| stale.value::<V>().cloned()))
    }

    /// Waits for a loader, while its leases are kept alive.
    pub(crate) async fn wait<E: Send + Sync + 'static, R>(
        &self,
        wants: &mut [Want<V, E>],
        loading: impl Future<Output = R>,
    ) -> R {
        let renewals = wants.iter().filter_map(|want| want.start.claim.renewal(&want.redis_key)).collect();
        tokio::select! {
            biased;
            loaded = self.wait_softly(wants, loading) => loaded,
            never = self.view.cache.inner.renew(renewals) => match never {},
        }
    }

    /// Those who have an old value to go on with are not kept longer than the soft timeout.
    async fn wait_softly<E: Send + Sync + 'static, R>(
        &self,
        wants: &mut [Want<V, E>],
        loading: impl Future<Output = R>,
    ) -> R {
        let mut loading = std::pin::pin!(loading);
        if let Some(soft) = self.policy.soft_timeout.filter(|_| wants.iter().any(|want| want.stale.is_some()))
        {
            tokio::select! {
                biased;
                loaded = &mut loading => return loaded,
                () = tokio::time::sleep(soft) => {}
            }
            for want in wants.iter_mut().filter(|want| want.is_open()) {
                if let Some(stale) = want.stale.clone() {
                    self.emit_stale(want);
                    want.tell(self.view.fetched(stale, Source::Stale, false).ok_or(FetchError::Dropped));
                }
            }
        }
        loading.await
    }
}

/// Why there is no value, as callers see it.
pub(crate) fn no_value<E>(why: NoValue<E>) -> FetchError<E> {
    match why {
        NoValue::Failed(error) => FetchError::Load(Arc::new(error)),
        NoValue::Panicked => FetchError::LoaderPanicked,
        NoValue::Late => FetchError::Timeout,
    }
}
