//! Tasks of a cache, and the runtime that they run on: its own one, or that of whoever calls.
//!
//! Parts of calls run in tasks: a caller that leaves does not end them, and one that is not polled does not hold up those who
//! wait for them.

use std::pin::pin;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::{Instrument, Span};

/// Where the tasks of a cache run: on this runtime, or without one on that of the caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks(pub(crate) Option<Handle>);

impl Tasks {
    /// Runs `work` in a task, and waits for it. `None` if the runtime shuts down. A panic of the task is resumed.
    ///
    /// # Panics
    /// Outside a tokio runtime, unless the cache has its own.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        match self.spawn(work.instrument(Span::current())).await {
            Ok(result) => Some(result),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => None,
            },
        }
    }

    /// Starts a task.
    ///
    /// # Panics
    /// As [`Tasks::run`].
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime().spawn(work)
    }

    /// The runtime that a task would be started on.
    ///
    /// # Panics
    /// As [`Tasks::run`].
    pub(crate) fn runtime(&self) -> Handle {
        self.0.clone().unwrap_or_else(Handle::current)
    }

    /// Starts a task where something is dropped. Without a runtime there it does nothing.
    pub(crate) fn spawn_if_possible(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = self.runtime_if_any() {
            runtime.spawn(work);
        }
    }

    /// The runtime that a task would be started on; `None` where there is none.
    pub(crate) fn runtime_if_any(&self) -> Option<Handle> {
        self.0.clone().or_else(|| Handle::try_current().ok())
    }

    /// Polls `work` in the context of the cache's own runtime, so that its timers, sockets and tasks are there, whoever
    /// polls it.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(runtime) = &self.0 else { return work.await };
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            let _entered = runtime.enter();
            work.as_mut().poll(context)
        })
        .await
    }
}
