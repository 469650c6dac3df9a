//! Looking up memory: a hit, a ticket to load, or a follower of another caller's load.

use super::Node;
use super::entry::{EntryState, MemoryEntry, MemoryFollower, MemoryTicket, Validity};
use super::fetched::{Fetched, Source};
use super::trust::TrustSnapshot;
use super::validity::{Proof, is_valid_at_once};
use super::view_config::ViewConfig;
use crate::key::{KeyBuf, MemoryKey, MemoryKeyRef};
use crate::report::stats::sampled;
use larder_engine::{Leader, Load};
use std::sync::Arc;
use std::time::Duration;

/// The result of a memory lookup.
pub(crate) enum MemoryLookup<V> {
    /// A valid entry.
    Hit(Fetched<V>),
    /// The caller has the right to load. So has an earlier load, if this one overtakes it.
    Lead { ticket: MemoryTicket, candidate: Option<Candidate>, overtakes: bool },
    /// Another caller loads.
    Follow(Waiter),
}

/// An entry in memory that is stale, or must be compared with Redis first.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) entry: MemoryEntry,
    pub(crate) needs_revalidation: bool,
}

/// A caller that waits for another caller's load.
pub(crate) struct Waiter {
    pub(crate) follower: MemoryFollower,
    pub(crate) candidate: Option<Candidate>,
    /// When the wait started.
    pub(crate) since: Duration,
    /// The ledger epoch at that time.
    pub(crate) epoch: u64,
}

impl Node {
    /// The value in memory, if it may be served now. Neither leads nor follows a load, and counts a hit only.
    pub(crate) fn hit<V: Send + Sync + 'static>(
        &self,
        view: &ViewConfig<V>,
        key: &KeyBuf,
    ) -> Option<Fetched<V>> {
        let memory_key = MemoryKeyRef { view: view.number, bytes: key.as_bytes() };
        let now = self.now();
        // Before memory, as for a lookup.
        let (trust, epoch) = (self.trust.snapshot(), self.ledger.epoch());
        let served = |entry: &MemoryEntry| {
            let is_valid = is_valid_at_once(entry.state(), trust, epoch, now);
            (is_valid && entry.value::<V>().is_some()).then(|| entry.clone())
        };
        let entry = sampled(&self.observers.counts.memory_latency, || {
            self.memory.get_if(&memory_key, now, served).or_else(|| {
                // The ledger has changed since the entry was last judged. It is asked while no shard is locked.
                let entry = self.memory.peek(&memory_key)?;
                let validity = self.judge(entry.state(), Proof::Trust(trust), epoch, now);
                (validity == Validity::Valid).then(|| self.memory.get_if(&memory_key, now, served)).flatten()
            })
        })?;
        self.observers.counts.record_tags(&entry.state().tags);
        let source = source_in_memory(&entry);
        self.fetched(entry, source, false)
    }

    /// Looks up memory. On a miss the caller gets the key's ticket, or follows the caller that has it.
    pub(crate) fn lookup<V: Send + Sync + 'static>(
        &self,
        view: &ViewConfig<V>,
        key: &KeyBuf,
    ) -> MemoryLookup<V> {
        self.lookup_at(view, key, self.now(), Leader::Async)
    }

    /// The same for a call that was made before, and that read the clock when it began: it may get what was valid then.
    /// If it leads, it does so in this way.
    pub(crate) fn lookup_at<V: Send + Sync + 'static>(
        &self,
        view: &ViewConfig<V>,
        key: &KeyBuf,
        now: Duration,
        leader: Leader,
    ) -> MemoryLookup<V> {
        let memory_key = MemoryKeyRef { view: view.number, bytes: key.as_bytes() };
        loop {
            // Before memory: what was known before is known of each entry found.
            let trust = self.trust.snapshot();
            let epoch = self.ledger.epoch();
            let load = sampled(&self.observers.counts.memory_latency, || {
                self.memory.load_at(&memory_key, now, leader, |key| key.into_owned())
            });
            let (load, candidate) = match load {
                Load::Hit(entry) => match self.judge(entry.state(), Proof::Trust(trust), epoch, now) {
                    // Only a caller that could load is served a stale value until the next attempt.
                    Validity::Valid if leader != Leader::GivesWay || !entry.state().is_stale_value => {
                        self.observers.counts.record_tags(&entry.state().tags);
                        let source = source_in_memory(&entry);
                        match self.fetched(entry, source, false) {
                            Some(fetched) => return MemoryLookup::Hit(fetched),
                            // A view of the same name stored a value of another type. A load replaces it, a read does not.
                            None => {
                                self.observers.counts.unservable.add(1);
                                (self.memory.reload_with(&memory_key, leader, |key| key.into_owned()), None)
                            }
                        }
                    }
                    validity => {
                        self.observers.counts.unservable.add(1);
                        let candidate = candidate::<V>(entry, validity);
                        (self.memory.reload_with(&memory_key, leader, |key| key.into_owned()), candidate)
                    }
                },
                missed => (missed, None),
            };
            if let Some(missed) = self.lead_or_follow(memory_key, load, candidate, trust, epoch) {
                return missed;
            }
        }
    }

    /// Removes an entry from memory and voids the tickets of its key. Returns the value if it is valid. Of concurrent
    /// callers one gets it.
    pub(crate) fn take_from_memory<V: Send + Sync + 'static>(&self, key: &MemoryKey) -> Option<Fetched<V>> {
        // Before memory, as for a lookup.
        let (now, trust, epoch) = (self.now(), self.trust.snapshot(), self.ledger.epoch());
        let entry = self.memory.remove(key)?;
        let validity = self.judge(entry.state(), Proof::Trust(trust), epoch, now);
        let is_fresh = entry.state().is_fresh_if(validity);
        is_fresh.then(|| self.fetched(entry, Source::Memory, false)).flatten()
    }

    /// Leads a load of the key, whether memory has a valid entry or not, or follows one that began after `called_at`.
    /// `Err` with a load that began before, which may return what it read before the call.
    pub(crate) fn lookup_for_refresh<V: Send + Sync + 'static>(
        &self,
        view: &ViewConfig<V>,
        key: &KeyBuf,
        called_at: Duration,
    ) -> Result<MemoryLookup<V>, MemoryFollower> {
        let memory_key = MemoryKeyRef { view: view.number, bytes: key.as_bytes() };
        loop {
            let (trust, epoch) = (self.trust.snapshot(), self.ledger.epoch());
            let candidate = self.refresh_candidate::<V>(memory_key);
            let load = match self.memory.reload_with(&memory_key, Leader::Async, |key| key.into_owned()) {
                Load::Follow(older) if older.began() <= called_at => return Err(older),
                load => load,
            };
            if let Some(missed) = self.lead_or_follow(memory_key, load, candidate, trust, epoch) {
                return Ok(missed);
            }
        }
    }

    /// What a refresh serves if its load fails.
    pub(crate) fn refresh_candidate<V: Send + Sync + 'static>(
        &self,
        memory_key: MemoryKeyRef<'_>,
    ) -> Option<Candidate> {
        // Before memory, as for a lookup.
        let (now, trust, epoch) = (self.now(), self.trust.snapshot(), self.ledger.epoch());
        let entry = self.memory.peek(&memory_key)?;
        let validity = self.judge(entry.state(), Proof::Trust(trust), epoch, now);
        candidate::<V>(entry, validity)
    }

    /// `None` if memory must be looked up again.
    fn lead_or_follow<V>(
        &self,
        memory_key: MemoryKeyRef<'_>,
        load: Load<MemoryKey, MemoryEntry>,
        candidate: Option<Candidate>,
        trust: TrustSnapshot,
        epoch: u64,
    ) -> Option<MemoryLookup<V>> {
        match load {
            Load::Hit(_) => unreachable!("a reload never hits"),
            Load::Lead(ticket) => Some(self.lead(memory_key, ticket, candidate)),
            Load::Follow(follower) => {
                let since = self.now();
                if self.may_follow(&follower, trust, since) {
                    return Some(MemoryLookup::Follow(Waiter { follower, candidate, since, epoch }));
                }
                // That load started before an invalidation that this node may have missed.
                self.memory.remove(&memory_key);
                None
            }
        }
    }

    /// Leads a load. The candidate was looked up before the ticket existed, so it may have been removed since.
    pub(crate) fn lead<V>(
        &self,
        memory_key: MemoryKeyRef<'_>,
        ticket: MemoryTicket,
        candidate: Option<Candidate>,
    ) -> MemoryLookup<V> {
        let is_in_memory = |candidate: &Candidate| {
            self.memory.peek_with(&memory_key, |entry| entry.value().is(&candidate.entry)) == Some(true)
        };
        MemoryLookup::Lead { ticket, candidate: candidate.filter(is_in_memory), overtakes: false }
    }

    /// Whether a running load started late enough for a lookup with this trust.
    fn may_follow(&self, follower: &MemoryFollower, trust: TrustSnapshot, now: Duration) -> bool {
        trust.covers(now)
            || self.trust.is_within_max_lag(follower.began(), now)
            || (self.redis_is_lost() && self.trust.is_within_disconnected())
    }

    /// Whether the result of a load may be served to a caller that started to wait at `since` in this epoch.
    pub(crate) fn may_serve_follower(&self, entry: &MemoryEntry, since: Duration, epoch: u64) -> bool {
        let state = entry.state();
        !state.is_dead()
            && state.is_valid_since(since)
            && (state.epoch >= epoch || self.ledger.judge(state).is_valid())
    }

    /// A value that is stored in no tier.
    pub(crate) fn unstored<V: Send + Sync + 'static>(&self, value: V) -> Fetched<V> {
        let state = EntryState::new(self.now(), Duration::ZERO, Duration::ZERO, 0, 0);
        let entry = MemoryEntry::new(Arc::new(value), state);
        self.fetched(entry, Source::Loader, false).expect("the entry has this type")
    }

    /// `None` if the entry has another type.
    pub(crate) fn fetched<V: Send + Sync + 'static>(
        &self,
        entry: MemoryEntry,
        source: Source,
        coalesced: bool,
    ) -> Option<Fetched<V>> {
        Fetched::new(entry, source, coalesced, self.memory.clock().clone())
    }
}

/// The source of an entry that is served from memory.
pub(crate) fn source_in_memory(entry: &MemoryEntry) -> Source {
    if entry.state().is_stale_value { Source::Stale } else { Source::Memory }
}

/// An entry that a load may still serve or compare with Redis.
fn candidate<V: Send + Sync + 'static>(entry: MemoryEntry, validity: Validity) -> Option<Candidate> {
    let needs_revalidation = validity == Validity::Unknown;
    let is_candidate = validity != Validity::Dead && entry.value::<V>().is_some();
    is_candidate.then_some(Candidate { entry, needs_revalidation })
}
