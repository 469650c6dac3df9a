//! Calls that a host starts and does not wait for: their results go through one queue to its event loop.

#[cfg(unix)]
mod socket;

#[cfg(unix)]
pub use socket::{NoticeSender, NoticeSocket, notice_socket};

use larder_engine::fork::Process;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// With this result.
    Done(R),
    /// It was cancelled, or the runtime or the queue ended before it.
    Cancelled,
    /// It panicked. The panic hook has reported that.
    Panicked,
}

/// A call that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(u64);

/// Calls under way and the queue of those that ended. `T` is what the host knows a call by, such as a promise; `R` is what a
/// call results in. Cheap to clone: clones are handles of the same queue.
///
/// Each token that was accepted comes back once, with an outcome. The queue is never longer than the number of calls that the
/// host has started and not yet taken: it needs no bound of its own.
///
/// Results and tokens may be dropped on threads of the runtime, if the queue ends before their calls.
///
/// # Examples
/// ```
/// use larder_host::{Completions, Outcome, wait};
/// use std::sync::Arc;
/// use tokio::sync::Notify;
///
/// let runtime = tokio::runtime::Runtime::new()?;
/// // A thread of the host that waits for completions, and for nothing else.
/// let ready = Arc::new(Notify::new());
/// let completions = Completions::new(runtime.handle().clone(), {
///     let ready = ready.clone();
///     move || ready.notify_one()
/// });
/// completions.start("promise", async { 1 + 1 }).expect("it has not ended");
/// wait(ready.notified(), None, || Ok::<_, ()>(())).expect("a notice");
/// assert_eq!(completions.take(), [("promise", Outcome::Done(2))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Completions<T, R> {
    queue: Arc<Queue<T, R>>,
    runtime: Handle,
}

struct Queue<T, R> {
    state: Mutex<State<T, R>>,
    notice: Box<dyn Fn() + Send + Sync>,
    /// In a forked child the lock may be held for ever.
    process: Process,
}

struct State<T, R> {
    under_way: HashMap<CallId, Call<T>>,
    ended: Vec<(T, Outcome<R>)>,
    started: u64,
    is_closed: bool,
}

struct Call<T> {
    token: T,
    /// `None` until its task is there.
    task: Option<AbortHandle>,
}

impl<T, R> Completions<T, R>
where
    T: Send + 'static,
    R: Send + 'static,
{
    /// A queue of calls on this runtime. `notice` is called once when the queue becomes non-empty, on the thread where that
    /// happens: it wakes the event loop of the host, which then [takes](Completions::take) everything. It must not block or
    /// wait for the lock of an interpreter; its panics are caught.
    pub fn new(runtime: Handle, notice: impl Fn() + Send + Sync + 'static) -> Self {
        let state = State { under_way: HashMap::new(), ended: Vec::new(), started: 0, is_closed: false };
        let queue = Queue { state: Mutex::new(state), notice: Box::new(notice), process: Process::current() };
        Completions { queue: Arc::new(queue), runtime }
    }

    /// Starts a call. Its token comes out of the queue when it ends.
    ///
    /// # Errors
    /// The token, if the queue was closed, or inherited through a fork.
    pub fn start(&self, token: T, call: impl Future<Output = R> + Send + 'static) -> Result<CallId, T> {
        let Some(mut state) = self.queue.lock() else { return Err(token) };
        if state.is_closed {
            return Err(token);
        }
        state.started += 1;
        let id = CallId(state.started);
        state.under_way.insert(id, Call { token, task: None });
        drop(state);
        // Made here, so that a task which is never polled ends too.
        let ending = Ending { queue: self.queue.clone(), id };
        let task = self.runtime.spawn(async move {
            let result = call.await;
            ending.queue.end(ending.id, Outcome::Done(result));
        });
        let task = task.abort_handle();
        let mut state = self.queue.lock();
        if let Some(call) = state.as_mut().and_then(|state| state.under_way.get_mut(&id)) {
            call.task = Some(task);
        } else {
            // It has ended, or the queue was closed meanwhile. An abort may drop the call here, which takes the lock.
            drop(state);
            task.abort();
        }
        Ok(id)
    }

    /// Cancels a call: it is dropped, and its token comes out of the queue as [`Outcome::Cancelled`]. A call that has ended
    /// keeps its outcome.
    pub fn cancel(&self, id: CallId) {
        if let Some(task) = self.queue.end(id, Outcome::Cancelled) {
            task.abort();
        }
    }

    /// Takes all calls that have ended, in the order of their ends. Never blocks for long: the lock is held for a few
    /// instructions everywhere.
    pub fn take(&self) -> Vec<(T, Outcome<R>)> {
        self.queue.lock().map_or_else(Vec::new, |mut state| std::mem::take(&mut state.ended))
    }

    /// How many calls were started and not yet taken.
    pub fn outstanding(&self) -> usize {
        self.queue.lock().map_or(0, |state| state.under_way.len() + state.ended.len())
    }

    /// Closes the queue: cancels the calls under way, and returns every token that did not come out yet with its outcome. No
    /// call is started afterwards, and there is no notice. It does not wait for the calls, which are dropped by the runtime.
    pub fn close(&self) -> Vec<(T, Outcome<R>)> {
        let Some(mut state) = self.queue.lock() else { return Vec::new() };
        state.is_closed = true;
        let (under_way, mut ended) = (std::mem::take(&mut state.under_way), std::mem::take(&mut state.ended));
        drop(state);
        for Call { token, task } in under_way.into_values() {
            if let Some(task) = task {
                task.abort();
            }
            ended.push((token, Outcome::Cancelled));
        }
        ended
    }
}

impl<T, R> Queue<T, R> {
    /// `None` in a forked child.
    fn lock(&self) -> Option<MutexGuard<'_, State<T, R>>> {
        let is_ours = !self.process.has_forked();
        is_ours.then(|| self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends a call that is under way, and returns its task.
    fn end(&self, id: CallId, outcome: Outcome<R>) -> Option<AbortHandle> {
        let mut state = self.lock()?;
        // Otherwise it has ended, and `outcome` is dropped after the lock.
        let call = state.under_way.remove(&id)?;
        let was_empty = state.ended.is_empty();
        state.ended.push((call.token, outcome));
        drop(state);
        if was_empty {
            // A panic while another one unwinds would end the process.
            _ = catch_unwind(AssertUnwindSafe(|| (self.notice)()));
        }
        call.task
    }
}

/// Ends its call where the task is dropped before it ends.
struct Ending<T, R> {
    queue: Arc<Queue<T, R>>,
    id: CallId,
}

impl<T, R> Drop for Ending<T, R> {
    fn drop(&mut self) {
        let outcome = if std::thread::panicking() { Outcome::Panicked } else { Outcome::Cancelled };
        self.queue.end(self.id, outcome);
    }
}

impl<T, R> Clone for Completions<T, R> {
    fn clone(&self) -> Self {
        Completions { queue: self.queue.clone(), runtime: self.runtime.clone() }
    }
}

impl<T, R> std::fmt::Debug for Completions<T, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Completions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
