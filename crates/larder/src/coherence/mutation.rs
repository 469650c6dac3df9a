//! Writes and invalidations: at once in memory, then in Redis together with the announcement. An invalidation that
//! Redis does not confirm is queued.
//!
//! ```text
//! void tickets, drop memory ─► [UNLINK k | SET k v] PUBLISH ─► void and drop again ─► Ok
//!                                                │ no reply, or refused
//!                                                └─► queue, block Redis for the key ─► void and drop again ─► Err
//! ```
//! Before: a load that ends now must not store its value. After: neither must a lookup that read the old value from
//! Redis in between. Each mutation runs in a task of its own, so a dropped caller does not leave half of it.

use super::lease::is_lease;
use super::replay_log::Invalidated;
use super::{Coordinator, announcement};
use crate::key::MemoryKey;
use crate::node::Node;
use crate::node::ledger::{Invalidation, MutationSeq, member};
use crate::report::error::CacheError;
use crate::report::events::Event;
use crate::report::reach::Reach;
use crate::tier::{
    BATCH, CasAction, CompareAndSet, HEAD_BYTES, KeyContent, Lookup, Mutation, Operation, OperationResult,
};
use crate::value::envelope::{self, value_id};
use std::sync::Arc;
use tracing::Instrument;

/// Runs a mutation in a task of its own. If its runtime shuts down, the error says that nothing is known to be done: the
/// task may not have queued it.
pub(crate) async fn spawn_mutation<T: Send + 'static>(
    node: &Node,
    mutation: impl Future<Output = Result<T, CacheError>> + Send + 'static,
) -> Result<T, CacheError> {
    node.check_open()?;
    let done = node.tasks.run(mutation.instrument(tracing::debug_span!("larder.mutation"))).await;
    done.unwrap_or_else(|| Err(CacheError::Redis("the runtime shut down".into())))
}

impl Coordinator {
    /// Removes or takes keys in Redis and announces it. Without Redis there are no results.
    pub(crate) async fn remove(
        self: &Arc<Self>,
        operations: Vec<Operation>,
    ) -> Result<Vec<OperationResult>, CacheError> {
        let Some(redis) = &self.node.redis else { return Ok(Vec::new()) };
        self.ensure_connected().await;
        let _shared = self.mutation_gate.read().await;
        let seq = self.replay_log.next_seq();
        let redis_keys = || operations.iter().map(Operation::key);
        let announcement = announcement::keys(&self.node.keyspace.channel, self.origin, redis_keys());
        let mutation = Mutation { operations: &operations, ledger: None, announce: Some(&announcement) };
        let results = redis.call(redis.tier.mutate(&mutation)).await.map(|reply| reply.results);
        let results = self.record_outcome(redis_keys().map(Invalidated::key), seq, results);
        // A lookup may have read the old value from Redis in between.
        redis_keys().for_each(|key| self.node.invalidate_memory_of(key));
        results
    }

    /// Puts values into Redis and announces it. Returns for each whether it is the last one there, as far as this node knows.
    ///
    /// Another node may have invalidated a tag of the values just before, and the announcement may not have arrived:
    /// the values would count as older. So the same request also reads the ledger. If a stamp in the reply is newer
    /// than `clock`, the values are sealed once more, with the clock of the reply, in the place of those that were put. What
    /// has taken that place meanwhile stays: it may have been made from the value. But what was made in place of a value that was
    /// no longer valid, as its id tells, comes before this one.
    pub(crate) async fn put(
        &self,
        operations: Vec<Operation>,
        members: &[Vec<u8>],
        clock: u64,
        seal_again: impl FnOnce(u64) -> Result<Vec<Operation>, CacheError>,
    ) -> Result<Vec<bool>, CacheError> {
        let node = &self.node;
        let all_stay = vec![true; operations.len()];
        let Some(redis) = &node.redis else { return Ok(all_stay) };
        let _shared = self.mutation_gate.read().await;
        let seq = self.replay_log.next_seq();
        let keys = || operations.iter().map(Operation::key);
        let announcement = announcement::keys(&node.keyspace.channel, self.origin, keys());
        let ledger = Some(node.ledger_query(members));
        let mutation = Mutation { operations: &operations, ledger, announce: Some(&announcement) };
        let gaps = node.ledger.gaps();
        let put = async {
            let Some(stamps) = redis.call(redis.tier.mutate(&mutation)).await?.stamps else {
                return Ok(all_stay);
            };
            node.ledger.learn(members, &stamps, gaps);
            let newest = stamps.newest(members);
            if newest <= clock {
                return Ok(all_stay);
            }
            let replaced = operations.iter().zip(seal_again(stamps.clock)?);
            let requests: Vec<_> = replaced.map(|(before, after)| in_place_of(before, after)).collect();
            // Not announced again: who has read what was put has the same value.
            let mut stays = redis.call(redis.tier.compare_and_set(&requests, None)).await?;
            if stays.contains(&false) {
                self.put_over_what_did_not_see_it(requests, &mut stays).await?;
            }
            Ok(stays)
        };
        let stays = put.await;
        self.record_outcome(keys().map(Invalidated::key), seq, stays)
    }

    /// Does the requests that were refused where the key has a value that took the place of the expected one, and was not made
    /// from it. They are announced: other nodes may have that value in memory.
    async fn put_over_what_did_not_see_it(
        &self,
        requests: Vec<CompareAndSet>,
        stays: &mut [bool],
    ) -> Result<(), CacheError> {
        let Some(redis) = &self.node.redis else { return Ok(()) };
        let refused: Vec<_> = requests.into_iter().zip(stays).filter(|(_, stays)| !**stays).collect();
        let keys: Vec<_> = refused.iter().map(|(request, _)| request.key.clone()).collect();
        let lookup = Lookup { keys: &keys, lease: None, ledger: None };
        let found = redis.call(redis.tier.lookup(&lookup)).await?.keys;
        for ((request, stays), content) in refused.into_iter().zip(found) {
            let KeyContent::Bytes(bytes) = content else { continue };
            let ids = value_id(&bytes).zip(value_id(&request.expected));
            if ids.is_some_and(|(found, put)| found.is_in_place_of(put)) {
                let announcement =
                    announcement::keys(&self.node.keyspace.channel, self.origin, [&request.key[..]]);
                let request = CompareAndSet { expected: bytes[..HEAD_BYTES].to_vec(), ..request };
                let accepted =
                    redis.call(redis.tier.compare_and_set(&[request], Some(&announcement))).await?;
                *stays = accepted.first() == Some(&true);
            }
        }
        Ok(())
    }

    /// A compare-and-set that is announced. Returns whether it was accepted.
    pub(crate) async fn compare_and_set(
        &self,
        request: CompareAndSet,
        seq: MutationSeq,
    ) -> Result<bool, CacheError> {
        let Some(redis) = &self.node.redis else { return Err(CacheError::NoRedis) };
        let _shared = self.mutation_gate.read().await;
        let key = request.key.clone();
        let announcement = announcement::keys(&self.node.keyspace.channel, self.origin, [&key[..]]);
        let accepted = redis.call(redis.tier.compare_and_set(&[request], Some(&announcement))).await;
        let accepted = self.record_outcome([Invalidated::Key(key)], seq, accepted);
        Ok(accepted?.first() == Some(&true))
    }

    /// Records in the replay log whether Redis confirmed a mutation. It did not if the server is another one since. For a
    /// server that is not supported nothing is queued.
    pub(crate) fn record_outcome<T>(
        &self,
        targets: impl IntoIterator<Item = Invalidated>,
        seq: MutationSeq,
        outcome: Result<T, CacheError>,
    ) -> Result<T, CacheError> {
        let (error, queued) = match outcome {
            Ok(done) => match self.replay_log.confirm(targets, seq) {
                None => return Ok(done),
                Some(queued) => {
                    (CacheError::Redis("another server answers since the request was sent".into()), queued)
                }
            },
            Err(error @ CacheError::Unsupported(_)) => return Err(error),
            Err(error) => (error, self.replay_log.queue(targets)),
        };
        self.apply_overflow(queued);
        self.node.observers.emit(|| Event::Queued { invalidations: queued.invalidations });
        Err(error)
    }

    /// Removes keys from both tiers. Returns for each whether either had a value, and the error if Redis did not confirm.
    pub(crate) async fn delete_keys(
        self: &Arc<Self>,
        keys: Vec<(MemoryKey, Vec<u8>)>,
    ) -> (Vec<bool>, Result<(), CacheError>) {
        let now = self.node.now();
        let mut existed = Vec::with_capacity(keys.len());
        for (key, _) in &keys {
            let removed = self.node.memory.remove(key);
            existed.push(removed.is_some_and(|entry| !entry.state().is_dead() && entry.state().is_kept(now)));
        }
        let mut failed = None;
        let redis_keys: Vec<Vec<u8>> = keys.into_iter().map(|(_, redis_key)| redis_key).collect();
        for (batch, existed) in redis_keys.chunks(BATCH).zip(existed.chunks_mut(BATCH)) {
            let removals = batch.iter().cloned().map(Operation::Remove).collect();
            match self.remove(removals).await {
                Ok(results) => {
                    for (existed, result) in existed.iter_mut().zip(results) {
                        *existed |= removed_value(&result);
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        (existed, failed.map_or(Ok(()), Err))
    }

    /// Invalidates the entries with these tags, in a task of its own.
    pub(crate) async fn invalidate_tags(
        self: &Arc<Self>,
        tags: Vec<Box<str>>,
        how: Invalidation,
    ) -> Result<Reach, CacheError> {
        let tags = checked_tags(tags)?;
        let coordinator = self.clone();
        let confirmed =
            spawn_mutation(&self.node, async move { Ok(coordinator.invalidate(Some(tags), how).await) })
                .await?;
        self.reach(confirmed)
    }

    /// Invalidates the entries with these tags: on this node before it returns, elsewhere in a task of its own.
    pub(crate) fn spawn_invalidation(
        self: &Arc<Self>,
        tags: Vec<Box<str>>,
        how: Invalidation,
    ) -> Result<(), CacheError> {
        self.node.check_open()?;
        let tags = checked_tags(tags)?;
        // First: what has started must be finished.
        let runtime = self.node.tasks.runtime();
        let (coordinator, started) = (self.clone(), self.start_invalidation(Some(&tags), how));
        runtime.spawn(async move {
            let confirmed = coordinator.finish_invalidation(started).await;
            // The reach is told to nobody; an error is reported.
            if let Err(error) = coordinator.reach(confirmed) {
                coordinator.node.observers.report(&error);
            }
        });
        Ok(())
    }

    /// The reach of a mutation that is queued if Redis did not confirm it.
    pub(crate) fn reach(&self, confirmed: Result<(), CacheError>) -> Result<Reach, CacheError> {
        Reach::of(confirmed, |error| self.node.observers.report(error))
    }

    /// Invalidates the entries with these tags, or all entries.
    pub(crate) async fn invalidate(
        self: &Arc<Self>,
        tags: Option<Vec<Box<str>>>,
        how: Invalidation,
    ) -> Result<(), CacheError> {
        let started = self.start_invalidation(tags.as_deref(), how);
        self.finish_invalidation(started).await
    }

    /// Puts an invalidation into effect on this node. Until it is finished, no entry from Redis with one of the tags is
    /// served.
    fn start_invalidation(&self, tags: Option<&[Box<str>]>, how: Invalidation) -> StartedInvalidation {
        let node = &self.node;
        let members = match tags {
            None => vec![member(None, how)],
            Some(tags) => tags.iter().map(|tag| member(Some(tag), how)).collect(),
        };
        let (seq, gaps) = (self.replay_log.next_seq(), node.ledger.gaps());
        if !members.is_empty() {
            node.ledger.start(&members, seq);
            node.purge_memory(&members);
        }
        StartedInvalidation { members, seq, gaps }
    }

    async fn finish_invalidation(
        self: &Arc<Self>,
        StartedInvalidation { members, seq, gaps }: StartedInvalidation,
    ) -> Result<(), CacheError> {
        let node = &self.node;
        if members.is_empty() {
            return Ok(());
        }
        let Some(redis) = &node.redis else {
            node.ledger.confirm(&members, 0, seq, gaps);
            return Ok(());
        };
        self.ensure_connected().await;
        let _shared = self.mutation_gate.read().await;
        let announcement = announcement::stamps(&node.keyspace.channel, self.origin, &members);
        let advance = self.ledger_advance(&members);
        let request = advance.announced_by(&announcement);
        let advanced = redis.call(redis.tier.advance_ledger(&request)).await;
        let targets: Vec<_> = members.iter().cloned().map(Invalidated::Member).collect();
        match &advanced {
            Ok(advanced) => {
                self.on_advanced(&request, *advanced);
                node.ledger.confirm(&members, advanced.clock, seq, gaps);
            }
            Err(CacheError::Unsupported(_)) => {
                // Nothing waits for Redis but what an earlier call has queued.
                let ended = members.iter().filter(|member| !self.replay_log.has_pending_member(member));
                node.ledger.confirm(&ended.cloned().collect::<Vec<_>>(), 0, seq, gaps);
            }
            Err(_) => {}
        }
        let advanced = self.record_outcome(targets.iter().cloned(), seq, advanced);
        if advanced.as_ref().is_err_and(|error| !matches!(error, CacheError::Unsupported(_))) {
            self.apply_locally(&targets, self.replay_log.next_seq());
        }
        node.purge_memory(&members);
        advanced.map(drop)
    }
}

/// The second operation, if the key still has what the first one has put there.
fn in_place_of(before: &Operation, after: Operation) -> CompareAndSet {
    let (key, put) = match after {
        Operation::Put(key, bytes, expiry) => (key, Some((bytes, expiry))),
        Operation::Remove(key) | Operation::Take(key) => (key, None),
    };
    let expected = match before {
        Operation::Put(_, bytes, _) => bytes[..bytes.len().min(HEAD_BYTES)].to_vec(),
        Operation::Remove(_) | Operation::Take(_) => Vec::new(),
    };
    CompareAndSet { key, expected, action: CasAction::put_or_remove(put) }
}

/// The tags of an invalidation, each once as those of a value.
fn checked_tags(mut tags: Vec<Box<str>>) -> Result<Vec<Box<str>>, CacheError> {
    tags.sort_unstable();
    tags.dedup();
    envelope::check_tags(&tags).map_err(CacheError::Encode)?;
    Ok(tags)
}

/// An invalidation that is in effect on this node and must reach Redis.
struct StartedInvalidation {
    members: Vec<Vec<u8>>,
    seq: MutationSeq,
    /// Those of the ledger at the start.
    gaps: u64,
}

pub(super) fn removed_value(result: &OperationResult) -> bool {
    matches!(result, OperationResult::Removed(Some(head)) if !is_lease(head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::node_with_clock;
    use larder_engine::Clock;
    use std::future::pending;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn mutation_whose_runtime_shuts_down_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut context = Context::from_waker(Waker::noop());
        let node = node_with_clock(Clock::monotonic());
        let mut mutation = pin!(spawn_mutation(&node, pending::<Result<(), CacheError>>()));
        {
            let _entered = runtime.enter();
            assert!(mutation.as_mut().poll(&mut context).is_pending());
        }
        drop(runtime);
        let ended = mutation.as_mut().poll(&mut context);
        assert!(matches!(ended, Poll::Ready(Err(CacheError::Redis(_)))), "{ended:?}");
    }
}
