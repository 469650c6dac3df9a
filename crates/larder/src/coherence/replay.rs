//! Replaying pending invalidations to Redis, and applying on this node what Redis does not know.

use super::replay_log::{Invalidated, Queued};
use super::{Coordinator, announcement};
use crate::key::glob::Glob;
use crate::node::ledger::{FLOOR, MutationSeq};
use crate::report::error::CacheError;
use crate::report::events::Event;
use crate::tier::{Announcement, BATCH, LedgerAdvance, Mutation, Operation};

impl Coordinator {
    /// Applies invalidations that Redis has not confirmed to this node.
    pub(super) fn apply_locally(&self, targets: &[Invalidated], seq: MutationSeq) {
        let mut members = Vec::new();
        for target in targets {
            match target {
                Invalidated::Key(key) => self.node.invalidate_memory_of(key),
                Invalidated::Matching(glob) => _ = self.node.invalidate_matching(glob),
                Invalidated::Member(member) => members.push(member.clone()),
            }
        }
        if !members.is_empty() {
            self.node.ledger.start_again(&members, seq);
            self.node.purge_memory(&members);
        }
    }

    /// If an invalidation of everything is pending instead of too many others: applies it to this node.
    pub(super) fn apply_overflow(&self, queued: Queued) {
        if queued.overflows {
            self.apply_locally(&[Invalidated::everything()], queued.seq);
        }
    }

    /// Replays pending invalidations for as long as Redis accepts some. A refusal of the members does not stop the
    /// keys: a full server accepts no stamps, and removals make room.
    pub(super) async fn replay(&self) {
        while self.replay_log.pending_count() > 0 {
            // A value that is written now must not be what an older invalidation removes.
            let exclusive = self.mutation_gate.write().await;
            let seq = self.replay_log.next_seq();
            let batch = self.replay_log.pending_batch(BATCH);
            let members = self.replay_members(batch.members, seq).await;
            if matches!(members, Err(CacheError::Redis(_))) {
                return;
            }
            let keys = self.replay_keys(batch.keys, seq).await;
            drop(exclusive);
            // Without the gate: a scan takes long. What it removes too much is loaded again.
            let globs = self.replay_globs(batch.globs, seq).await;
            if ![members, keys, globs].iter().any(|replayed| matches!(replayed, Ok(true))) {
                return;
            }
        }
    }

    /// Replays members before a value is written. A later replay would invalidate the value.
    pub(crate) async fn replay_members_first(&self) {
        if self.replay_log.has_pending_members() && !self.node.redis_is_lost() {
            self.replay().await;
        }
    }

    /// Whether there were any.
    async fn replay_members(&self, members: Vec<Vec<u8>>, seq: MutationSeq) -> Result<bool, CacheError> {
        let Some(redis) = self.node.redis.as_ref().filter(|_| !members.is_empty()) else { return Ok(false) };
        let announcement = announcement::stamps(&self.node.keyspace.channel, self.origin, &members);
        let (advance, gaps) = (self.ledger_advance(&members), self.node.ledger.gaps());
        let request = advance.announced_by(&announcement);
        let advanced = redis.call_ignoring_breaker(redis.tier.advance_ledger(&request)).await?;
        self.on_advanced(&request, advanced);
        self.node.ledger.confirm(&members, advanced.clock, seq, gaps);
        self.node.observers.emit(|| Event::Replayed { invalidations: members.len() });
        self.replay_log.confirm(members.into_iter().map(Invalidated::Member), seq);
        Ok(true)
    }

    /// Whether there were any.
    async fn replay_globs(&self, globs: Vec<Glob>, seq: MutationSeq) -> Result<bool, CacheError> {
        let Some(redis) = self.node.redis.as_ref().filter(|_| !globs.is_empty()) else { return Ok(false) };
        for glob in globs {
            self.remove_matching(redis, &glob).await?;
            self.node.invalidate_matching(&glob);
            self.node.observers.emit(|| Event::Replayed { invalidations: 1 });
            self.replay_log.confirm([Invalidated::Matching(glob)], seq);
        }
        Ok(true)
    }

    /// Whether there were any.
    async fn replay_keys(&self, keys: Vec<Vec<u8>>, seq: MutationSeq) -> Result<bool, CacheError> {
        let Some(redis) = self.node.redis.as_ref().filter(|_| !keys.is_empty()) else { return Ok(false) };
        let announced = keys.iter().map(|key| &key[..]);
        let announcement = announcement::keys(&self.node.keyspace.channel, self.origin, announced);
        let removals: Vec<_> = keys.iter().cloned().map(Operation::Remove).collect();
        let mutation = Mutation { operations: &removals, ledger: None, announce: Some(&announcement) };
        redis.call_ignoring_breaker(redis.tier.mutate(&mutation)).await?;
        // Values that this node stored while Redis did not reply are compared before their next use.
        keys.iter().for_each(|key| self.node.mark_suspect(key));
        self.node.observers.emit(|| Event::Replayed { invalidations: keys.len() });
        self.replay_log.confirm(keys.into_iter().map(Invalidated::Key), seq);
        Ok(true)
    }

    pub(super) fn ledger_advance(&self, members: &[Vec<u8>]) -> OwnedLedgerAdvance {
        let known = self.node.ledger.clock();
        let floor = || announcement::stamps(&self.node.keyspace.channel, self.origin, &[FLOOR.to_vec()]);
        OwnedLedgerAdvance {
            key: self.node.keyspace.ledger.clone(),
            members: members.iter().filter(|member| *member != FLOOR).cloned().collect(),
            floor: members.iter().any(|member| member == FLOOR),
            at_least: known,
            floor_message: (!self.has_accepted_older(known)).then(|| floor().message),
        }
    }
}

/// A [`LedgerAdvance`] without its announcement.
pub(super) struct OwnedLedgerAdvance {
    key: Vec<u8>,
    members: Vec<Vec<u8>>,
    floor: bool,
    at_least: u64,
    floor_message: Option<Vec<u8>>,
}

impl OwnedLedgerAdvance {
    pub(super) fn announced_by<'a>(&'a self, announce: &'a Announcement) -> LedgerAdvance<'a> {
        LedgerAdvance {
            key: &self.key,
            members: &self.members,
            floor: self.floor,
            at_least: self.at_least,
            floor_message: self.floor_message.as_deref(),
            announce,
        }
    }
}
