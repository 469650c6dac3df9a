//! The wait for a load, of this caller or of another one, and what is served if it takes too long.

use super::BulkOutcome;
use super::view_state::ViewState;
use crate::key::KeyBuf;
use crate::node::Node;
use crate::node::entry::Validity;
use crate::node::fetched::{Fetched, Source};
use crate::node::lookup::{Candidate, MemoryLookup, Waiter, source_in_memory};
use crate::policy::Policy;
use crate::report::error::FetchError;
use larder_engine::FollowOutcome;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

/// What the loads of one call have in common.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// The policy, which leaves nothing open that the view decides.
    pub(super) policy: Policy,
    /// When the call started. The soft timeout counts from here.
    pub(super) started: Instant,
}

impl Call {
    /// A refresh asks for a value that is newer than all there are, so it waits for that, and has no soft timeout.
    pub(super) fn start(policy: Policy, refresh: bool) -> Self {
        let soft_timeout = policy.soft_timeout.filter(|_| !refresh);
        Call { policy: Policy { soft_timeout, ..policy }, started: Instant::now() }
    }

    /// When the soft timeout is over.
    pub(super) fn soft_end(&self) -> Option<Instant> {
        self.started.checked_add(self.policy.soft_timeout?)
    }
}

/// Whether a value, which a load that began then has delivered, comes from its loader, or is served because that loader failed
/// or was slow. The load may have found the value in a tier instead, also in memory, where a load before it has stored it.
pub(super) fn is_loaded_by<V>(fetched: &Fetched<V>, load_began: Duration) -> bool {
    let state = fetched.state();
    fetched.source() == Source::Stale || (!state.promoted && state.stored_at > load_began)
}

/// Waits for the answer of a load that this caller leads, or serves stale after the soft timeout.
pub(super) async fn answer_or_stale<V, E>(
    view: &ViewState<V>,
    call: &Call,
    key: &KeyBuf,
    candidate: Option<Candidate>,
    mut answer: oneshot::Receiver<BulkOutcome<V, E>>,
) -> BulkOutcome<V, E>
where
    V: Send + Sync + 'static,
{
    if let Some((candidate, soft_end)) = candidate.zip(call.soft_end()) {
        if let Ok(answered) = timeout_at(soft_end, &mut answer).await {
            return answered.unwrap_or(Err(FetchError::Dropped));
        }
        if let Some(stale) = servable(view, &candidate, false) {
            // The load may answer with its stale value at the same moment: whoever is first counts it.
            answer.close();
            return answer.try_recv().unwrap_or_else(|_| {
                view.node().observers.served_stale(&view.redis_key(key));
                Ok(Some(stale))
            });
        }
    }
    answer.await.unwrap_or(Err(FetchError::Dropped))
}

/// What the bulk loader of another caller has returned no value for.
pub(super) struct LeftOut;

/// Waits for another caller's load, since `began`. If its result cannot be served to this caller: `Err` with the next lookup, or
/// `None` to look up memory again.
pub(super) async fn follow<V, E>(
    view: &ViewState<V>,
    call: &Call,
    key: &KeyBuf,
    waiter: Waiter,
    began: Instant,
) -> Result<BulkOutcome<V, E>, Option<MemoryLookup<V>>>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let span = view.wait_span(key);
    await_other(view, call, key, waiter, began).instrument(span).await
}

async fn await_other<V, E>(
    view: &ViewState<V>,
    call: &Call,
    key: &KeyBuf,
    Waiter { mut follower, candidate, since, epoch }: Waiter,
    began: Instant,
) -> Result<BulkOutcome<V, E>, Option<MemoryLookup<V>>>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let node = view.node();
    let counts = &node.observers.counts;
    let mut outcome = None;
    if let Some((candidate, soft_end)) = candidate.as_ref().zip(call.soft_end()) {
        match timeout_at(soft_end, &mut follower).await {
            Ok(ended) => outcome = Some(ended),
            Err(_) => {
                if let Some(fetched) = serve_stale(view, key, candidate) {
                    return Ok(Ok(Some(fetched)));
                }
            }
        }
    }
    let outcome = match (outcome, call.policy.hard_timeout) {
        (Some(outcome), _) => outcome,
        (None, None) => follower.await,
        (None, Some(hard_timeout)) => {
            // The loader may not run yet: its caller may wait for another node first.
            let lease_wait =
                node.redis.as_ref().map_or(Duration::ZERO, |_| view.coordinator.options.lease_wait);
            let ended = match began.checked_add(hard_timeout.saturating_add(lease_wait)) {
                Some(hard_end) => timeout_at(hard_end, &mut follower).await,
                None => Ok(follower.await),
            };
            match ended {
                Ok(outcome) => outcome,
                Err(_) => {
                    let stale = candidate.and_then(|candidate| serve_stale(view, key, &candidate));
                    return Ok(stale.map(Some).ok_or(FetchError::Timeout));
                }
            }
        }
    };
    match outcome {
        FollowOutcome::Lead(ticket) => Err(Some(node.lead(view.memory_key(key), ticket, candidate))),
        FollowOutcome::Value(entry) if node.may_serve_follower(&entry, since, epoch) => {
            let source = source_in_memory(&entry);
            match node.fetched(entry, source, true) {
                Some(fetched) => {
                    counts.coalesced.add(1);
                    Ok(Ok(Some(fetched)))
                }
                None => Err(None),
            }
        }
        FollowOutcome::Value(_) => Err(None),
        FollowOutcome::Failed(failure) if failure.is::<LeftOut>() => Ok(Ok(None)),
        FollowOutcome::Failed(failure) => match failure.downcast_ref::<FetchError<E>>() {
            Some(error) => {
                counts.coalesced.add(1);
                Ok(Err(error.clone()))
            }
            // The load was of a view of the same name with another type of error.
            None => Err(None),
        },
    }
}

/// Whether the candidate of a caller that does not wait any longer may be served: it is within its grace period. One that
/// must be compared with Redis first is served only while Redis is lost.
fn is_servable(node: &Node, candidate: &Candidate) -> bool {
    let state = candidate.entry.state();
    match candidate.needs_revalidation {
        false => state.is_kept(node.now()),
        true => {
            let validity = node.redis_is_lost().then(|| node.judge_without_redis(state));
            matches!(validity, Some(Validity::Valid | Validity::Stale))
        }
    }
}

/// The candidate of a caller that does not wait any longer, if it may be served.
pub(super) fn servable<V: Send + Sync + 'static>(
    view: &ViewState<V>,
    candidate: &Candidate,
    coalesced: bool,
) -> Option<Fetched<V>> {
    let node = view.node();
    let entry = is_servable(node, candidate).then(|| candidate.entry.clone())?;
    node.fetched(entry, Source::Stale, coalesced)
}

/// Serves the candidate of a follower that does not wait any longer, if it may be served.
fn serve_stale<V: Send + Sync + 'static>(
    view: &ViewState<V>,
    key: &KeyBuf,
    candidate: &Candidate,
) -> Option<Fetched<V>> {
    let stale = servable(view, candidate, true)?;
    view.node().observers.served_stale(&view.redis_key(key));
    Some(stale)
}
