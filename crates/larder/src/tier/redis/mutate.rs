//! Mutations: put, remove, take and increment, and the scan that finds keys to remove.

use super::values::{self, array, bytes, checked, head_of, int, px, set_option};
use super::{RedisTier, ledger};
use crate::tier::{
    Announcement, HEAD_BYTES, KeyContent, Mutation, MutationReply, Operation, OperationResult, TierError,
};
use redis::{Pipeline, Value};
use std::time::Duration;

/// The number of keys in one step of a scan.
const SCAN_STEP: usize = 1_000;

impl RedisTier {
    /// Plain commands, then one `PUBLISH`, in one write on one connection: the server executes them in this order. No
    /// transaction is needed. Whoever hears the announcement before a command took effect, or not at all, has no reply that
    /// says that the mutation is done; and a full server queues no transaction, not even one of removals.
    pub(super) async fn do_mutate(&self, mutation: &Mutation<'_>) -> Result<MutationReply, TierError> {
        let Mutation { operations, announce, .. } = *mutation;
        let ledger = mutation.ledger.as_ref();
        let mut pipeline = Pipeline::with_capacity(2 * operations.len() + 2);
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
        if pipeline.is_empty() {
            return Ok(MutationReply { results: Vec::new(), stamps: None });
        }
        let is_repeatable = operations.iter().all(|operation| matches!(operation, Operation::Remove(_)));
        let answers = match is_repeatable {
            true => self.writer.send_repeatable(&self.address, &pipeline).await?,
            false => self.writer.send(&self.address, &pipeline).await?,
        };
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
        Ok(MutationReply { results, stamps })
    }

    pub(super) async fn do_increment(&self, key: &[u8], by: i64, ttl: Duration) -> Result<i64, TierError> {
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.scripts.increment.call(&mut pipeline, by_text, 1).arg(key).arg(by).arg(px(ttl));
            pipeline
        };
        let sum = self.send_script(&self.writer, build).await?.pop().unwrap_or_default();
        values::text(sum)?.parse().map_err(|_| TierError::Refused("the sum is no integer".into()))
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
