//! Serving those who wait: the command that gives a key members takes them for the connections that wait longest.

use std::sync::Arc;

use larder_resp::{Encoder, Protocol};

use super::{read, take};
use crate::cmd::{CommandError, Context, rights};
use crate::db::{Database, HeldLocks, Key, LockedKeys, type_name};
use crate::observers::{Origin, Outcome, Pop, Popped, ReadyKey, Wait, make_ready, take_ready};
use crate::values::stream::Id;

/// Serves those who wait for the keys that the command of this thread has changed. With locks, those of the locked keys; the rest is
/// left for a call without locks.
pub(crate) fn serve_ready(cx: &mut Context<'_>) {
    let mut later = Vec::new();
    // A moved element may be what others wait for.
    while let Some(key) = take_ready() {
        let is_served = match cx.held {
            Some(held) => held.is_locked(of(&key)) && serve(cx, held, &key),
            None => {
                let targets = cx.state.store.observers.waiting.targets(&key);
                let locks = cx.state.store.lock([&key].into_iter().chain(&targets).map(of));
                serve(cx, &locks, &key)
            }
        };
        if !is_served {
            later.push(key);
        }
    }
    later.into_iter().for_each(make_ready);
}

/// Whether a key is locked, and all that there is of it in memory.
fn is_usable(cx: &Context<'_>, held: &dyn HeldLocks, key: Key<'_>) -> bool {
    held.is_locked(key) && cx.state.store.has_loaded(key)
}

fn of(key: &ReadyKey) -> Key<'_> {
    Key { space: key.0, name: &key.1 }
}

/// Serves those who wait for a locked key, as long as it has members. Returns false if another key must be locked too.
fn serve(cx: &Context<'_>, held: &dyn HeldLocks, key: &ReadyKey) -> bool {
    let observers = &cx.state.store.observers;
    let db = cx.state.store.database(key.0).with_locks(Some(held));
    loop {
        let is_list = match db.peek(&key.1, type_name) {
            Some("list") => true,
            Some("zset") => false,
            Some("stream") => {
                serve_readers(cx, db, key);
                return true;
            }
            _ => return true,
        };
        let Some(waiter) = observers.waiting.first(key, is_list) else { return true };
        let Wait::Pop(pop) = &waiter.wait else { return true };
        if let Pop::Move { target, .. } = pop
            && !is_usable(cx, held, Key { space: key.0, name: target })
        {
            return false;
        }
        let origin = Origin { client: Arc::as_ptr(&waiter.client) as usize, command: None };
        let is_served = waiter.serve(|| {
            if let Err(denied) = rights::check_waiting(cx, &waiter) {
                return Some(Outcome::Denied(denied));
            }
            let mut locked = db.lock_keys([]);
            // A move may fail: its target has another type, or there is no memory for the element.
            let popped =
                take::members(&mut locked, of(key), pop, origin).unwrap_or_else(|error| match error {
                    CommandError::WrongType => Some(Popped::WrongType),
                    _ => Some(Popped::OutOfMemory),
                });
            popped.map(Outcome::Popped)
        });
        // If not, its time has ended meanwhile, and it is not the first one any more.
        if is_served {
            observers.waiting.leave(&waiter);
            waiter.client.wake();
        }
    }
}

/// Gives those who wait for entries of a locked stream the ones that are new to them. Most wait for the same ones.
fn serve_readers(cx: &Context<'_>, db: Database<'_>, key: &ReadyKey) {
    let (observers, mut locked) = (&cx.state.store.observers, db.lock_keys([]));
    let mut found = None;
    for waiter in observers.waiting.readers(key) {
        let Some(read) = waiter.reads(&key.1) else { continue };
        if found.as_ref().is_none_or(|(other, _)| *other != read) {
            found = Some((read, entries(cx, &mut locked, key, read)));
        }
        let outcome = found.as_ref().and_then(|(_, entries)| entries.as_ref());
        let is_served = waiter.serve(|| {
            let outcome = outcome?;
            if let Err(denied) = rights::check_waiting(cx, &waiter) {
                return Some(Outcome::Denied(denied));
            }
            Some(match outcome {
                Some(entries) => Outcome::Read { name: key.1.clone(), entries: Arc::clone(entries) },
                None => Outcome::TooLarge,
            })
        });
        if is_served {
            observers.waiting.leave(&waiter);
            waiter.client.wake();
        }
    }
}

/// The entries that somebody waits for, as an array, if there are any. `None` inside if they are too many for a reply.
fn entries(
    cx: &Context<'_>,
    locked: &mut LockedKeys<'_>,
    key: &ReadyKey,
    (after, most): (Id, Option<usize>),
) -> Option<Option<Arc<[u8]>>> {
    let found = read::entries(locked, of(key), after, most, cx.state.max_reply_bytes()).ok().flatten()?;
    match found {
        Some(found) if found.count == 0 => None,
        found => Some(found.map(|found| {
            let mut array = Vec::with_capacity(found.bytes.len() + 16);
            Encoder::new(&mut array, Protocol::Resp2).array(found.count);
            array.extend_from_slice(&found.bytes);
            array.into()
        })),
    }
}
