//! Mutations: put, remove, take and increment.

use super::server::{Lane, Sent};
use super::values::{self, bytes, checked, head_of, int, px, set_option};
use super::{RedisTier, ledger};
use crate::tier::{HEAD_BYTES, KeyContent, Mutation, MutationReply, Operation, OperationResult, TierError};
use redis::{Pipeline, Value};
use std::time::Duration;

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
        let is_repeatable = operations.iter().all(|operation| matches!(operation, Operation::Remove(_)));
        let sent = if is_repeatable { Sent::Repeatably } else { Sent::Once };
        let key = operations.first().map(Operation::key).or(ledger.map(|query| query.key));
        let lane = Lane::Write(key.unwrap_or_default());
        let answers = match announce {
            Some(announcement) => self.servers.send_announced(lane, sent, pipeline, announcement).await?,
            None if pipeline.is_empty() => Vec::new(),
            None => self.servers.send(lane, sent, &pipeline).await?,
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
            Some(query) => Some(self.parse_stamps(lane, query, next()).await?),
            None => None,
        };
        Ok(MutationReply { results, stamps })
    }

    pub(super) async fn do_increment(&self, key: &[u8], by: i64, ttl: Duration) -> Result<i64, TierError> {
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.scripts.increment.call(&mut pipeline, by_text, 1).arg(key).arg(by).arg(px(ttl));
            pipeline
        };
        let sum = self.servers.send_script(Lane::Write(key), build).await?.pop().unwrap_or_default();
        values::text(sum)?.parse().map_err(|_| TierError::Refused("the sum is no integer".into()))
    }
}

/// The result of a removal from the replies to GETRANGE and UNLINK.
fn removed(head: Value, removed: Value) -> Result<OperationResult, TierError> {
    // UNLINK removes content of every type.
    let head = head_of(head)?;
    Ok(OperationResult::Removed((int(removed)? > 0).then_some(head)))
}
