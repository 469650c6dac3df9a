//! A linearizability checker for histories of calls on one key.
//!
//! A history is *linearizable* if each call has a moment between its start and its end such that the results are those of
//! a register on which the calls happen one after another at these moments. The search is that of Wing and Gong
//! ("Testing and Verifying Concurrent Objects", 1993), which tries the possible next calls one by one, with the memory of
//! Lowe ("Testing for linearizability", 2017): a set of calls with the same state is not tried twice.

use larder_engine::{Cache, CommitOutcome, Leader, Load, Op, Ticket, Ttl};
use std::collections::HashSet;

/// A call and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Get(Option<u32>),
    Contains(bool),
    Insert {
        value: u32,
        replaced: Option<u32>,
    },
    Remove(Option<u32>),
    /// An atomic update: the value before and after; `None` after a removal.
    Compute {
        before: Option<u32>,
        after: Option<u32>,
    },
    /// The caller began a load; the number identifies its ticket.
    Lead(UnderWay),
    /// The caller found a load under way that its own does not replace.
    Follow {
        gives_way: bool,
    },
    Commit {
        ticket: u32,
        value: u32,
        stored: bool,
    },
    Abandon(u32),
}

/// A load under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnderWay {
    pub(crate) ticket: u32,
    /// Whether the next one that does not takes its place.
    pub(crate) gives_way: bool,
}

/// A call with the moments of its start and end. All moments differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) event: Event,
}

/// The state of the register: the stored value, and the load that may commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Register {
    value: Option<u32>,
    load: Option<UnderWay>,
}

impl Register {
    /// The register after an event; `None` if the event's result is impossible. A register that `forgets` may lose its
    /// value at any time, which shows when a read finds nothing.
    fn after(self, event: Event, forgets: bool) -> Option<Register> {
        let Register { value, load } = self;
        let may_commit = |ticket| load.is_some_and(|load| load.ticket == ticket);
        // Whether a load under way keeps its place beside another.
        let stays = |gives_way: bool| load.is_some_and(|load| !load.gives_way || gives_way);
        let shows = |found: Option<u32>| found == value || (forgets && found.is_none());
        let (possible, after) = match event {
            Event::Get(found) => (shows(found), Register { value: found, load }),
            Event::Contains(true) => (value.is_some(), self),
            Event::Contains(false) => (shows(None), Register { value: None, load }),
            Event::Insert { value, replaced } => {
                (shows(replaced), Register { value: Some(value), load: None })
            }
            Event::Remove(found) => (shows(found), Register::default()),
            Event::Compute { before, after } => (shows(before), Register { value: after, load: None }),
            Event::Lead(next) => {
                (shows(None) && !stays(next.gives_way), Register { value: None, load: Some(next) })
            }
            Event::Follow { gives_way } => (shows(None) && stays(gives_way), Register { value: None, load }),
            Event::Commit { ticket, value, stored: true } => {
                (may_commit(ticket), Register { value: Some(value), load: None })
            }
            // Where entries are evicted, there may be no room for a value.
            Event::Commit { ticket, .. } if forgets && may_commit(ticket) => (true, Register::default()),
            Event::Commit { ticket, .. } => (!may_commit(ticket), self),
            Event::Abandon(ticket) => {
                (true, Register { value, load: load.filter(|other| other.ticket != ticket) })
            }
        };
        possible.then_some(after)
    }
}

/// Whether the history of up to 64 calls is linearizable.
pub(crate) fn is_linearizable(calls: &[Call], forgets: bool) -> bool {
    assert!(calls.len() <= 64, "{} calls on one key", calls.len());
    let mut search = Search { calls, forgets, tried: HashSet::new() };
    search.can_finish(0, Register::default())
}

struct Search<'a> {
    calls: &'a [Call],
    forgets: bool,
    tried: HashSet<(u64, Register)>,
}

impl Search<'_> {
    fn can_finish(&mut self, done: u64, register: Register) -> bool {
        let calls = self.calls;
        let open = || calls.iter().enumerate().filter(move |(at, _)| done >> at & 1 == 0);
        let Some(first_end) = open().map(|(_, call)| call.end).min() else { return true };
        if !self.tried.insert((done, register)) {
            return false;
        }
        // A call that began after another had ended comes after it.
        open().filter(|(_, call)| call.begin < first_end).any(|(at, call)| {
            let after = register.after(call.event, self.forgets);
            after.is_some_and(|after| self.can_finish(done | 1 << at, after))
        })
    }
}

/// A caller of a cache; keeps the ticket of its load until it settles it.
pub(crate) struct Caller<'a> {
    cache: &'a Cache<u32, u32>,
    /// The key, the number and the ticket of a load under way.
    load: Option<(u32, u32, Ticket<u32, u32>)>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(cache: &'a Cache<u32, u32>) -> Self {
        Caller { cache, load: None }
    }

    /// Makes the call that `choice` selects, or settles the load under way. `unique` is a value that was never used before.
    pub(crate) fn act(&mut self, choice: u32, key: u32, unique: u32) -> (u32, Event) {
        let cache = self.cache;
        let loads = choice % 16 / 2 > 5;
        if (loads || choice.is_multiple_of(2))
            && let Some((key, number, ticket)) = self.load.take()
        {
            return (key, settle(ticket, number, choice, unique));
        }
        let event = match choice % 16 / 2 {
            0 | 1 => Event::Get(cache.get(&key)),
            2 => Event::Contains(cache.contains(&key)),
            3 => Event::Insert { value: unique, replaced: cache.insert(key, unique).replaced() },
            4 => Event::Remove(cache.remove(&key)),
            5 => {
                let after = (choice < 128).then_some(unique);
                let op = after.map_or(Op::Remove, |value| Op::Put(value, Ttl::Default));
                let computed = cache.compute(key, |entry| (op, entry.map(|entry| *entry.value())));
                Event::Compute { before: computed.result, after }
            }
            _ => {
                let gives_way = choice >= 128;
                let leader = if gives_way { Leader::GivesWay } else { Leader::Async };
                match cache.load_at(&key, cache.clock().now(), leader, u32::clone) {
                    Load::Hit(value) => Event::Get(Some(value)),
                    Load::Follow(_) => Event::Follow { gives_way },
                    Load::Lead(ticket) => {
                        self.load = Some((key, unique, ticket));
                        Event::Lead(UnderWay { ticket: unique, gives_way })
                    }
                }
            }
        };
        (key, event)
    }

    /// Settles the load under way, if there is one.
    pub(crate) fn finish(&mut self, unique: u32) -> Option<(u32, Event)> {
        self.load.take().map(|(key, number, ticket)| (key, settle(ticket, number, 0, unique)))
    }
}

fn settle(ticket: Ticket<u32, u32>, number: u32, choice: u32, value: u32) -> Event {
    if choice % 8 == 6 {
        drop(ticket);
        return Event::Abandon(number);
    }
    let stored = ticket.commit(value) == CommitOutcome::Stored;
    Event::Commit { ticket: number, value, stored }
}

/// Prints a history, one line per call.
pub(crate) fn show(calls: &[Call]) -> String {
    calls.iter().map(|Call { begin, end, event }| format!("\n  {begin}–{end} {event:?}")).collect()
}
