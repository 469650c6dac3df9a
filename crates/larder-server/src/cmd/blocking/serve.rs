//! Serving those who wait: the command that gives a key members takes them for the connections that wait longest.

use super::take;
use crate::cmd::{CommandError, Context};
use crate::db::{HeldLocks, Key, type_name};
use crate::observers::{Origin, Pop, Popped, ReadyKey, make_ready, take_ready};
use std::sync::Arc;

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
            _ => return true,
        };
        let Some(waiter) = observers.waiting.first(key, is_list) else { return true };
        if let Pop::Move { target, .. } = &waiter.pop
            && !is_usable(cx, held, Key { space: key.0, name: target })
        {
            return false;
        }
        let origin = Origin { client: Arc::as_ptr(&waiter.client) as usize, command: None };
        let is_served = waiter.serve(|| {
            let mut locked = db.lock_keys([]);
            // A move may fail: its target has another type, or there is no memory for the element.
            take::members(&mut locked, of(key), &waiter.pop, origin).unwrap_or_else(|error| match error {
                CommandError::WrongType => Some(Popped::WrongType),
                _ => Some(Popped::OutOfMemory),
            })
        });
        // If not, its time has ended meanwhile, and it is not the first one any more.
        if is_served {
            observers.waiting.leave(&waiter);
            waiter.client.wake();
        }
    }
}
