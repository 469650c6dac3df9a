//! From a value to its envelope in Redis and its entry in memory, and back.

use super::entry::{EntryState, MemoryEntry, MemoryTicket, Validity};
use super::server_clock::time_until;
use super::view_config::ViewConfig;
use super::{Node, StartState};
use crate::key::MemoryKey;
use crate::policy::{Lifetime, RefreshAhead};
use crate::report::events::{Event, EventKey};
use crate::tier::Expiry;
use crate::value::codec;
use crate::value::envelope::{self, Meta};
use crate::value::format::{EncodeError, Id};
use larder_engine::{CommitOutcome, Ttl};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A value that was found in Redis.
pub(crate) struct OpenedEntry {
    pub(crate) entry: MemoryEntry,
    /// [`Validity::Valid`] or [`Validity::Stale`] if it may be served.
    pub(crate) validity: Validity,
}

/// A value that was found in Redis and is not judged yet: its entry has no times.
pub(crate) struct DecodedEntry {
    entry: MemoryEntry,
    /// When it leaves Redis, in milliseconds of the server's clock.
    pub(crate) deadline_ms: u64,
}

impl DecodedEntry {
    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        self.entry.state().tags.iter().map(|tag| &**tag)
    }
}

/// The node's clock and the server's at one moment.
///
/// The node's is read first, and the server's is the latest that it can show. So an entry that ends the remaining time
/// after `now` ends no later than its key, however much later it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) now: Duration,
    /// In microseconds; `None` if the server never told its time.
    server: Option<u64>,
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
    /// `None` without Redis.
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
    /// How long its load took; zero for a value that was written.
    pub(crate) cost: Duration,
    /// When it is loaded again while it is fresh, if not the view decides.
    pub(crate) refresh_ahead: Option<RefreshAhead>,
}

impl NewEntry {
    /// Of a value that was written.
    pub(crate) fn written(
        encoded_bytes: usize,
        lifetime: Lifetime,
        tags: Vec<Box<str>>,
        id: Option<Id>,
    ) -> Self {
        NewEntry { encoded_bytes, lifetime, tags, id, cost: Duration::ZERO, refresh_ahead: None }
    }
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
        let decoded = self.decode(view, redis_key, bytes)?;
        self.admit(decoded, start, &mut self.clocks()).await
    }

    /// Reads a value from bytes of Redis. `None` if they are no value of this view.
    pub(crate) fn decode<'b, V: Send + Sync + 'static>(
        &self,
        view: &ViewConfig<V>,
        redis_key: &[u8],
        bytes: impl Into<Cow<'b, [u8]>>,
    ) -> Option<DecodedEntry> {
        let bytes = bytes.into();
        let stored_bytes = bytes.len();
        let (meta, value) = match codec::open(bytes, &*view.codec, view.schema, &self.settings.packing) {
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
        let mut state = EntryState::without_times(Lifetime { fresh: meta.ttl, grace: meta.grace });
        state.set_ahead(view.policy.refresh_ahead, meta.cost);
        state.id = Some(meta.id);
        state.clock = meta.clock;
        state.promoted = true;
        state.tags = meta.tags.into();
        state.encoded_bytes = view.weight(&value, stored_bytes);
        let entry = MemoryEntry::new(Arc::new(value), state);
        Some(DecodedEntry { entry, deadline_ms: meta.deadline_ms })
    }

    /// The clocks now. Read after all values of a reply were decoded, which may take long.
    pub(crate) fn clocks(&self) -> Clocks {
        let now = self.now();
        Clocks { now, server: self.server_clock.latest() }
    }

    /// Judges a value at the moment of the clocks. `None` if it may not be served. Reads stamps from Redis if the value
    /// has tags that this node does not know, and then the clocks again.
    pub(crate) async fn admit(
        &self,
        decoded: DecodedEntry,
        start: &StartState,
        clocks: &mut Clocks,
    ) -> Option<OpenedEntry> {
        let judged = self.judge_decoded(decoded, start, clocks).await;
        judged.filter(|opened| matches!(opened.validity, Validity::Valid | Validity::Stale))
    }

    /// The same for a caller to whom a value that is not valid differs from one that may be. `None` if the server's clock is
    /// not known.
    pub(crate) async fn judge_decoded(
        &self,
        decoded: DecodedEntry,
        start: &StartState,
        clocks: &mut Clocks,
    ) -> Option<OpenedEntry> {
        let entry = self.with_times(decoded, start, clocks)?;
        let validity = match self.judge_promoted_by_known_stamps(entry.state()) {
            Some(validity) => validity,
            None => {
                let validity = self.judge_promoted(entry.state()).await;
                *clocks = self.clocks();
                validity
            }
        };
        Some(OpenedEntry { entry, validity })
    }

    /// The entry of a value that was found in Redis, with the times that it was stored with, whatever those of this node's
    /// policy are: the loader may have chosen them.
    fn with_times(
        &self,
        DecodedEntry { mut entry, deadline_ms }: DecodedEntry,
        start: &StartState,
        clocks: &Clocks,
    ) -> Option<MemoryEntry> {
        let remaining = time_until(deadline_ms, clocks.server?);
        let state = entry.state_mut()?;
        let stored = state.lifetime();
        // The deadline is the end of the grace period.
        // If the clock of the server has gone back, more may remain than the value was stored for.
        let fresh_for = remaining.saturating_sub(stored.grace).min(stored.fresh);
        let kept_for = remaining.min(fresh_for + stored.grace);
        state.set_stored(clocks.now, fresh_for, kept_for, start.generation, start.epoch);
        state.initial_age = (stored.fresh + stored.grace).saturating_sub(remaining);
        state.set_unchecked();
        Some(entry)
    }

    /// Encodes a value, into an envelope if there is Redis.
    pub(crate) fn seal<V: 'static>(
        &self,
        view: &ViewConfig<V>,
        value: &V,
        sealing: Sealing,
    ) -> Result<SealedValue, EncodeError> {
        if self.redis.is_none() {
            envelope::check_tags(&sealing.tags)?;
            return Ok(SealedValue { envelope: None, encoded_bytes: self.encoded_bytes(view, value)? });
        }
        let Sealing { id, clock, lifetime, cost, tags } = sealing;
        let meta = Meta {
            id,
            deadline_ms: 0,
            codec: view.codec.id(),
            negative: view.is_negative(value),
            schema: view.schema,
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
        let (refresh_ahead, cost) = (new.refresh_ahead.or(view.policy.refresh_ahead), new.cost);
        let mut state = self.new_state(new, start);
        state.set_ahead(refresh_ahead, cost);
        state.encoded_bytes = weight;
        MemoryEntry::new(value, state)
    }

    /// The entry of a value that takes the place of another one, whose times and tags it keeps.
    pub(crate) fn successor<V: Send + Sync + 'static>(
        &self,
        view: &ViewConfig<V>,
        value: Arc<V>,
        former: &EntryState,
        (id, encoded_bytes): (Id, usize),
        start: &StartState,
    ) -> MemoryEntry {
        let mut state = former.copy();
        state.id = Some(id);
        (state.clock, state.epoch) = (start.clock, start.epoch);
        state.encoded_bytes = view.weight(&value, encoded_bytes);
        // One of the tags may have been invalidated since the start.
        state.set_unchecked();
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
        self.commit_at(redis_key, ticket, entry, tracked_writes, self.now())
    }

    /// The same at `now`, which the caller has just read from the clock.
    pub(crate) fn commit_at(
        &self,
        redis_key: &[u8],
        ticket: MemoryTicket,
        entry: &MemoryEntry,
        tracked_writes: u64,
        now: Duration,
    ) -> CommitOutcome {
        let state = entry.state();
        let outcome = ticket.commit_at(entry.clone(), state.memory_ttl(), now);
        // Checked after the commit: a write that is reported later finds the entry in memory.
        if self.tracked_writes.count(redis_key) != tracked_writes {
            state.mark_suspect();
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::node_with_clock;
    use crate::policy::Policy;
    use crate::value::codec::{Raw, stored};
    use larder_engine::Clock;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn entry_ends_with_its_key_however_late_it_is_made() {
        let (clock, hand) = Clock::manual();
        let node = node_with_clock(clock);
        // The server's clock is at 1,000 s, and the key leaves it 2 s later.
        node.server_clock.record(node.server_clock.request(), 1_000_000_000);
        let mut bytes = stored::seal(&b"value".to_vec(), &Raw, Default::default()).expect("encodes");
        envelope::set_deadline(&mut bytes, 1_002_000);
        let view = ViewConfig::new("v".into(), 0, Arc::new(Raw), 0, Policy::new());
        let start = node.start_state(b"k");
        let decoded = || node.decode::<Vec<u8>>(&view, b"k", &bytes).expect("a value");
        let early = decoded();
        let mut clocks = node.clocks();
        for late in [false, true] {
            let opened = node.admit(decoded(), &start, &mut clocks).await.expect("valid");
            assert_eq!(opened.entry.state().memory_ttl(), Ttl::At(2_000), "late: {late}");
            hand.advance(SECOND);
            tokio::time::advance(SECOND).await;
        }
        let opened = node.admit(early, &start, &mut node.clocks()).await;
        assert!(opened.is_none(), "the deadline has passed since it was decoded");
    }
}
