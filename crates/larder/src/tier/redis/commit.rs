//! Compare-and-set: by a script, or by WATCH … EXEC on a connection that nobody else uses meanwhile.
//!
//! WATCH on a shared connection would be worth nothing: another task's EXEC ends it.

use super::connect::Slot;
use super::values::{array, bytes, checked, int, px};
use super::{CONNECTIONS, RedisTier};
use crate::tier::{Announcement, Commit, HEAD_BYTES, Then, TierError};
use redis::{Pipeline, Value};
use xxhash_rust::xxh3::xxh3_64;

impl RedisTier {
    pub(super) async fn do_commit(
        &self,
        commits: &[Commit],
        announce: Option<&Announcement>,
    ) -> Result<Vec<bool>, TierError> {
        let can = self.can().await?;
        let Some(first) = commits.first() else { return Ok(Vec::new()) };
        if can.scripts {
            // What is announced is a change like another, and keeps its order among them.
            let slot = if announce.is_some() { &self.writer } else { self.reader(&first.key) };
            self.commit_by_script(slot, commits, announce).await
        } else if can.transactions {
            let place = xxh3_64(&first.key) as usize % CONNECTIONS;
            let slot = self.watchers[place].lock().await;
            let mut accepted = Vec::with_capacity(commits.len());
            for commit in commits {
                accepted.push(self.commit_by_watch(&slot, commit, announce).await?);
            }
            Ok(accepted)
        } else {
            self.commit_unguarded(commits).await
        }
    }

    async fn commit_by_script(
        &self,
        slot: &Slot,
        commits: &[Commit],
        announce: Option<&Announcement>,
    ) -> Result<Vec<bool>, TierError> {
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.commit.call(&mut pipeline, by_text, commits.len());
            commits.iter().for_each(|commit| _ = pipeline.arg(&commit.key));
            match announce {
                Some(Announcement { channel, message }) => pipeline.arg(channel).arg(message),
                None => pipeline.arg("").arg(""),
            };
            for Commit { seen, then, .. } in commits {
                pipeline.arg(seen);
                match then {
                    Then::Put(bytes, ttl) => pipeline.arg("put").arg(bytes).arg(px(*ttl)),
                    Then::Touch(ttl) => pipeline.arg("touch").arg("").arg(px(*ttl)),
                    Then::Remove => pipeline.arg("remove").arg("").arg(0),
                };
            }
            pipeline
        };
        let mut answers = self.send_script(slot, build).await?;
        let accepted = array(answers.pop().unwrap_or_default())?;
        accepted.into_iter().map(|accepted| Ok(int(accepted)? == 1)).collect()
    }

    async fn commit_by_watch(
        &self,
        slot: &Slot,
        commit: &Commit,
        announce: Option<&Announcement>,
    ) -> Result<bool, TierError> {
        let outcome = self.watch_compare_exec(slot, commit, announce).await;
        if outcome.is_err() {
            // It may still watch.
            slot.reset();
        }
        outcome
    }

    async fn watch_compare_exec(
        &self,
        slot: &Slot,
        Commit { key, seen, then }: &Commit,
        announce: Option<&Announcement>,
    ) -> Result<bool, TierError> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("WATCH").arg(key).cmd("GETRANGE").arg(key).arg(0).arg(HEAD_BYTES - 1);
        // What is watched is watched on this connection: on another one, EXEC would compare nothing.
        let open = slot.connected(&self.address).await?;
        let mut answers = slot.send_on(&open, &self.address, &pipeline).await?;
        let head = bytes(answers.pop().unwrap_or_default())?.unwrap_or_default();
        checked(answers.pop().unwrap_or_default())?;
        if head != *seen {
            let mut unwatch = Pipeline::with_capacity(1);
            unwatch.cmd("UNWATCH");
            slot.send_on(&open, &self.address, &unwatch).await?;
            return Ok(false);
        }
        let mut pipeline = Pipeline::with_capacity(4);
        pipeline.cmd("MULTI");
        follow(&mut pipeline, key, then);
        if let Some(Announcement { channel, message }) = announce {
            pipeline.cmd("PUBLISH").arg(channel).arg(message);
        }
        pipeline.cmd("EXEC");
        let mut answers = slot.send_on(&open, &self.address, &pipeline).await?;
        match answers.last() {
            Some(Value::Nil) => Ok(false),
            _ => {
                let exec = super::executed(std::mem::take(&mut answers))?;
                exec.into_iter().try_for_each(|answer| checked(answer).map(drop))?;
                Ok(true)
            }
        }
    }

    /// On a server that can neither run scripts nor transactions: by the order of one connection alone. The cache sees
    /// to it that no change of its own comes between.
    async fn commit_unguarded(&self, commits: &[Commit]) -> Result<Vec<bool>, TierError> {
        let mut pipeline = Pipeline::with_capacity(commits.len());
        commits.iter().for_each(|Commit { key, then, .. }| follow(&mut pipeline, key, then));
        let answers = self.writer.send(&self.address, &pipeline).await?;
        answers.into_iter().try_for_each(|answer| checked(answer).map(drop))?;
        Ok(vec![true; commits.len()])
    }
}

/// Adds what an accepted commit does.
fn follow(pipeline: &mut Pipeline, key: &[u8], then: &Then) {
    match then {
        Then::Put(bytes, ttl) => pipeline.cmd("SET").arg(key).arg(bytes).arg("PX").arg(px(*ttl)),
        Then::Touch(ttl) => pipeline.cmd("PEXPIRE").arg(key).arg(px(*ttl)),
        Then::Remove => pipeline.cmd("UNLINK").arg(key),
    };
}
