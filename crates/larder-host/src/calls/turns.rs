//! The turns of callers of one process that update the same key: whoever came later would find the key changed.

use crate::process::PerProcess;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

/// How long a caller waits for its turn. One that updates a key in its own function, or never ends, holds nobody up for longer: without
/// a turn an update may only have to decide again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

type Lock = Arc<tokio::sync::Mutex<()>>;

/// By what keys are in Redis, those that somebody updates.
static TURNS: PerProcess<Mutex<HashMap<Vec<u8>, Lock>>> = PerProcess::new();

fn turns() -> MutexGuard<'static, HashMap<Vec<u8>, Lock>> {
    let Ok(turns) = TURNS.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a caller, until it is dropped.
pub(crate) struct Turn {
    key: Vec<u8>,
    lock: Lock,
    guard: Option<OwnedMutexGuard<()>>,
}

/// Waits for the turn of a key.
pub(crate) async fn turn_of(key: Vec<u8>, runtime: &Handle) -> Turn {
    let lock = turns().entry(key.clone()).or_default().clone();
    // From here on it is removed by its drop.
    let mut turn = Turn { key, lock: lock.clone(), guard: None };
    turn.guard = match lock.clone().try_lock_owned() {
        Ok(guard) => Some(guard),
        // A task, since the caller may be no thread of the runtime.
        Err(_) => {
            let waiting = runtime.spawn(async move { timeout(LONGEST_WAIT, lock.lock_owned()).await.ok() });
            waiting.await.ok().flatten()
        }
    };
    turn
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.guard.take());
        // A child of the process has turns of its own.
        let Some(turns) = TURNS.get() else { return };
        let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
        // This one, and that of the table.
        if Arc::strong_count(&self.lock) == 2
            && turns.get(&self.key).is_some_and(|lock| Arc::ptr_eq(lock, &self.lock))
        {
            turns.remove(&self.key);
        }
    }
}
