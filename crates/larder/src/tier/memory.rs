//! The memory tier: values as they are, behind an `Arc`, in the engine, each with the facts by which it may be served.

use crate::coherence::trust::nanos;
use crate::envelope::Id;
use crate::key::MemoryKey;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) type Memory = larder_engine::Cache<MemoryKey, MemoryEntry>;
pub(crate) type MemoryTicket = larder_engine::Ticket<MemoryKey, MemoryEntry>;
pub(crate) type MemoryFollower = larder_engine::Follower<MemoryKey, MemoryEntry>;

/// What an entry costs beside its key and its encoded value: the entry, its slot, index and deadline, and the `Arc`s.
const ENTRY_OVERHEAD_BYTES: u64 = 240;

/// An entry of the memory tier. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MemoryEntry(pub(crate) Arc<Held<dyn Any + Send + Sync>>);

/// A value, `Arc<V>` in fact, and what is known of it.
pub(crate) struct Held<T: ?Sized> {
    pub(crate) facts: Facts,
    value: T,
}

/// Never in any generation: what was disproved is not served, whatever happens.
const DISPROVED: u64 = u64::MAX;
/// Before the first generation.
const SUSPECT: u64 = 0;

/// What is known of an entry.
#[derive(Debug)]
pub(crate) struct Facts {
    /// What Redis has it under; `None` for a value that Redis never confirmed.
    pub(crate) id: Option<Id>,
    /// The ledger's clock when its load began; 0 if there was no ledger to ask.
    pub(crate) clock: u64,
    /// How many invalidations of tags this node knew of when it began to get the value.
    pub(crate) epoch: u64,
    /// Whether it was found in Redis, and so loaded at a time that only the ledger's clock tells.
    pub(crate) promoted: bool,
    pub(crate) tags: Box<[Box<str>]>,
    /// The length of the encoded value, by which the entry is weighed.
    pub(crate) encoded_bytes: u32,
    /// When the value came into memory, on the engine's clock.
    pub(crate) since: Duration,
    /// How old it was then, if Redis could tell.
    pub(crate) age: Duration,
    /// Whether it stands in for a value that could not be loaded.
    pub(crate) stale: bool,
    /// Until when it is kept, and served while its loader fails; on the engine's clock.
    pub(crate) keep_until: Duration,
    /// Until when it is fresh, in nanoseconds on the engine's clock; `u64::MAX` if for as long as it is kept.
    fresh_until: AtomicU64,
    /// The generation in which it was last known to be what Redis has.
    proved_in: AtomicU64,
    /// When that was known, in nanoseconds on the engine's clock.
    proved_at: AtomicU64,
    /// When it was last handed out to all who waited for it, likewise; 0 if it never was.
    handed_at: AtomicU64,
    /// The number of tag invalidations after which its tags were last found valid.
    pub(crate) checked: AtomicU64,
}

impl Facts {
    /// Facts of a value that comes into memory now.
    pub(crate) fn new(
        since: Duration,
        fresh_for: Duration,
        kept_for: Duration,
        generation: u64,
        epoch: u64,
    ) -> Self {
        let facts = Facts {
            id: None,
            clock: 0,
            epoch,
            promoted: false,
            tags: Box::default(),
            encoded_bytes: 0,
            since,
            age: Duration::ZERO,
            stale: false,
            keep_until: since.saturating_add(kept_for),
            fresh_until: AtomicU64::new(u64::MAX),
            proved_in: AtomicU64::new(generation),
            proved_at: AtomicU64::new(nanos(since)),
            handed_at: AtomicU64::new(0),
            checked: AtomicU64::new(epoch),
        };
        if fresh_for < kept_for {
            facts.stale_from(since.saturating_add(fresh_for));
        }
        facts
    }

    /// The same facts for the same value, which stands in for a while.
    pub(crate) fn again(&self, since: Duration, fresh_for: Duration) -> Self {
        let kept_for = self.keep_until.saturating_sub(since).max(Duration::from_millis(1));
        let generation = self.proved_in.load(Ordering::Acquire);
        let mut facts = Facts::new(since, fresh_for, kept_for, generation, self.epoch);
        facts.id = self.id;
        facts.clock = self.clock;
        facts.promoted = self.promoted;
        facts.tags = self.tags.clone();
        facts.stale = true;
        facts.encoded_bytes = self.encoded_bytes;
        facts.age = self.age.saturating_add(since.saturating_sub(self.since));
        facts.proved_at = AtomicU64::new(self.proved_at.load(Ordering::Acquire));
        facts
    }

    pub(crate) fn fresh_until_nanos(&self) -> u64 {
        self.fresh_until.load(Ordering::Relaxed)
    }

    pub(crate) fn stale_from(&self, moment: Duration) {
        self.fresh_until.store(nanos(moment), Ordering::Relaxed);
    }

    /// Whether it is kept for longer than it is fresh.
    pub(crate) fn has_grace(&self) -> bool {
        self.fresh_until_nanos() != u64::MAX
    }

    /// It is fresh for longer than it was.
    pub(crate) fn renew(&self, until: Duration) {
        if self.has_grace() {
            self.stale_from(until);
        }
    }

    pub(crate) fn is_proved_in(&self, generation: u64) -> bool {
        self.proved_in.load(Ordering::Acquire) == generation
    }

    /// Redis was asked in `generation`, and has it.
    pub(crate) fn prove(&self, generation: u64, now: Duration) {
        self.proved_at.fetch_max(nanos(now), Ordering::AcqRel);
        self.set_proved_in(generation);
    }

    /// It has to be compared with Redis before it is served again.
    pub(crate) fn suspect(&self) {
        self.set_proved_in(SUSPECT);
    }

    fn set_proved_in(&self, generation: u64) {
        _ = self.proved_in.fetch_update(Ordering::AcqRel, Ordering::Acquire, |proved| {
            (proved != DISPROVED).then_some(generation)
        });
    }

    /// It is handed out by one who knows that it may be. That proves nothing: whoever serves it without Redis must not do
    /// so for longer because of it.
    pub(crate) fn hand_out(&self, now: Duration) {
        self.handed_at.fetch_max(nanos(now), Ordering::AcqRel);
    }

    /// It was got, and may have been out of date after this moment.
    pub(crate) fn proved_only_at(&self, moment: Duration) {
        self.proved_at.store(nanos(moment), Ordering::Release);
    }

    /// The last moment at which it is known to have been right.
    pub(crate) fn proved_at(&self) -> Duration {
        Duration::from_nanos(self.proved_at.load(Ordering::Acquire))
    }

    /// Whether it was got, compared with Redis, or handed out by one who knew, at or after this moment.
    pub(crate) fn is_good_since(&self, moment: Duration) -> bool {
        let known = |at: &AtomicU64| at.load(Ordering::Acquire) >= nanos(moment);
        known(&self.proved_at) || known(&self.handed_at)
    }

    /// It was invalidated, and may not have left memory yet.
    pub(crate) fn disprove(&self) {
        self.proved_in.store(DISPROVED, Ordering::Release);
    }

    pub(crate) fn is_disproved(&self) -> bool {
        self.proved_in.load(Ordering::Acquire) == DISPROVED
    }
}

impl MemoryEntry {
    pub(crate) fn new<V: Send + Sync + 'static>(value: Arc<V>, facts: Facts) -> Self {
        MemoryEntry(Arc::new(Held { facts, value }))
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// Whether both are the same entry, and not just equal.
    pub(crate) fn is(&self, other: &MemoryEntry) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The value, if it is of this type.
    pub(crate) fn value<V: Send + Sync + 'static>(&self) -> Option<&Arc<V>> {
        self.0.value.downcast_ref::<Arc<V>>()
    }
}

pub(crate) fn weigh(key: &MemoryKey, entry: &MemoryEntry) -> u64 {
    key.bytes.len() as u64 + u64::from(entry.facts().encoded_bytes) + ENTRY_OVERHEAD_BYTES
}

impl std::fmt::Debug for MemoryEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryEntry").field("facts", &self.0.facts).finish_non_exhaustive()
    }
}
