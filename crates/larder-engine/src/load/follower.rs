//! The followers' side of a load.

use super::flight::{Flight, FlightOutcome};
use super::{FollowOutcome, Leader, Load};
use crate::cache::Cache;
use crate::sync::{park_timeout, thread};
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// A caller that waits for the load of another. A future; cancel safe: dropping it leaves the list of waiters.
#[derive(Debug)]
#[must_use = "a follower waits only when it is polled"]
pub struct Follower<K: Hash + Eq, V> {
    pub(super) cache: Cache<K, V>,
    pub(super) key: K,
    pub(super) flight: Arc<Flight<V>>,
    /// The index among those that wait for the flight.
    pub(super) waiting_as: Option<usize>,
}

impl<K: Hash + Eq, V> Follower<K, V> {
    /// The time at which the load began, on the cache's clock.
    pub fn began(&self) -> Duration {
        self.flight.began
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Follower<K, V> {
    /// Leads a load beside the load that this caller has waited for, if that is still under way and no other caller has
    /// overtaken it. Callers follow the new load from then on. The older load may still commit until the new one has. If
    /// the new load stores nothing, callers follow the older one again.
    ///
    /// Cost: as a miss of [`Cache::load`].
    pub fn overtake(self, leader: Leader) -> Load<K, V> {
        self.cache.overtake(&self.key, &self.flight, leader)
    }

    /// Blocks the thread until the load has ended. Only for loads that do not need this thread to make progress.
    ///
    /// A ticket that is never settled nor dropped holds the caller for ever: see [`Follower::wait_timeout`].
    pub fn wait(mut self) -> FollowOutcome<K, V> {
        block_on(None, |context| Pin::new(&mut self).poll(context)).expect("it waits without a limit")
    }

    /// As [`Follower::wait`], at most for `limit` of real time.
    ///
    /// # Errors
    /// The follower, if the load has not ended by then: the caller may wait again, or load for itself.
    pub fn wait_timeout(mut self, limit: Duration) -> Result<FollowOutcome<K, V>, Self> {
        block_on(Some(limit), |context| Pin::new(&mut self).poll(context)).ok_or(self)
    }

    /// Blocks the thread until this flight has ended, at most for `limit`.
    pub(super) fn wait_for_flight(&mut self, limit: Option<Duration>) -> Option<FlightOutcome<V>> {
        block_on(limit, |context| self.flight.poll(&mut self.waiting_as, context))
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Future for Follower<K, V> {
    type Output = FollowOutcome<K, V>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<FollowOutcome<K, V>> {
        let this = self.get_mut();
        loop {
            match this.flight.poll(&mut this.waiting_as, context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(FlightOutcome::Value(value)) => return Poll::Ready(FollowOutcome::Value(value)),
                Poll::Ready(FlightOutcome::Failed(why)) => return Poll::Ready(FollowOutcome::Failed(why)),
                Poll::Ready(FlightOutcome::Abandoned) => {}
            }
            // The leader gave up: the first follower that looks leads, the others follow it. They have missed already.
            match this.cache.load_after_miss(&this.key) {
                Load::Hit(value) => return Poll::Ready(FollowOutcome::Value(value)),
                Load::Lead(ticket) => return Poll::Ready(FollowOutcome::Lead(ticket)),
                Load::Follow(mut next) => {
                    this.flight = std::mem::replace(&mut next.flight, this.flight.clone());
                    this.waiting_as = None;
                }
            }
        }
    }
}

impl<K, V> Unpin for Follower<K, V> where K: Hash + Eq {}

impl<K: Hash + Eq, V> Drop for Follower<K, V> {
    fn drop(&mut self) {
        if let Some(index) = self.waiting_as {
            self.flight.leave(index);
        }
    }
}

/// Polls on this thread until the result is ready; `None` if that takes longer than `limit`.
fn block_on<T>(limit: Option<Duration>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        if let Poll::Ready(answer) = poll(&mut context) {
            return Some(answer);
        }
        match end.map(|end| end.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => park_timeout(left),
        }
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
