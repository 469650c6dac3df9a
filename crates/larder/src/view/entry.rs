//! From a value to the bytes in Redis and the entry in memory, and back.

use super::Shared;
use crate::codec;
use crate::coherence::ledger::Judgement;
use crate::envelope::{EncodeError, Id, Meta};
use crate::events::Event;
use crate::fetch::{Lifetime, Policy};
use crate::load::{Said, Start};
use crate::tier::memory::{Facts, MemoryEntry, MemoryTicket};
use larder_engine::{CommitOutcome, Ttl};
use std::sync::Arc;
use std::time::Duration;

/// What bytes of Redis turned out to be.
pub(crate) enum Opened {
    /// A value that may be served.
    Fresh(MemoryEntry),
    /// A value in grace.
    Stale(MemoryEntry),
    /// No value of this view, or one that was invalidated.
    Dead,
}

impl<V: Send + Sync + 'static> Shared<V> {
    /// Reads what Redis had. Asks it for stamps if the value has tags that this node does not know.
    pub(crate) async fn open(
        &self,
        redis_key: &[u8],
        bytes: &[u8],
        left: Option<Duration>,
        start: &Start,
    ) -> Opened {
        let inner = &self.cache.inner;
        let (meta, value) = match codec::open(bytes, &*self.codec, self.schema, &inner.packing) {
            Ok(opened) => opened,
            Err(why) => {
                if let Some(shared) = &inner.shared {
                    shared.counts.unreadable.add(1);
                }
                tracing::debug!(view = self.name, reason = %why, "unreadable value in redis");
                inner.events.emit(|| Event::Unreadable { key: redis_key.to_vec(), why });
                return Opened::Dead;
            }
        };
        let own = self.policy.lifetime(meta.negative, &inner.random);
        let left = left.unwrap_or_else(|| own.kept());
        // What Redis will still keep is the grace and before it the freshness.
        let fresh = left.saturating_sub(meta.grace).min(own.fresh);
        let now = inner.memory.clock().now();
        let mut facts = Facts::new(now, fresh, left.min(fresh + meta.grace), start.generation, start.epoch);
        facts.id = Some(meta.id);
        facts.clock = meta.clock;
        facts.promoted = true;
        facts.age = (meta.ttl + meta.grace).saturating_sub(left);
        facts.tags = meta.tags.into();
        let value = Arc::new(value);
        facts.encoded_bytes = self.weight(&value, bytes.len());
        // Its tags have not been looked at.
        facts.checked.store(0, std::sync::atomic::Ordering::Release);
        match inner.judge_found(&facts).await {
            Judgement::Valid if !fresh.is_zero() => Opened::Fresh(MemoryEntry::new(value, facts)),
            Judgement::Valid | Judgement::Stale if !meta.grace.is_zero() => {
                facts.stale_from(Duration::ZERO);
                Opened::Stale(MemoryEntry::new(value, facts))
            }
            _ => Opened::Dead,
        }
    }

    /// Encodes a value; with what Redis and memory need to know of it.
    pub(crate) fn seal(&self, value: &V, sealing: Sealing) -> Result<Vec<u8>, EncodeError> {
        let Sealing { id, clock, life, cost, tags } = sealing;
        let negative = self.is_negative(value);
        let codec = self.codec.id();
        let Lifetime { fresh: ttl, grace } = life;
        let meta = Meta { id, codec, negative, schema: self.schema, clock, ttl, grace, cost, tags };
        codec::seal(value, &*self.codec, meta, &self.cache.inner.packing)
    }

    /// How long a value is fresh and kept: by what its loader said, by the call, by the view.
    pub(crate) fn lifetime(&self, value: &V, policy: Policy, said: &Said) -> Lifetime {
        let said = Policy { ttl: said.ttl, negative_ttl: said.ttl, grace: said.grace, ..Policy::new() };
        said.or(policy).lifetime(self.is_negative(value), &self.cache.inner.random)
    }

    /// The tags of a value: the view's, the call's and the loader's, each once.
    pub(crate) fn tags(&self, of_call: &[Box<str>], said: &Said) -> Vec<Box<str>> {
        let mut tags: Vec<Box<str>> = [&self.tags[..], of_call, &said.tags[..]].concat();
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// The entry of a value that comes into memory now.
    pub(crate) fn entry(
        &self,
        value: Arc<V>,
        bytes: usize,
        life: Lifetime,
        tags: Vec<Box<str>>,
        start: &Start,
    ) -> MemoryEntry {
        let now = self.cache.inner.memory.clock().now();
        let mut facts = Facts::new(now, life.fresh, life.kept(), start.generation, start.epoch);
        facts.id = start.claim.id();
        facts.clock = start.clock;
        facts.encoded_bytes = self.weight(&value, bytes);
        facts.tags = tags.into();
        if !facts.tags.is_empty() {
            // The node may know of an invalidation of one of them; if it missed nothing, it knows of all there were.
            facts.checked.store(0, std::sync::atomic::Ordering::Release);
            let inner = &self.cache.inner;
            inner.ledger.judge_loaded(&facts, inner.trust.generation() == start.generation);
        }
        MemoryEntry::new(value, facts)
    }

    /// Puts an entry into memory, if the ticket still allows it.
    pub(crate) fn commit(
        &self,
        redis_key: &[u8],
        ticket: MemoryTicket,
        entry: &MemoryEntry,
        changes: u64,
    ) -> CommitOutcome {
        let inner = &self.cache.inner;
        let facts = entry.facts();
        let left = facts.keep_until.saturating_sub(facts.since).max(Duration::from_millis(1));
        let commit = ticket.commit_with_ttl(entry.clone(), Ttl::After(left));
        // MemoryLookup at afterwards: a change that is heard of later meets the entry in memory.
        if inner.changes.count(redis_key) != changes {
            entry.facts().suspect();
        }
        commit
    }

    fn weight(&self, value: &Arc<V>, encoded_bytes: usize) -> u32 {
        let bytes = match &self.weigher {
            Some(weigher) => weigher(value),
            None => encoded_bytes as u64,
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    pub(super) fn is_negative(&self, value: &V) -> bool {
        self.is_negative.is_some_and(|is_negative| is_negative(value))
    }
}

/// What is written beside a value.
pub(crate) struct Sealing {
    pub(crate) id: Id,
    pub(crate) clock: u64,
    pub(crate) life: Lifetime,
    pub(crate) cost: Duration,
    pub(crate) tags: Vec<Box<str>>,
}
