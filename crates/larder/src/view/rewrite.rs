//! Replacing what is under a key by what is made from it, in one step: the loop under `update` and `touch`.
//!
//! ```text
//! turn of the key ─► read Redis and the ledger ─► decide ─► compare-and-set, announced ─► done
//!                          ▲                                      │ another node came first
//!                          └──────────────── pause ◄──────────────┘
//! ```
//! Redis alone is read, since memory may be `max_lag` behind. The ledger is read after the value, so the value is valid by each
//! invalidation that was confirmed before the call, and what is made from it gets the clock of that reading: a later
//! invalidation of its tags ends it too. Without Redis memory is compared and changed under the lock of the shard. Code of the
//! user runs before that, under no lock.

use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::fetch::view_state::ViewState;
use crate::key::{KeyBuf, MemoryKey};
use crate::node::StartState;
use crate::node::entry::{MemoryEntry, Validity};
use crate::node::ledger::members_of;
use crate::node::sealing::OpenedEntry;
use crate::node::validity::Proof;
use crate::report::error::CacheError;
use crate::report::events::EventKey;
use crate::tier::{CasAction, CompareAndSet, Expiry, HEAD_BYTES, Operation};
use crate::value::envelope::{Head, value_id};
use crate::value::format::Id;
use larder_engine::Op;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::sleep;

/// How many times a key is read because others have changed it since. Calls of this node wait for their turn, so these are
/// other nodes, which pause too.
const MAX_TRIES: usize = 16;
/// The longest pause before the second try; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_millis(64);

/// What was read under a key.
pub(super) struct Present {
    /// The valid value, if there is one.
    pub(super) valid: Option<MemoryEntry>,
    /// Its envelope and the deadline in it; `None` without Redis.
    pub(super) envelope: Option<(Vec<u8>, u64)>,
    /// The value that is there and no longer valid.
    pub(super) dead: Option<Id>,
    /// The counters at the reading: what is made from the value is as old as that.
    pub(super) start: StartState,
}

impl Present {
    fn nothing(start: StartState) -> Self {
        Present { valid: None, envelope: None, dead: None, start }
    }
}

/// What becomes of a key.
pub(super) enum Becomes {
    /// It stays as it is.
    Same,
    /// It has this value. The envelope is for Redis.
    Put { entry: MemoryEntry, envelope: Option<(Vec<u8>, Expiry)> },
    /// It has none.
    Nothing,
}

/// What is under a key after it.
pub(super) struct Rewritten {
    /// The valid value.
    pub(super) entry: Option<MemoryEntry>,
    /// Whether a value was stored or removed.
    pub(super) changed: bool,
}

impl<V: Send + Sync + 'static> ViewState<V> {
    /// Reads a key, decides what becomes of it, and does that if the key is still the same. Otherwise it decides again.
    ///
    /// # Errors
    /// That of `decide`, or [`CacheError::Contended`], or if Redis could not be read: nothing has changed. If Redis did not
    /// confirm, the deletion of the key is queued.
    pub(super) async fn rewrite(
        self: Arc<Self>,
        key: &KeyBuf,
        mut decide: impl FnMut(&Present) -> Result<Becomes, CacheError> + Send,
    ) -> Result<Rewritten, CacheError> {
        let (coordinator, node) = (&self.coordinator, self.node());
        let (memory_key, redis_key) = self.both_keys(key);
        coordinator.ensure_supported(&memory_key).await?;
        coordinator.replay_members_first().await;
        let _turn = coordinator.key_turns.turn(&redis_key).await;
        for tries in 0..MAX_TRIES {
            let rewritten = if node.redis.is_none() {
                self.try_in_memory(&memory_key, &redis_key, &mut decide)?
            } else {
                self.pause(tries).await;
                self.try_in_redis(&redis_key, &mut decide).await?
            };
            if let Some(rewritten) = rewritten {
                return Ok(rewritten);
            }
            yield_now().await;
        }
        Err(CacheError::Contended { key: EventKey::new(&redis_key), tries: MAX_TRIES })
    }

    /// Pauses before a further try, at random, so that nodes do not meet again.
    async fn pause(&self, tries: usize) {
        if tries > 0 {
            let longest = (FIRST_PAUSE * (1 << (tries - 1))).min(MAX_PAUSE);
            sleep(longest.mul_f32(self.node().random.fraction())).await;
        }
    }

    /// `None` if another writer came first.
    async fn try_in_redis(
        &self,
        redis_key: &[u8],
        decide: &mut (impl FnMut(&Present) -> Result<Becomes, CacheError> + Send),
    ) -> Result<Option<Rewritten>, CacheError> {
        let (coordinator, node) = (&self.coordinator, self.node());
        let seq = coordinator.replay_log.next_seq();
        let start = node.start_state(redis_key);
        let (mut lookups, clock) = coordinator.lookup_redis(&[redis_key.to_vec()], Purpose::Rewrite).await?;
        let start = StartState { clock, ..start };
        let (expected, present) = match lookups.pop() {
            Some(RedisLookup::Bytes(bytes)) => (
                bytes[..bytes.len().min(HEAD_BYTES)].to_vec(),
                self.judge_bytes(redis_key, bytes, start).await?,
            ),
            // The running load has stored nothing. Its store will be refused.
            Some(RedisLookup::LeaseHeldByOther(id)) => {
                (Head::Lease(id).to_bytes().to_vec(), Present::nothing(start))
            }
            _ => (Vec::new(), Present::nothing(start)),
        };
        let existed = present.valid.is_some();
        let (action, entry) = match decide(&present)? {
            Becomes::Same => return Ok(Some(Rewritten { entry: present.valid, changed: false })),
            Becomes::Put { entry, envelope } => {
                let (bytes, expiry) = envelope.ok_or(CacheError::NoRedis)?;
                (CasAction::Put(bytes, expiry), Some(entry))
            }
            Becomes::Nothing if expected.is_empty() => {
                node.invalidate_memory_of(redis_key);
                // Another node may have it in memory: Redis tells nobody what it evicts.
                coordinator.remove(vec![Operation::Remove(redis_key.to_vec())]).await?;
                return Ok(Some(Rewritten { entry: None, changed: false }));
            }
            Becomes::Nothing => (CasAction::Remove, None),
        };
        let changed = existed || entry.is_some();
        let request = CompareAndSet { key: redis_key.to_vec(), expected, action };
        node.invalidate_memory_of(redis_key);
        let accepted = coordinator.compare_and_set(request, seq).await;
        // A lookup may have read the former value from Redis in between.
        node.invalidate_memory_of(redis_key);
        Ok(accepted?.then_some(Rewritten { entry, changed }))
    }

    /// Judges what Redis has by the ledger as it is now.
    async fn judge_bytes(
        &self,
        redis_key: &[u8],
        bytes: Vec<u8>,
        mut start: StartState,
    ) -> Result<Present, CacheError> {
        let node = self.node();
        let Some(decoded) = node.decode(&self.config, redis_key, &bytes[..]) else {
            return Ok(Present { dead: value_id(&bytes), ..Present::nothing(start) });
        };
        if decoded.tags().next().is_some() {
            start.clock = node.read_stamps(&members_of(decoded.tags())).await?;
        }
        let deadline_ms = decoded.deadline_ms;
        match node.judge_decoded(decoded, &start, &mut node.clocks()).await {
            Some(OpenedEntry { entry, validity: Validity::Valid }) => {
                let envelope = Some((bytes, deadline_ms));
                Ok(Present { valid: Some(entry), envelope, ..Present::nothing(start) })
            }
            Some(OpenedEntry { validity: Validity::Stale | Validity::Dead, .. }) => {
                Ok(Present { dead: value_id(&bytes), ..Present::nothing(start) })
            }
            // It may be valid: what is made from nothing must not take its place.
            Some(OpenedEntry { validity: Validity::Unknown, .. }) | None => Err(CacheError::NotAsked),
        }
    }

    /// `None` if another writer came first.
    fn try_in_memory(
        &self,
        memory_key: &MemoryKey,
        redis_key: &[u8],
        decide: &mut impl FnMut(&Present) -> Result<Becomes, CacheError>,
    ) -> Result<Option<Rewritten>, CacheError> {
        let node = self.node();
        let start = node.start_state(redis_key);
        let is_valid = |entry: &MemoryEntry| {
            let (now, trust, epoch) = (node.now(), node.trust.snapshot(), node.ledger.epoch());
            let validity = node.judge(entry.state(), Proof::Trust(trust), epoch, now);
            entry.state().is_fresh_if(validity) && entry.value::<V>().is_some()
        };
        let seen = node.memory.peek(memory_key);
        let valid = seen.clone().filter(is_valid);
        let existed = valid.is_some();
        let present = Present { valid, ..Present::nothing(start) };
        let (op, entry) = match decide(&present)? {
            Becomes::Same => return Ok(Some(Rewritten { entry: present.valid, changed: false })),
            Becomes::Put { entry, .. } => (Op::Put(entry.clone(), entry.state().memory_ttl()), Some(entry)),
            Becomes::Nothing => (Op::Remove, None),
        };
        // In one step: a load or a write may store its value in between, and a valid one may end.
        let done = node.memory.compute(memory_key.clone(), |now| {
            let is_same = match (&seen, now) {
                (None, None) => true,
                (Some(seen), Some(now)) => now.value().is(seen) && (!existed || is_valid(seen)),
                _ => false,
            };
            if is_same { (op, true) } else { (Op::Keep, false) }
        });
        // One that weighs too much is not stored, and the former one is gone.
        let entry = entry.filter(|_| done.refused.is_none());
        let changed = existed || entry.is_some();
        Ok(done.result.then_some(Rewritten { entry, changed }))
    }
}
