//! Mutations: put, remove, take and increment, and the scan that finds keys to remove.

use super::values::{self, array, bytes, checked, head_of, int, px, set_option};
use super::{RedisTier, executed, ledger};
use crate::tier::{
    Announcement, HEAD_BYTES, KeyContent, Operation, OperationResult, TierError, Transaction,
    TransactionReply,
};
use redis::{Pipeline, Value};
use std::time::Duration;

/// The number of keys in one step of a scan.
const SCAN_STEP: usize = 1_000;

impl RedisTier {
    pub(super) async fn do_transact(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<TransactionReply, TierError> {
        let reply = self.transact(transaction).await;
        match &reply {
            Err(TierError::Refused(reason)) if reason.contains("OOM") => {
                // A full server queues no transaction, not even one of removals.
                let removals = transaction.operations.iter().map(|operation| match operation {
                    Operation::Remove(key) => Some(&key[..]),
                    Operation::Take(_) | Operation::Put(..) => None,
                });
                match removals.collect::<Option<Vec<_>>>() {
                    Some(keys) => {
                        let results = self.remove_by_script(&keys, transaction.announce).await?;
                        Ok(TransactionReply { results, stamps: None })
                    }
                    None => reply,
                }
            }
            _ => reply,
        }
    }

    async fn remove_by_script(
        &self,
        keys: &[&[u8]],
        announce: Option<&Announcement>,
    ) -> Result<Vec<OperationResult>, TierError> {
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.remove.call(&mut pipeline, by_text, keys.len());
            keys.iter().for_each(|key| _ = pipeline.arg(key));
            if let Some(Announcement { channel, message }) = announce {
                pipeline.arg(channel).arg(message);
            }
            pipeline
        };
        let fields = array(self.send_script(&self.writer, build).await?.pop().unwrap_or_default())?;
        let mut fields = fields.into_iter();
        let mut next = || fields.next().unwrap_or_default();
        keys.iter().map(|_| removed(next(), next())).collect()
    }

    async fn transact(&self, transaction: &Transaction<'_>) -> Result<TransactionReply, TierError> {
        let Transaction { operations, announce, .. } = *transaction;
        let ledger = transaction.ledger.as_ref();
        let mut pipeline = Pipeline::with_capacity(2 * operations.len() + 4);
        // An announcement alone needs none, and a full server queues nothing.
        let in_transaction = !operations.is_empty();
        if in_transaction {
            pipeline.cmd("MULTI");
        }
        for operation in operations {
            match operation {
                Operation::Remove(key) => {
                    pipeline.cmd("GETRANGE").arg(key).arg(0).arg(HEAD_BYTES - 1);
                    pipeline.cmd("UNLINK").arg(key);
                }
                Operation::Take(key) => _ = pipeline.cmd("GETDEL").arg(key),
                Operation::Put(key, bytes, expiry) => {
                    let (option, time) = set_option(*expiry);
                    pipeline.cmd("SET").arg(key).arg(bytes).arg(option).arg(time);
                }
            }
        }
        ledger.inspect(|query| ledger::read(&mut pipeline, query));
        if let Some(Announcement { channel, message }) = announce {
            pipeline.cmd("PUBLISH").arg(channel).arg(message);
        }
        if in_transaction {
            pipeline.cmd("EXEC");
        }
        if pipeline.is_empty() {
            return Ok(TransactionReply { results: Vec::new(), stamps: None });
        }
        let is_repeatable = operations.iter().all(|operation| matches!(operation, Operation::Remove(_)));
        let mut answers = match is_repeatable {
            true => self.writer.send_repeatable(&self.address, &pipeline).await?,
            false => self.writer.send(&self.address, &pipeline).await?,
        };
        if in_transaction {
            answers = executed(answers)?;
        }
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let mut results = Vec::with_capacity(operations.len());
        for operation in operations {
            results.push(match operation {
                Operation::Remove(_) => removed(next(), next())?,
                Operation::Take(_) => {
                    OperationResult::Taken(bytes(next())?.map_or(KeyContent::Absent, KeyContent::Bytes))
                }
                Operation::Put(..) => {
                    checked(next())?;
                    OperationResult::Stored
                }
            });
        }
        let stamps = match ledger {
            Some(query) => Some(self.parse_stamps(&self.writer, query, next()).await?),
            None => None,
        };
        if announce.is_some() {
            int(next())?;
        }
        Ok(TransactionReply { results, stamps })
    }

    pub(super) async fn do_increment(&self, key: &[u8], by: i64, ttl: Duration) -> Result<i64, TierError> {
        let mut pipeline = Pipeline::with_capacity(4);
        pipeline.cmd("MULTI").cmd("SET").arg(key).arg(0).arg("NX").arg("PX").arg(px(ttl));
        pipeline.cmd("INCRBY").arg(key).arg(by).cmd("EXEC");
        let mut answers = executed(self.writer.send(&self.address, &pipeline).await?)?;
        int(answers.pop().unwrap_or_default())
    }

    pub(super) async fn do_scan(&self, cursor: u64, glob: &[u8]) -> Result<(u64, Vec<Vec<u8>>), TierError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(SCAN_STEP);
        let mut answers = self.writer.send_repeatable(&self.address, &pipeline).await?;
        let mut fields = array(answers.pop().unwrap_or_default())?.into_iter();
        let cursor = values::text(fields.next().unwrap_or_default())?;
        let keys = array(fields.next().unwrap_or_default())?.into_iter();
        let keys = keys.map(|key| Ok(bytes(key)?.unwrap_or_default())).collect::<Result<_, TierError>>()?;
        let cursor = cursor
            .parse()
            .map_err(|_| TierError::Refused(format!("cursor is {cursor:?}; it must be an integer")))?;
        Ok((cursor, keys))
    }
}

/// The result of a removal from the replies to GETRANGE and UNLINK.
fn removed(head: Value, removed: Value) -> Result<OperationResult, TierError> {
    // UNLINK removes content of every type.
    let head = head_of(head)?;
    Ok(OperationResult::Removed((int(removed)? > 0).then_some(head)))
}
