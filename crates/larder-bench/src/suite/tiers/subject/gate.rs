//! A gate, so that something happens while a loader or a tier is at work, and not before or after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Stops one who comes, until it is told to go on. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<State>);

#[derive(Debug)]
struct State {
    closed: AtomicBool,
    arrived: Semaphore,
    opened: Semaphore,
}

impl Gate {
    /// Nobody is stopped before [`Gate::close`].
    pub(crate) fn open() -> Self {
        Gate(Arc::new(State {
            closed: AtomicBool::new(false),
            arrived: Semaphore::new(0),
            opened: Semaphore::new(0),
        }))
    }

    pub(crate) fn closed() -> Self {
        let gate = Gate::open();
        gate.close();
        gate
    }

    /// The next who comes is stopped, and nobody after it.
    pub(crate) fn close(&self) {
        self.0.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) async fn pass(&self) {
        if self.0.closed.swap(false, Ordering::SeqCst) {
            self.0.arrived.add_permits(1);
            self.0.opened.acquire().await.expect("it is never closed for good").forget();
        }
    }

    /// For those who are called from a task and cannot await: the other tasks of the thread go on elsewhere.
    pub(crate) fn pass_blocking(&self) {
        if self.0.closed.load(Ordering::SeqCst) {
            tokio::task::block_in_place(|| Handle::current().block_on(self.pass()));
        }
    }

    /// Waits until somebody has been stopped.
    pub(crate) async fn arrival(&self) {
        self.0.arrived.acquire().await.expect("it is never closed for good").forget();
    }

    /// Lets who was stopped go on.
    pub(crate) fn go_on(&self) {
        self.0.opened.add_permits(1);
    }
}
