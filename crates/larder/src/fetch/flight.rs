//! A load from its ticket to its end: look, load, store, hand out. One task for one key or for many.

use crate::coherence::lease::{Claim, Seen, Stored, ToStore};
use crate::coherence::ledger::Judgement;
use crate::coherence::trust::nanos;
use crate::error::{CacheError, FetchError};
use crate::events::Event;
use crate::fetch::{Outcome, Policy, Source};
use crate::load::{LoadCx, Loaded, NoValue, Said, Start};
use crate::tier::memory::{MemoryEntry, MemoryTicket};
use crate::view::{Kept, Opened, Sealing, Shared};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How often a key is looked at again because what was there changed under the look.
const TRIES: usize = 4;

/// One key of a flight.
pub(crate) struct Want<V, E> {
    pub(crate) redis_key: Vec<u8>,
    /// Gone once the key has its answer.
    pub(crate) ticket: Option<MemoryTicket>,
    pub(crate) held: Option<Kept>,
    pub(crate) answer: Option<oneshot::Sender<Outcome<V, E>>>,
    start: Start,
    /// When it was begun to get the value, on the engine's clock.
    looked_at: Duration,
    /// A value in grace.
    stale: Option<MemoryEntry>,
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

    fn tell(&mut self, outcome: Outcome<V, E>) {
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
        match inner.see(&keys, true).await {
            Ok((seen, clock)) => {
                for (place, seen) in places.into_iter().zip(seen) {
                    let want = &mut wants[place];
                    want.start.clock = clock;
                    if let Some(dead) = self.saw(want, seen).await {
                        want.start.claim = inner.claim_over(&dead);
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
            Seen::Bytes { bytes, left } => {
                match self.view.open(&want.redis_key, &bytes, left, &want.start).await {
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
            Some(Judgement::Valid | Judgement::Stale) => {
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
        entry.facts().seen_at(self.view.cache.inner.memory.clock().now());
        if let Some(ticket) = want.ticket.take() {
            ticket.give(entry.clone());
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

    /// Waits for a loader; those who have an old value to go on with are not kept longer than the soft timeout.
    pub(crate) async fn wait<E: Send + Sync + 'static, R>(
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

    /// Ends the keys that were loaded: stores what may be stored, then hands out.
    pub(crate) async fn land<E: Send + Sync + 'static>(
        &self,
        wants: Vec<(Want<V, E>, Loaded<V>)>,
        said: &Said,
        began: Instant,
    ) {
        let cost = began.elapsed();
        self.view.cache.inner.counts.load_latency.record(cost);
        let mut landing = Vec::with_capacity(wants.len());
        for (mut want, loaded) in wants {
            let (value, kept_tags) = match loaded {
                Loaded::New(value) => (Arc::new(value), Vec::new()),
                Loaded::NotModified => {
                    match want.stale.as_ref().and_then(|s| Some((s.value::<V>()?.clone(), s))) {
                        Some((value, stale)) => (value, stale.facts().tags.to_vec()),
                        None => {
                            self.fail(vec![want], FetchError::NothingToKeep).await;
                            continue;
                        }
                    }
                }
            };
            want.stale = None;
            landing.push(self.seal(want, value, kept_tags, said, cost));
        }
        let inner = &self.view.cache.inner;
        let to_store: Vec<_> = landing
            .iter_mut()
            .map(|landing| ToStore {
                key: &landing.want.redis_key,
                claim: landing.claim.clone(),
                ticket: landing.want.ticket.as_ref(),
                put: landing.put.take(),
            })
            .collect();
        let stored = inner.store(to_store).await;
        for (landing, stored) in landing.into_iter().zip(stored) {
            self.hand_out(landing, stored);
        }
    }

    fn seal<E>(
        &self,
        want: Want<V, E>,
        value: Arc<V>,
        kept_tags: Vec<Box<str>>,
        said: &Said,
        cost: Duration,
    ) -> Landing<V, E> {
        let inner = &self.view.cache.inner;
        let life = self.view.lifetime(&value, self.policy, said);
        let tags = self.view.tags(&[&self.tags[..], &kept_tags].concat(), said);
        let id = want.start.claim.id().unwrap_or_else(crate::envelope::Id::random);
        let sealing = Sealing { id, clock: want.start.clock, life, cost, tags: tags.clone() };
        let sealed = self.view.seal(&value, sealing).map_err(|error| {
            tracing::warn!(%error, "a value cannot be encoded");
            inner.events.emit(|| Event::NotEncoded { key: want.redis_key.clone() });
            inner.report(&CacheError::Encode(error));
        });
        let keep = sealed.is_ok() && !said.no_store;
        let bytes = sealed.as_ref().map_or(0, Vec::len);
        // Tags that no ledger keeps could not be invalidated in Redis.
        let memory_only = inner.trust.is_alone() && !tags.is_empty();
        let put = sealed.ok().filter(|_| keep && !memory_only).map(|bytes| (bytes, life.kept()));
        // What is not kept gives its lease back, and leaves alone what was there before.
        let claim = match &want.start.claim {
            claim if keep || claim.is_lease() => claim.clone(),
            _ => Claim::None,
        };
        let entry = self.view.entry(value, bytes, life, tags, &want.start);
        Landing { want, entry, keep, claim, put }
    }

    fn hand_out<E: Send + Sync + 'static>(&self, landing: Landing<V, E>, stored: Stored) {
        let Landing { mut want, entry, keep, .. } = landing;
        let inner = &self.view.cache.inner;
        inner.events.emit(|| Event::Loaded { key: want.redis_key.clone(), ok: true });
        if stored != Stored::Yes {
            // Only Redis knows whether it was invalidated since its load began: it is good for those who came so early
            // that they need not have known.
            entry.facts().proved_only_at(want.looked_at.saturating_add(inner.trust.max_lag()));
        }
        if let Some(ticket) = want.ticket.take() {
            match (keep, stored) {
                (true, Stored::Yes) => {
                    self.view.commit(&want.redis_key, ticket, &entry, want.start.changes);
                }
                (true, Stored::Unknown) => {
                    if !matches!(want.start.claim, Claim::None) {
                        entry.facts().suspect();
                    }
                    self.view.commit(&want.redis_key, ticket, &entry, want.start.changes);
                }
                (true, Stored::Refused) => {
                    inner.counts.refused.add(1);
                    inner.events.emit(|| Event::Refused { key: want.redis_key.clone() });
                    ticket.give(entry.clone());
                }
                (false, _) => ticket.give(entry.clone()),
            }
        }
        want.tell(self.view.fetched(entry, Source::Loader, false).ok_or(FetchError::Dropped));
    }

    /// Ends keys without a value: what is in grace stands in for it, and leases are given back.
    pub(crate) async fn fail<E: Send + Sync + 'static>(&self, wants: Vec<Want<V, E>>, error: FetchError<E>) {
        let inner = &self.view.cache.inner;
        inner.counts.load_failures.add(1);
        let mut leases = Vec::new();
        for mut want in wants {
            inner.events.emit(|| Event::Loaded { key: want.redis_key.clone(), ok: false });
            let Some(ticket) = want.ticket.take() else { continue };
            match want.stale.take() {
                Some(stale) => {
                    self.emit_stale(&want);
                    let again = self.again(&stale);
                    self.view.commit(&want.redis_key, ticket, &again, want.start.changes);
                    want.tell(self.view.fetched(again, Source::Stale, false).ok_or(FetchError::Dropped));
                }
                None => {
                    ticket.fail(Arc::new(error.clone()));
                    want.tell(Err(error.clone()));
                }
            }
            if want.start.claim.is_lease() {
                leases.push((want.redis_key, want.start.claim));
            }
        }
        if !leases.is_empty() {
            let back = leases.iter().map(|(key, claim)| ToStore {
                key,
                claim: claim.clone(),
                ticket: None,
                put: None,
            });
            inner.store(back.collect()).await;
        }
    }

    /// An old value, taken for fresh until the loader may be asked again.
    fn again(&self, stale: &MemoryEntry) -> MemoryEntry {
        let inner = &self.view.cache.inner;
        let facts = stale.facts();
        let again = facts.again(inner.memory.clock().now(), self.policy.throttle());
        let value = stale.value::<V>().expect("it was made for this view").clone();
        MemoryEntry::new(value, again)
    }

    fn emit_stale<E>(&self, want: &Want<V, E>) {
        let inner = &self.view.cache.inner;
        inner.counts.stale.add(1);
        inner.events.emit(|| Event::Stale { key: want.redis_key.clone() });
    }
}

/// A loaded value on its way into the tiers.
struct Landing<V, E> {
    want: Want<V, E>,
    entry: MemoryEntry,
    keep: bool,
    claim: Claim,
    put: Option<(Vec<u8>, Duration)>,
}

/// Why there is no value, as callers see it.
pub(crate) fn no_value<E>(why: NoValue<E>) -> FetchError<E> {
    match why {
        NoValue::Failed(error) => FetchError::Load(Arc::new(error)),
        NoValue::Panicked => FetchError::LoaderPanicked,
        NoValue::Late => FetchError::Timeout,
    }
}
