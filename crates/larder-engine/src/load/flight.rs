//! One load under way: its state, and the followers that wait for its end.

use super::{Failure, Leader};
use crate::fork::Process;
use crate::sync::{AtomicBool, Mutex, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// One load under way, shared by its leader, its followers and its shard.
#[derive(Debug)]
pub(crate) struct Flight<V> {
    state: Mutex<State<V>>,
    /// When it began, on the cache's clock.
    pub(super) began: Duration,
    /// What its leader lets others do meanwhile.
    pub(super) leader: Leader,
    /// The process that its leader is in.
    process: Process,
    /// Whether anyone has followed it. Read and written while the shard is locked.
    followed: AtomicBool,
}

/// Wakers are user code: none is cloned, called or dropped while this is locked.
#[derive(Debug)]
pub(super) enum State<V> {
    Pending(Wakers),
    Loaded(V),
    Failed(Failure),
    Abandoned,
}

/// The wakers of the followers, each at the index of its follower.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    wakers: Vec<Option<Waker>>,
    /// The indices of followers that have left: those that come and go during a long load must not accumulate.
    free: Vec<usize>,
}

impl Wakers {
    fn get(&self, index: usize) -> Option<&Waker> {
        self.wakers[index].as_ref()
    }

    /// An index for another follower.
    fn join(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.wakers.push(None);
            self.wakers.len() - 1
        })
    }

    fn replace(&mut self, index: usize, waker: Waker) -> Option<Waker> {
        self.wakers[index].replace(waker)
    }

    fn leave(&mut self, index: usize) -> Option<Waker> {
        self.free.push(index);
        self.wakers[index].take()
    }
}

/// The outcome of a flight for a follower.
pub(super) enum FlightOutcome<V> {
    Value(V),
    Failed(Failure),
    Abandoned,
}

impl<V> Flight<V> {
    pub(super) fn new(began: Duration, leader: Leader) -> Self {
        Flight {
            state: Mutex::new(State::Pending(Wakers::default())),
            began,
            leader,
            process: Process::current(),
            followed: AtomicBool::new(false),
        }
    }

    /// Whether a caller that leads so takes the place of its leader.
    pub(super) fn gives_way_to(&self, next: Leader) -> bool {
        self.leader == Leader::GivesWay && next != Leader::GivesWay
    }

    /// Whether it was under way when this process was forked. Its leader does not exist here, and may have held its lock.
    pub(super) fn is_inherited(&self) -> bool {
        self.process.has_forked()
    }

    /// Someone follows it now.
    pub(super) fn set_followed(&self) {
        self.followed.store(true, Ordering::Relaxed);
    }

    /// Whether anyone waits for its outcome, or did.
    pub(super) fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    /// Whether it has not ended.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(*self.state.lock(), State::Pending(_))
    }

    /// Ends the flight, if it has not ended yet, and returns the followers to wake after the shard is unlocked.
    pub(super) fn end(&self, outcome: State<V>) -> Waiters {
        let mut state = self.state.lock();
        match &mut *state {
            State::Pending(wakers) => {
                let waiting = Waiters(std::mem::take(&mut wakers.wakers));
                *state = outcome;
                waiting
            }
            _ => Waiters(Vec::new()),
        }
    }

    /// Removes a follower from those that wait.
    pub(super) fn leave(&self, index: usize) {
        // Declared before the guard, so that it is dropped after the unlock.
        let _waker;
        if let State::Pending(wakers) = &mut *self.state.lock() {
            _waker = wakers.leave(index);
        }
    }
}

impl<V: Clone> Flight<V> {
    /// The outcome, or registers the waker of `context` at the follower's index, which the first call assigns.
    pub(super) fn poll(&self, index: &mut Option<usize>, context: &Context<'_>) -> Poll<FlightOutcome<V>> {
        match &*self.state.lock() {
            State::Pending(wakers) => {
                let registered = index.and_then(|index| wakers.get(index));
                if registered.is_some_and(|waker| waker.will_wake(context.waker())) {
                    return Poll::Pending;
                }
            }
            ended => return ended.outcome(),
        }
        // Both are declared before the guard, so that they are dropped after the unlock.
        let waker = context.waker().clone();
        let _former;
        let mut state = self.state.lock();
        let State::Pending(wakers) = &mut *state else { return state.outcome() };
        let index = *index.get_or_insert_with(|| wakers.join());
        _former = wakers.replace(index, waker);
        Poll::Pending
    }
}

impl<V: Clone> State<V> {
    fn outcome(&self) -> Poll<FlightOutcome<V>> {
        Poll::Ready(match self {
            State::Pending(_) => return Poll::Pending,
            State::Loaded(value) => FlightOutcome::Value(value.clone()),
            State::Failed(why) => FlightOutcome::Failed(why.clone()),
            State::Abandoned => FlightOutcome::Abandoned,
        })
    }
}

/// The followers of a flight that has just ended.
#[must_use = "followers wait until they are woken"]
pub(super) struct Waiters(Vec<Option<Waker>>);

impl Waiters {
    /// Wakes all. If wakers panic, the first panic continues after that, unless this thread panics already.
    pub(super) fn wake(self) {
        let mut panicked = None;
        for waker in self.0.into_iter().flatten() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                panicked.get_or_insert(panic);
            }
        }
        if let Some(panic) = panicked.filter(|_| !std::thread::panicking()) {
            resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_that_overlap_do_not_accumulate() {
        let flight: Flight<u8> = Flight::new(Duration::ZERO, Leader::Async);
        let context = Context::from_waker(Waker::noop());
        let join = || {
            let mut index = None;
            assert!(flight.poll(&mut index, &context).is_pending());
            index.expect("it waits")
        };
        let mut last = join();
        for _ in 0..1000 {
            let next = join();
            flight.leave(last);
            last = next;
        }
        let State::Pending(wakers) = &*flight.state.lock() else { panic!("it has not ended") };
        assert_eq!((wakers.wakers.len(), wakers.free.len()), (2, 1));
    }
}
