//! Looking into memory: what may be served at once, what must be asked about first, and who waits for whom.

use super::Shared;
use crate::coherence::ledger::Judgement;
use crate::coherence::trust::{Believed, nanos};
use crate::fetch::{Fetched, Source};
use crate::key::{KeyBuf, MemoryKeyRef};
use crate::stats::sampled;
use crate::tier::memory::{Facts, MemoryEntry, MemoryFollower, MemoryTicket};
use larder_engine::Load;
use std::time::Duration;

/// What memory says about a key.
pub(crate) enum MemoryLookup<V> {
    /// A value that may be served.
    Hit(Fetched<V>),
    /// The caller's to get.
    Lead {
        ticket: MemoryTicket,
        /// What is there and may not be served as it is.
        held: Option<Kept>,
    },
    /// Somebody else gets it.
    Follow(Followed),
}

/// An entry that is there and may not be served as it is.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) entry: MemoryEntry,
    /// Whether it has to be compared with Redis first.
    pub(crate) suspect: bool,
}

/// A place among those who wait.
pub(crate) struct Followed {
    pub(crate) follower: MemoryFollower,
    pub(crate) held: Option<Kept>,
    /// When the wait began.
    pub(crate) since: Duration,
    /// The node's count of invalidations then.
    pub(crate) epoch: u64,
}

/// What may be done with an entry of memory.
enum Verdict {
    Serve(Source),
    Keep { suspect: bool },
    Dead,
}

impl<V: Send + Sync + 'static> Shared<V> {
    /// Looks into memory; on a miss the caller gets the key's ticket or a place among those who wait.
    pub(crate) fn look(&self, key: &KeyBuf) -> MemoryLookup<V> {
        let inner = &self.cache.inner;
        let borrowed = MemoryKeyRef { view: self.number, bytes: key.as_bytes() };
        loop {
            // Before memory: what is found there may be believed by what was known before.
            let now = inner.memory.clock().now();
            let believed = inner.trust.now_believed();
            let epoch = inner.ledger.epoch();
            let load = sampled(&inner.counts.memory_latency, || {
                inner.memory.load_at(&borrowed, now, |key| key.into_owned())
            });
            let (load, held) = match load {
                Load::Hit(entry) => match self.judge(&entry, believed, epoch, now) {
                    Verdict::Serve(source) => match self.fetched(entry, source, false) {
                        Some(fetched) => return MemoryLookup::Hit(fetched),
                        None => {
                            // A view of the same name with another type of value was here.
                            inner.memory.remove(&borrowed);
                            continue;
                        }
                    },
                    Verdict::Keep { suspect } => {
                        let held = entry.value::<V>().is_some().then_some(Kept { entry, suspect });
                        (inner.memory.reload_with(&borrowed, |key| key.into_owned()), held)
                    }
                    Verdict::Dead => (inner.memory.reload_with(&borrowed, |key| key.into_owned()), None),
                },
                missed => (missed, None),
            };
            match load {
                Load::Hit(_) => unreachable!("a reload never hits"),
                Load::Lead(ticket) => return self.leads(key, ticket, held),
                Load::Follow(follower) => {
                    let since = inner.memory.clock().now();
                    if self.may_join(&follower, believed, since) {
                        return MemoryLookup::Follow(Followed { follower, held, since, epoch });
                    }
                    // That load began before something that this node may not have heard of.
                    inner.memory.remove(&borrowed);
                }
            }
        }
    }

    /// The key's ticket, or a place among those who load it, whatever memory has.
    pub(crate) fn look_to_replace(&self, key: &KeyBuf) -> MemoryLookup<V> {
        let inner = &self.cache.inner;
        let borrowed = MemoryKeyRef { view: self.number, bytes: key.as_bytes() };
        loop {
            let now = inner.memory.clock().now();
            let (believed, epoch) = (inner.trust.now_believed(), inner.ledger.epoch());
            let held = inner.memory.peek(&borrowed).filter(|entry| entry.value::<V>().is_some());
            let held = held.and_then(|entry| match self.judge(&entry, believed, epoch, now) {
                Verdict::Serve(_) => Some(Kept { entry, suspect: false }),
                Verdict::Keep { suspect } => Some(Kept { entry, suspect }),
                Verdict::Dead => None,
            });
            match inner.memory.reload_with(&borrowed, |key| key.into_owned()) {
                Load::Follow(follower) => {
                    let since = inner.memory.clock().now();
                    if self.may_join(&follower, believed, since) {
                        return MemoryLookup::Follow(Followed { follower, held, since, epoch });
                    }
                    // As in `look`. What is there would have to be compared in any case.
                    inner.memory.remove(&borrowed);
                }
                Load::Lead(ticket) => return self.leads(key, ticket, held),
                Load::Hit(_) => unreachable!("a reload never hits"),
            }
        }
    }

    /// The caller's to get, with what memory has. That was looked at before the ticket was there: what was removed in
    /// between must not come back by it.
    pub(crate) fn leads(&self, key: &KeyBuf, ticket: MemoryTicket, held: Option<Kept>) -> MemoryLookup<V> {
        let borrowed = MemoryKeyRef { view: self.number, bytes: key.as_bytes() };
        let memory = &self.cache.inner.memory;
        let is_there = |held: &Kept| memory.peek_with(&borrowed, |entry| entry.value().is(&held.entry));
        MemoryLookup::Lead { ticket, held: held.filter(|held| is_there(held) == Some(true)) }
    }

    /// What may be done with an entry for a read that began `now`.
    fn judge(&self, entry: &MemoryEntry, believed: Believed, epoch: u64, now: Duration) -> Verdict {
        let (inner, facts) = (&self.cache.inner, entry.facts());
        let is_checked = facts.checked.load(std::sync::atomic::Ordering::Acquire) == epoch;
        let is_proved = facts.is_proved_in(believed.generation);
        let fresh = || if facts.stale { Source::Stale } else { Source::Memory };
        if is_checked && is_proved && believed.at(now) && nanos(now) < facts.fresh_until_nanos() {
            return Verdict::Serve(fresh());
        }
        if facts.is_disproved() {
            return Verdict::Dead;
        }
        let mut suspect = !(is_proved && believed.at(now));
        match inner.ledger.judge(facts) {
            Judgement::Valid => {}
            Judgement::Stale if facts.has_grace() => facts.stale_from(Duration::ZERO),
            Judgement::Unknown => suspect = true,
            Judgement::Stale | Judgement::Dead => {
                facts.disprove();
                return Verdict::Dead;
            }
        }
        if suspect && inner.redis_is_lost() && inner.trust.may_serve_alone(facts) {
            suspect = false;
        }
        if !suspect && nanos(now) < facts.fresh_until_nanos() {
            return Verdict::Serve(fresh());
        }
        Verdict::Keep { suspect }
    }

    /// Whether a load that is under way began late enough to know all that this read has to know.
    fn may_join(&self, follower: &MemoryFollower, believed: Believed, now: Duration) -> bool {
        let inner = &self.cache.inner;
        believed.at(now)
            || inner.trust.is_recent(follower.began(), now)
            || (inner.redis_is_lost() && inner.trust.may_be_alone())
    }

    /// Whether what a load came back with may be given to one who began to wait then.
    pub(crate) fn may_have(&self, entry: &MemoryEntry, since: Duration, epoch: u64) -> bool {
        let facts = entry.facts();
        !facts.is_disproved()
            && facts.is_good_since(since)
            && (facts.epoch >= epoch || self.cache.inner.ledger.judge(facts) == Judgement::Valid)
    }

    /// A value that no tier gets.
    pub(crate) fn unkept(&self, value: V) -> Fetched<V> {
        let now = self.cache.inner.memory.clock().now();
        let facts = Facts::new(now, Duration::ZERO, Duration::ZERO, 0, 0);
        let entry = MemoryEntry::new(std::sync::Arc::new(value), facts);
        self.fetched(entry, Source::Loader, false).expect("an entry of this type")
    }

    pub(crate) fn fetched(&self, entry: MemoryEntry, source: Source, coalesced: bool) -> Option<Fetched<V>> {
        Fetched::new(entry, source, coalesced, self.cache.inner.memory.clock().clone())
    }
}
