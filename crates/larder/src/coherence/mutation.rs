//! Invalidations and writes: here at once, in Redis and announced in one step, and owed if Redis does not confirm.
//!
//! ```text
//! void tickets, drop memory ─► MULTI [UNLINK k | SET k v] PUBLISH EXEC ─► void and drop again ─► Ok
//!                                                │ no answer, or a refusal
//!                                                └─► owe it, bar Redis for the key ─► void and drop again ─► Err
//! ```
//! Before: whoever loads now and finishes first must not store. After: whoever read the old value from Redis meanwhile
//! must not either. Each runs in a task of its own: half a mutation is not what a dropped caller leaves behind.

use crate::cache::Inner;
use crate::coherence::announce;
use crate::coherence::journal::{Invalidated, Turn};
use crate::coherence::lease::is_value;
use crate::coherence::ledger::{Invalidation, member, members_of};
use crate::error::CacheError;
use crate::key::MemoryKey;
use crate::tier::{LedgerAdvance, Operation, OperationResult, Transaction};
use std::sync::Arc;

/// How many keys are paid for, or deleted, in one transaction.
const BATCH: usize = 500;

impl Inner {
    /// Changes keys in Redis and tells everybody. Returns nothing done if there is no Redis.
    pub(crate) async fn change(
        self: &Arc<Self>,
        changes: Vec<Operation>,
    ) -> Result<Vec<OperationResult>, CacheError> {
        let Some(shared) = &self.shared else { return Ok(Vec::new()) };
        self.awake().await;
        let _not_paid_meanwhile = self.paying.read().await;
        let turn = self.journal.turn();
        let keys: Vec<MemoryKey> =
            changes.iter().filter_map(|change| self.memory_key_of(change.key())).collect();
        let announcement =
            announce::keys(&self.names.channel, self.origin, changes.iter().map(Operation::key));
        let guards = self.guard_fills(changes.iter().map(Operation::key)).await;
        let mutation = Transaction { operations: &changes, ledger: None, announce: Some(&announcement) };
        let changed = shared.ask(shared.tier.transact(&mutation)).await.map(|reply| reply.results);
        drop(guards);
        self.settle_keys(changes.iter().map(Operation::key), turn, changed.is_ok());
        // Whoever read the old value from Redis meanwhile may have put it here.
        keys.iter().for_each(|key| self.forget_key(key));
        changed
    }

    /// Keeps the books of keys that were changed, or were not.
    pub(crate) fn settle_keys<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, turn: Turn, confirmed: bool) {
        let keys = keys.map(|key| Invalidated::Key(key.to_vec()));
        if confirmed {
            self.journal.done(keys, turn);
        } else if let (turn, true) = self.journal.owe(keys) {
            self.hold_here(&[Invalidated::everything()], turn);
        }
    }

    /// Removes keys from both tiers; says for each whether either had a value.
    pub(crate) async fn delete_keys(
        self: &Arc<Self>,
        keys: Vec<(MemoryKey, Vec<u8>)>,
    ) -> Result<Vec<bool>, CacheError> {
        let now = self.memory.clock().now();
        let mut had = Vec::with_capacity(keys.len());
        for (key, _) in &keys {
            let held = self.memory.remove(key);
            had.push(held.is_some_and(|held| !held.facts().is_disproved() && held.facts().keep_until > now));
        }
        let mut failed = None;
        let redis_keys: Vec<Vec<u8>> = keys.into_iter().map(|(_, redis_key)| redis_key).collect();
        for (batch, had) in redis_keys.chunks(BATCH).zip(had.chunks_mut(BATCH)) {
            let removals = batch.iter().map(|key| Operation::Remove(key.clone())).collect();
            match self.change(removals).await {
                Ok(changed) => {
                    for (had, changed) in had.iter_mut().zip(changed) {
                        *had |= matches!(changed, OperationResult::Removed(head) if is_value(&head));
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(had), Err)
    }

    /// Invalidates everything, or what has one of these tags.
    pub(crate) async fn invalidate(
        self: &Arc<Self>,
        tags: Option<Vec<Box<str>>>,
        how: Invalidation,
    ) -> Result<(), CacheError> {
        let members: Vec<_> = match &tags {
            None => vec![member(None, how)],
            Some(tags) => tags.iter().map(|tag| member(Some(tag), how)).collect(),
        };
        if members.is_empty() {
            return Ok(());
        }
        let (turn, gaps) = (self.journal.turn(), self.ledger.gaps());
        self.ledger.begin(&members, turn);
        self.forget_cleared(&members);
        let Some(shared) = &self.shared else {
            self.ledger.settle(&members, 0, turn, gaps);
            return Ok(());
        };
        self.awake().await;
        if self.trust.is_alone() {
            let cleared = if tags.is_none() { self.delete_matched("*").await.map(drop) } else { Ok(()) };
            self.ledger.settle(&members, 0, turn, gaps);
            self.forget_cleared(&members);
            return cleared;
        }
        let announcement = announce::stamps(&self.names.channel, self.origin, &members);
        let bump = self.advance_of(&members);
        let bumped = shared.ask(shared.tier.advance_ledger(&bump.as_advance(&announcement))).await;
        match &bumped {
            Ok(clock) => {
                self.ledger.settle(&members, *clock, turn, gaps);
                self.journal.done(members.iter().cloned().map(Invalidated::Member), turn);
            }
            Err(_) => {
                let owed: Vec<_> = members.iter().cloned().map(Invalidated::Member).collect();
                let (turn, overflows) = self.journal.owe(owed.iter().cloned());
                self.hold_here(&owed, turn);
                if overflows {
                    self.hold_here(&[Invalidated::everything()], turn);
                }
            }
        }
        self.forget_cleared(&members);
        bumped.map(drop)
    }

    /// Deletes every key of the namespace that matches a glob behind it. Returns how many.
    pub(crate) async fn delete_matched(self: &Arc<Self>, pattern: &str) -> Result<u64, CacheError> {
        let before = self.memory.len();
        // Redis may have dropped what memory still has.
        self.memory.retain(|key, _| !crate::glob::matches(pattern.as_bytes(), &self.name_of(key)));
        let Some(shared) = &self.shared else {
            return Ok(before.saturating_sub(self.memory.len()) as u64);
        };
        let prefix = [self.namespace.as_bytes(), b":"].concat();
        let (mut cursor, mut deleted) = (0, 0);
        loop {
            let (next, keys) = shared.ask(shared.tier.scan(cursor, &prefix, pattern)).await?;
            // The ledger is no entry.
            let keys: Vec<_> = keys.into_iter().filter(|key| *key != self.names.ledger).collect();
            for batch in keys.chunks(BATCH) {
                let removals = batch.iter().map(|key| Operation::Remove(key.clone())).collect();
                let changed = self.change(removals).await?;
                let gone = changed
                    .iter()
                    .filter(|changed| matches!(changed, OperationResult::Removed(head) if is_value(head)));
                deleted += gone.count() as u64;
            }
            if next == 0 {
                return Ok(deleted);
            }
            cursor = next;
        }
    }

    /// An invalidation that Redis does not know of holds on this node.
    pub(crate) fn hold_here(&self, what: &[Invalidated], turn: Turn) {
        let mut members = Vec::new();
        for what in what {
            match what {
                Invalidated::Key(key) => self.forget_redis_key(key),
                Invalidated::Member(member) => members.push(member.clone()),
            }
        }
        if !members.is_empty() {
            self.ledger.begin(&members, turn);
            self.forget_cleared(&members);
        }
    }

    /// Pays what is owed, as long as Redis takes some of it. What it refuses does not hold up the rest: a full server
    /// takes no stamps, and gets room by what is removed.
    pub(crate) async fn pay(self: &Arc<Self>) {
        while self.journal.debts() > 0 {
            // A value that is written now must not be what an older debt deletes.
            let _alone = self.paying.write().await;
            let turn = self.journal.turn();
            let (members, keys) = self.journal.some_debts(BATCH);
            let stamped = self.pay_members(members, turn).await;
            if matches!(stamped, Err(CacheError::Redis(_))) {
                return;
            }
            let removed = self.pay_keys(keys, turn).await;
            if !matches!((stamped, removed), (Ok(true), _) | (_, Ok(true))) {
                return;
            }
        }
    }

    /// Pays before a value is written what would take it for older than itself if it was paid later.
    pub(crate) async fn pay_members_first(self: &Arc<Self>) {
        if self.journal.owes_members() && !self.redis_is_lost() {
            self.pay().await;
        }
    }

    /// Stamps members that are owed; whether there were any.
    async fn pay_members(&self, members: Vec<Vec<u8>>, turn: Turn) -> Result<bool, CacheError> {
        let Some(shared) = self.shared.as_ref().filter(|_| !members.is_empty()) else { return Ok(false) };
        let announcement = announce::stamps(&self.names.channel, self.origin, &members);
        let (bump, gaps) = (self.advance_of(&members), self.ledger.gaps());
        let clock = shared.ask_anyway(shared.tier.advance_ledger(&bump.as_advance(&announcement))).await?;
        self.ledger.settle(&members, clock, turn, gaps);
        self.journal.done(members.into_iter().map(Invalidated::Member), turn);
        Ok(true)
    }

    /// Removes keys that are owed; whether there were any.
    async fn pay_keys(&self, keys: Vec<Vec<u8>>, turn: Turn) -> Result<bool, CacheError> {
        let Some(shared) = self.shared.as_ref().filter(|_| !keys.is_empty()) else { return Ok(false) };
        let announcement = announce::keys(&self.names.channel, self.origin, keys.iter().map(|key| &key[..]));
        let removals: Vec<_> = keys.iter().cloned().map(Operation::Remove).collect();
        let mutation = Transaction { operations: &removals, ledger: None, announce: Some(&announcement) };
        shared.ask_anyway(shared.tier.transact(&mutation)).await?;
        // What this node loaded without Redis meanwhile is compared before its next use.
        keys.iter().for_each(|key| self.unconfirm(key));
        self.journal.done(keys.into_iter().map(Invalidated::Key), turn);
        Ok(true)
    }

    fn unconfirm(&self, redis_key: &[u8]) {
        if let Some(key) = self.memory_key_of(redis_key) {
            self.memory.peek_with(&key, |entry| entry.value().facts().suspect());
        }
    }

    fn advance_of(&self, members: &[Vec<u8>]) -> OwnedAdvance {
        let floor = members.iter().any(|member| member == b"floor");
        let members = members.iter().filter(|member| *member != b"floor").cloned().collect();
        OwnedAdvance { key: self.names.ledger.clone(), members, floor, at_least: self.ledger.clock() }
    }

    /// Drops an entry and voids the tickets of its key.
    pub(crate) fn forget_key(&self, key: &MemoryKey) {
        self.memory.remove(key);
    }

    pub(crate) fn forget_redis_key(&self, redis_key: &[u8]) {
        if let Some(key) = self.memory_key_of(redis_key) {
            self.forget_key(&key);
        }
    }

    /// Makes room at once where everything was invalidated. The ledger alone would do.
    pub(crate) fn forget_cleared(&self, members: &[Vec<u8>]) {
        if members.iter().any(|member| member == b"clear" || member == b"floor") {
            self.memory.clear();
        }
    }

    /// The members by which an entry without tags is judged.
    pub(crate) fn plain_members() -> Vec<Vec<u8>> {
        members_of([])
    }
}

/// A [`LedgerAdvance`] that is put together before it is announced.
struct OwnedAdvance {
    key: Vec<u8>,
    members: Vec<Vec<u8>>,
    floor: bool,
    at_least: u64,
}

impl OwnedAdvance {
    fn as_advance<'a>(&'a self, announce: &'a crate::tier::Announcement) -> LedgerAdvance<'a> {
        LedgerAdvance {
            key: &self.key,
            members: &self.members,
            floor: self.floor,
            at_least: self.at_least,
            announce,
        }
    }
}
