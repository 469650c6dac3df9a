//! Connections that wait for members of keys: who waits for which keys, in the order of arrival, and which of these keys may have
//! members now.
//!
//! ```text
//! BLPOP, no member ──► registered under the locks of its keys ──► sleeps
//! write ─────────────► `note_change` under the lock of the key ──► ready, of this thread
//! end of the command ► takes members for those who wait, under the same locks ──► wakes their connections
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use larder_engine::raw::Key;
use parking_lot::Mutex;

use crate::client::Client;
use crate::spec::CommandSpec;
use crate::users::Denied;
use crate::values::list::End;
use crate::values::stream::Id;

/// A key in one space.
pub(crate) type ReadyKey = (u8, Box<[u8]>);

thread_local! {
    /// Keys with waiting connections that the command of this thread has changed.
    static READY: RefCell<VecDeque<ReadyKey>> = const { RefCell::new(VecDeque::new()) };
    static HAS_READY: Cell<bool> = const { Cell::new(false) };
}

/// What a connection waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wait {
    Pop(Pop),
    Read(Read),
}

/// Entries of streams, which stay there.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// For each key the id behind which they are.
    pub(crate) after: Vec<Id>,
    /// The most of them.
    pub(crate) most: Option<usize>,
}

/// Members that are taken.
#[derive(Clone, Debug)]
pub(crate) enum Pop {
    /// Elements of a list; one, and no array, without a count.
    Elements { end: End, count: Option<usize> },
    /// Members of a sorted set.
    Members { takes_last: bool, count: Option<usize> },
    /// One element of a list, which goes to another one.
    Move { from: End, to: End, target: Box<[u8]> },
}

impl Pop {
    /// Whether it takes members of lists. Others take those of sorted sets.
    fn is_of_list(&self) -> bool {
        !matches!(self, Pop::Members { .. })
    }
}

/// What was taken for a connection.
#[derive(Debug)]
pub(crate) enum Popped {
    Elements {
        name: Box<[u8]>,
        elements: Vec<Box<[u8]>>,
    },
    Members {
        name: Box<[u8]>,
        members: Vec<(Box<[u8]>, f64)>,
    },
    Moved(Box<[u8]>),
    /// The key to which the element would have gone has another type.
    WrongType,
    /// There is no memory for it there.
    OutOfMemory,
}

/// How a wait has ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Popped(Popped),
    /// There are entries of this stream: an array, encoded for the reply.
    Read {
        name: Box<[u8]>,
        entries: Arc<[u8]>,
    },
    /// The entries are too many for a reply.
    TooLarge,
    /// The user has lost the right to it while the connection waited.
    Denied(Denied),
    /// Its time is over.
    TimedOut,
    /// Another connection has ended it, with an error.
    Unblocked,
}

/// A connection that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) client: Arc<Client>,
    pub(crate) wait: Wait,
    pub(crate) command: Option<&'static CommandSpec>,
    space: u8,
    pub(crate) names: Vec<Box<[u8]>>,
    /// Those who wait are served in the order of their numbers.
    number: u64,
    /// `None` while it waits.
    outcome: Mutex<Option<Outcome>>,
    /// The same for those who hold the lock of the table, and must not wait for another one.
    is_waiting: AtomicBool,
}

impl Waiter {
    /// Ends the wait by what `take` returns, unless it has ended. Returns whether it returned something.
    pub(crate) fn serve(&self, take: impl FnOnce() -> Option<Outcome>) -> bool {
        let mut outcome = self.outcome.lock();
        if outcome.is_none() {
            *outcome = take();
            self.is_waiting.store(outcome.is_none(), Ordering::Release);
            return outcome.is_some();
        }
        false
    }

    /// Ends the wait without members, unless it has ended. Returns whether it did.
    pub(super) fn end(&self, reason: Outcome) -> bool {
        let mut outcome = self.outcome.lock();
        let is_waiting = outcome.is_none();
        outcome.get_or_insert(reason);
        self.is_waiting.store(false, Ordering::Release);
        is_waiting
    }

    /// The id behind which it waits for entries of a stream, and the most of them. `None` if it waits for something else.
    pub(crate) fn reads(&self, name: &[u8]) -> Option<(Id, Option<usize>)> {
        let Wait::Read(read) = &self.wait else { return None };
        // Of a name that is repeated, the first id counts.
        let index = self.names.iter().position(|other| **other == *name)?;
        Some((read.after[index], read.most))
    }

    /// Takes how the wait has ended, if it has.
    pub(super) fn take_outcome(&self) -> Option<Outcome> {
        self.outcome.lock().take()
    }

    fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }
}

/// Those who wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    count: AtomicUsize,
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    /// Those who wait for a key of this name, in any space, by the numbers of their arrival.
    by_name: HashMap<Box<[u8]>, BTreeMap<u64, Arc<Waiter>>>,
    by_client: HashMap<u64, Arc<Waiter>>,
    /// The number of the next one.
    next: u64,
}

impl Queues {
    /// Those who wait for a key, the first one first.
    fn of(&self, space: u8, name: &[u8]) -> impl Iterator<Item = &Arc<Waiter>> {
        let waiters = self.by_name.get(name).into_iter().flat_map(BTreeMap::values);
        waiters.filter(move |waiter| waiter.space == space)
    }

    fn remove(&mut self, waiter: &Waiter) {
        for name in &waiter.names {
            if let Some(queue) = self.by_name.get_mut(name) {
                queue.remove(&waiter.number);
                if queue.is_empty() {
                    self.by_name.remove(name);
                }
            }
        }
        self.by_client.remove(&waiter.client.id);
    }
}

impl Waiting {
    /// Whether anybody waits.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// The number of connections that wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// A key changes. Its shard is locked.
    pub(super) fn note_change(&self, key: Key<'_>) {
        if self.is_used() && self.queues.lock().of(key.space, key.name).next().is_some() {
            make_ready((key.space, key.name.into()));
        }
    }

    /// The connection that waits longest for members of a key: of a list, or of a sorted set.
    pub(crate) fn first(&self, (space, name): &ReadyKey, is_list: bool) -> Option<Arc<Waiter>> {
        let queues = self.queues.lock();
        let mut waiters = queues.of(*space, name);
        let pops = |waiter: &Waiter| matches!(&waiter.wait, Wait::Pop(pop) if pop.is_of_list() == is_list);
        waiters.find(|waiter| pops(waiter) && waiter.is_waiting()).cloned()
    }

    /// All connections that wait for entries of a stream, in the order of their arrival.
    pub(crate) fn readers(&self, (space, name): &ReadyKey) -> Vec<Arc<Waiter>> {
        let queues = self.queues.lock();
        queues.of(*space, name).filter(|waiter| matches!(waiter.wait, Wait::Read(_))).cloned().collect()
    }

    /// A connection is about to wait.
    pub(super) fn begin(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// It waits no more.
    pub(super) fn end(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds a connection, which waits for members of these keys.
    pub(super) fn add(
        &self,
        client: Arc<Client>,
        wait: Wait,
        command: Option<&'static CommandSpec>,
        space: u8,
        names: Vec<Box<[u8]>>,
    ) -> Arc<Waiter> {
        let (outcome, is_waiting) = (Mutex::new(None), AtomicBool::new(true));
        let mut queues = self.queues.lock();
        let number = queues.next;
        queues.next += 1;
        let waiter = Arc::new(Waiter { client, wait, command, space, names, number, outcome, is_waiting });
        for name in &waiter.names {
            let queue = queues.by_name.entry(name.clone()).or_default();
            queue.insert(number, Arc::clone(&waiter));
        }
        queues.by_client.insert(waiter.client.id, Arc::clone(&waiter));
        waiter
    }

    /// A connection has got what it has waited for.
    pub(crate) fn leave(&self, waiter: &Waiter) {
        self.queues.lock().remove(waiter);
    }

    /// The keys to which elements of this one may go.
    pub(crate) fn targets(&self, (space, name): &ReadyKey) -> Vec<ReadyKey> {
        let queues = self.queues.lock();
        let targets = queues.of(*space, name).filter_map(|waiter| match &waiter.wait {
            Wait::Pop(Pop::Move { target, .. }) => Some((*space, target.clone())),
            _ => None,
        });
        targets.collect()
    }

    /// Ends the wait of a connection, with an error or as if its time were over. Returns whether it has waited.
    pub(crate) fn unblock(&self, client: u64, with_error: bool) -> bool {
        let waiter = self.queues.lock().by_client.get(&client).cloned();
        let reason = if with_error { Outcome::Unblocked } else { Outcome::TimedOut };
        let Some(waiter) = waiter.filter(|waiter| waiter.end(reason)) else { return false };
        waiter.client.wake();
        true
    }
}

/// Adds a key that may have members for those who wait.
pub(crate) fn make_ready(key: ReadyKey) {
    HAS_READY.set(true);
    READY.with_borrow_mut(|ready| {
        if !ready.contains(&key) {
            ready.push_back(key);
        }
    });
}

/// Whether the command of this thread has changed keys with waiting connections.
#[inline]
pub(crate) fn has_ready() -> bool {
    HAS_READY.get()
}

/// Takes the first of these keys.
pub(crate) fn take_ready() -> Option<ReadyKey> {
    READY.with_borrow_mut(|ready| {
        let first = ready.pop_front();
        HAS_READY.set(!ready.is_empty());
        first
    })
}
