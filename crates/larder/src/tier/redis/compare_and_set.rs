//! Compare-and-set: by a script, or by WATCH … EXEC on a connection that no other caller uses meanwhile.
//!
//! On a shared connection another task's EXEC would end the WATCH.

use super::connect::Connector;
use super::values::{array, bytes, checked, int, px, set_option};
use super::{CONNECTIONS, RedisTier};
use crate::tier::{Announcement, CasAction, CompareAndSet, DEADLINE_AT, HEAD_BYTES, TierError};
use redis::{Pipeline, Value};
use twox_hash::XxHash3_64;

impl RedisTier {
    pub(super) async fn do_compare_and_set(
        &self,
        swaps: &[CompareAndSet],
        announce: Option<&Announcement>,
    ) -> Result<Vec<bool>, TierError> {
        let can = self.can().await?;
        let Some(first) = swaps.first() else { return Ok(Vec::new()) };
        if can.scripts {
            // An announced compare-and-set keeps its order among the mutations.
            let connector = if announce.is_some() { &self.writer } else { self.reader(&first.key) };
            self.swap_by_script(connector, swaps, announce).await
        } else if can.transactions {
            let index = XxHash3_64::oneshot(&first.key) as usize % CONNECTIONS;
            let connector = self.watchers[index].lock().await;
            let mut accepted = Vec::with_capacity(swaps.len());
            for swap in swaps {
                accepted.push(self.swap_by_watch(&connector, swap, announce).await?);
            }
            Ok(accepted)
        } else {
            self.swap_unguarded(swaps).await
        }
    }

    async fn swap_by_script(
        &self,
        connector: &Connector,
        swaps: &[CompareAndSet],
        announce: Option<&Announcement>,
    ) -> Result<Vec<bool>, TierError> {
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.compare_and_set.call(&mut pipeline, by_text, swaps.len());
            swaps.iter().for_each(|swap| _ = pipeline.arg(&swap.key));
            match announce {
                Some(Announcement { channel, message }) => pipeline.arg(channel).arg(message),
                None => pipeline.arg("").arg(""),
            };
            for CompareAndSet { expected, action, .. } in swaps {
                pipeline.arg(expected);
                match action {
                    CasAction::Put(bytes, expiry) => {
                        let (option, time) = set_option(*expiry);
                        pipeline.arg(option).arg(bytes).arg(time)
                    }
                    CasAction::Touch(ttl) => pipeline.arg("PEXPIRE").arg("").arg(px(*ttl)),
                    CasAction::Renew(deadline_ms) => {
                        pipeline.arg("PEXPIREAT").arg(&deadline_ms.to_le_bytes()).arg(*deadline_ms)
                    }
                    CasAction::Remove => pipeline.arg("UNLINK").arg("").arg(0),
                };
            }
            pipeline
        };
        let mut answers = self.send_script(connector, build).await?;
        let accepted = array(answers.pop().unwrap_or_default())?;
        accepted.into_iter().map(|accepted| Ok(int(accepted)? == 1)).collect()
    }

    async fn swap_by_watch(
        &self,
        connector: &Connector,
        swap: &CompareAndSet,
        announce: Option<&Announcement>,
    ) -> Result<bool, TierError> {
        let outcome = self.watch_compare_exec(connector, swap, announce).await;
        if outcome.is_err() {
            // The connection may still watch the key.
            connector.reset();
        }
        outcome
    }

    async fn watch_compare_exec(
        &self,
        connector: &Connector,
        CompareAndSet { key, expected, action }: &CompareAndSet,
        announce: Option<&Announcement>,
    ) -> Result<bool, TierError> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("WATCH").arg(key).cmd("GETRANGE").arg(key).arg(0).arg(HEAD_BYTES - 1);
        // EXEC compares only what was watched on the same connection.
        let open = connector.connected(&self.address).await?;
        let mut answers = connector.send_on(&open, &self.address, &pipeline).await?;
        let head = bytes(answers.pop().unwrap_or_default())?.unwrap_or_default();
        checked(answers.pop().unwrap_or_default())?;
        if head != *expected {
            let mut unwatch = Pipeline::with_capacity(1);
            unwatch.cmd("UNWATCH");
            connector.send_on(&open, &self.address, &unwatch).await?;
            return Ok(false);
        }
        let mut pipeline = Pipeline::with_capacity(4);
        pipeline.cmd("MULTI");
        apply(&mut pipeline, key, action);
        if let Some(Announcement { channel, message }) = announce {
            pipeline.cmd("PUBLISH").arg(channel).arg(message);
        }
        pipeline.cmd("EXEC");
        let mut answers = connector.send_on(&open, &self.address, &pipeline).await?;
        match answers.last() {
            Some(Value::Nil) => Ok(false),
            _ => {
                let exec = super::executed(std::mem::take(&mut answers))?;
                exec.into_iter().try_for_each(|answer| checked(answer).map(drop))?;
                Ok(true)
            }
        }
    }

    /// On a server without scripts and transactions nothing is compared in one step. The order of one connection, and locks
    /// of the cache, keep this node's own mutations apart.
    async fn swap_unguarded(&self, swaps: &[CompareAndSet]) -> Result<Vec<bool>, TierError> {
        let mut pipeline = Pipeline::with_capacity(swaps.len());
        let mut accepted = Vec::with_capacity(swaps.len());
        for CompareAndSet { key, expected, action } in swaps {
            let accepts = match action {
                // SETRANGE makes a key that is absent. The bytes of one that is removed just now are no value.
                CasAction::Renew(_) => {
                    let heads = self.do_read_heads(std::slice::from_ref(key), None).await?.heads;
                    heads.first() == Some(expected)
                }
                _ => true,
            };
            if accepts {
                apply(&mut pipeline, key, action);
            }
            accepted.push(accepts);
        }
        if !pipeline.is_empty() {
            let answers = self.writer.send(&self.address, &pipeline).await?;
            answers.into_iter().try_for_each(|answer| checked(answer).map(drop))?;
        }
        Ok(accepted)
    }
}

/// Adds the action of an accepted compare-and-set.
fn apply(pipeline: &mut Pipeline, key: &[u8], action: &CasAction) {
    match action {
        CasAction::Put(bytes, expiry) => {
            let (option, time) = set_option(*expiry);
            pipeline.cmd("SET").arg(key).arg(bytes).arg(option).arg(time)
        }
        CasAction::Touch(ttl) => pipeline.cmd("PEXPIRE").arg(key).arg(px(*ttl)),
        CasAction::Renew(deadline_ms) => {
            pipeline.cmd("SETRANGE").arg(key).arg(DEADLINE_AT).arg(&deadline_ms.to_le_bytes());
            pipeline.cmd("PEXPIREAT").arg(key).arg(*deadline_ms)
        }
        CasAction::Remove => pipeline.cmd("UNLINK").arg(key),
    };
}
