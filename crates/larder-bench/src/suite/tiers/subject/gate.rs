//! A gate that stops a loader or a tier, so that an event occurs while it runs and not before or after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Stops one task until it is released. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<State>);

#[derive(Debug)]
struct State {
    closed: AtomicBool,
    stopped: Semaphore,
    released: Semaphore,
}

impl Gate {
    /// An open gate: no task is stopped before [`Gate::close`].
    pub(crate) fn open() -> Self {
        Gate(Arc::new(State {
            closed: AtomicBool::new(false),
            stopped: Semaphore::new(0),
            released: Semaphore::new(0),
        }))
    }

    pub(crate) fn closed() -> Self {
        let gate = Gate::open();
        gate.close();
        gate
    }

    /// Stops the next task, and none after it.
    pub(crate) fn close(&self) {
        self.0.closed.store(true, Ordering::SeqCst);
    }

    /// Passes the gate; waits for [`Gate::release`] if it is closed.
    pub(crate) async fn pass(&self) {
        if self.0.closed.swap(false, Ordering::SeqCst) {
            self.0.stopped.add_permits(1);
            self.0.released.acquire().await.expect("the semaphore is never closed").forget();
        }
    }

    /// [`Gate::pass`] for synchronous code in a task. The other tasks of the thread move to another thread.
    pub(crate) fn pass_blocking(&self) {
        if self.0.closed.load(Ordering::SeqCst) {
            tokio::task::block_in_place(|| Handle::current().block_on(self.pass()));
        }
    }

    /// Waits until a task is stopped.
    pub(crate) async fn stopped(&self) {
        self.0.stopped.acquire().await.expect("the semaphore is never closed").forget();
    }

    /// Releases the stopped task.
    pub(crate) fn release(&self) {
        self.0.released.add_permits(1);
    }
}
