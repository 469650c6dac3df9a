//! From a value to its envelope in Redis and its entry in memory, and back.

use super::entry::{EntryState, MemoryEntry, MemoryTicket, Validity};
use super::view_config::ViewConfig;
use super::{Node, StartState};
use crate::codec;
use crate::envelope::{self, EncodeError, Id, Meta};
use crate::events::{Event, EventKey};
use crate::key::MemoryKey;
use crate::policy::Lifetime;
use crate::tier::Expiry;
use larder_engine::{CommitOutcome, Ttl};
use std::sync::Arc;
use std::time::Duration;

/// A value that was found in Redis.
pub(crate) struct OpenedEntry {
    pub(crate) entry: MemoryEntry,
    /// [`Validity::Valid`] or [`Validity::Stale`].
    pub(crate) validity: Validity,
    /// When it leaves Redis, in milliseconds of the server's clock.
    pub(crate) deadline_ms: u64,
}

/// The metadata of a value that is written.
pub(crate) struct Sealing {
    pub(crate) id: Id,
    pub(crate) clock: u64,
    pub(crate) lifetime: Lifetime,
    pub(crate) cost: Duration,
    pub(crate) tags: Vec<Box<str>>,
}

/// A value that is written, as the tiers store it.
pub(crate) struct SealedValue {
    /// `None` if Redis may not store it: there is none, or it has no ledger, and nothing could invalidate a tagged value.
    pub(crate) envelope: Option<Vec<u8>>,
    pub(crate) encoded_bytes: usize,
}

/// The metadata of a value that this node stores, in memory or as a copy.
pub(crate) struct NewEntry {
    pub(crate) encoded_bytes: usize,
    pub(crate) lifetime: Lifetime,
    pub(crate) tags: Vec<Box<str>>,
    /// The id in Redis, if it is stored there.
    pub(crate) id: Option<Id>,
}

impl Node {
    /// Opens bytes from Redis. `None` if they are no value of this view, or a value that may not be served. Reads
    /// stamps from Redis if the value has tags that this node does not know.
    pub(crate) async fn open<V: Send + Sync + 'static>(
        &self,
        view: &ViewConfig<V>,
        redis_key: &[u8],
        bytes: &[u8],
        start: &StartState,
    ) -> Option<OpenedEntry> {
        let (meta, value) = match codec::open(bytes, &*view.codec, view.schema(), &self.settings.packing) {
            Ok(opened) => opened,
            Err(why) => {
                if let Some(redis) = &self.redis {
                    redis.counts.unreadable.add(1);
                }
                tracing::debug!(view = view.name, reason = %why, "value in redis is not readable");
                self.observers.emit(|| Event::Unreadable { key: EventKey::new(redis_key), why });
                return None;
            }
        };
        let lifetime = view.policy.lifetime(meta.negative, &self.random);
        // The time before the server's: the entry ends no later than its key.
        let now = self.now();
        let remaining = self.server_clock.remaining(meta.deadline_ms)?;
        // The deadline is the end of the grace period.
        let fresh_for = remaining.saturating_sub(meta.grace).min(lifetime.fresh);
        let kept_for = remaining.min(fresh_for + meta.grace);
        let mut state = EntryState::new(now, fresh_for, kept_for, start.generation, start.epoch);
        state.set_lifetime(Lifetime { fresh: meta.ttl, grace: meta.grace });
        state.id = Some(meta.id);
        state.clock = meta.clock;
        state.promoted = true;
        state.initial_age = (meta.ttl + meta.grace).saturating_sub(remaining);
        state.tags = meta.tags.into();
        state.encoded_bytes = view.weight(&value, bytes.len());
        state.set_unchecked();
        match self.judge_promoted(&state).await {
            validity @ (Validity::Valid | Validity::Stale) => {
                let entry = MemoryEntry::new(Arc::new(value), state);
                Some(OpenedEntry { entry, validity, deadline_ms: meta.deadline_ms })
            }
            Validity::Dead | Validity::Unknown => None,
        }
    }

    /// Encodes a value into an envelope, if Redis may store it.
    pub(crate) fn seal<V: 'static>(
        &self,
        view: &ViewConfig<V>,
        value: &V,
        sealing: Sealing,
    ) -> Result<SealedValue, EncodeError> {
        if self.redis.is_none() || (self.trust.is_standalone() && !sealing.tags.is_empty()) {
            envelope::check_tags(&sealing.tags)?;
            return Ok(SealedValue { envelope: None, encoded_bytes: self.encoded_bytes(view, value)? });
        }
        let Sealing { id, clock, lifetime, cost, tags } = sealing;
        let meta = Meta {
            id,
            deadline_ms: 0,
            codec: view.codec.id(),
            negative: view.is_negative(value),
            schema: view.schema(),
            clock,
            ttl: lifetime.fresh,
            grace: lifetime.grace,
            cost,
            tags,
        };
        let envelope = codec::seal(value, &*view.codec, meta, &self.settings.packing)?;
        Ok(SealedValue { encoded_bytes: envelope.len(), envelope: Some(envelope) })
    }

    /// An envelope that is stored now and kept for so long, with its deadline. `None` if the server's clock is not known.
    pub(crate) fn with_deadline(
        &self,
        mut envelope: Vec<u8>,
        kept_for: Duration,
    ) -> Option<(Vec<u8>, Expiry)> {
        let deadline_ms = self.server_clock.deadline(kept_for)?;
        envelope::set_deadline(&mut envelope, deadline_ms);
        Some((envelope, Expiry::At(deadline_ms)))
    }

    /// The encoded length of a value that is not encoded; 0 where nothing is weighed by it.
    fn encoded_bytes<V: 'static>(&self, view: &ViewConfig<V>, value: &V) -> Result<usize, EncodeError> {
        if view.weigher.is_some() || !self.settings.weighs_bytes {
            return Ok(0);
        }
        let bytes = codec::encoded_bytes(value, &*view.codec)?;
        let limit = self.settings.packing.max_bytes;
        if bytes > limit { Err(EncodeError::TooLarge { bytes, limit }) } else { Ok(bytes) }
    }

    /// The entry of a value that was loaded or written.
    pub(crate) fn new_entry<V: Send + Sync + 'static>(
        &self,
        view: &ViewConfig<V>,
        value: Arc<V>,
        new: NewEntry,
        start: &StartState,
    ) -> MemoryEntry {
        let weight = view.weight(&value, new.encoded_bytes);
        let mut state = self.new_state(new, start);
        state.encoded_bytes = weight;
        MemoryEntry::new(value, state)
    }

    /// The state of a value that was loaded or written.
    pub(crate) fn new_state(
        &self,
        NewEntry { lifetime, tags, id, .. }: NewEntry,
        start: &StartState,
    ) -> EntryState {
        let mut state =
            EntryState::new(self.now(), lifetime.fresh, lifetime.kept_for(), start.generation, start.epoch);
        state.id = id;
        state.clock = start.clock;
        state.tags = tags.into();
        if !state.tags.is_empty() {
            // One of the tags may have been invalidated since the start.
            state.set_unchecked();
            self.ledger.judge_loaded(&state, self.trust.generation() == start.generation);
        }
        state
    }

    /// Stores an entry in memory and voids the tickets of its key.
    pub(crate) fn insert(&self, key: MemoryKey, entry: MemoryEntry) {
        let ttl = Ttl::After(entry.state().remaining(entry.state().stored_at));
        self.memory.insert_with_ttl(key, entry, ttl);
    }

    /// Stores an entry in memory under its ticket, if the ticket is still valid.
    pub(crate) fn commit(
        &self,
        redis_key: &[u8],
        ticket: MemoryTicket,
        entry: &MemoryEntry,
        tracked_writes: u64,
    ) -> CommitOutcome {
        let state = entry.state();
        let ttl = Ttl::After(state.remaining(state.stored_at));
        let outcome = ticket.commit_with_ttl(entry.clone(), ttl);
        // Checked after the commit: a write that is reported later finds the entry in memory.
        if self.tracked_writes.count(redis_key) != tracked_writes {
            state.mark_suspect();
        }
        outcome
    }
}
