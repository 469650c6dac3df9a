//! Calls that do not end at once: they go on in threads of larder, which send the answer to the process that has called.
//!
//! ```text
//!  process                                   threads of larder
//!
//!  native function ── polled once ─ pending ─► the call runs
//!     │ its answer, or :pending                  │ ended
//!  receive ◄──────── {reference, answer} ────────┘
//! ```
//!
//! A process that waits gets one message, whatever happens to the call. One that has ended gets none: the call is dropped.

use crate::erl::nif;
use crate::erl::resource::{Handle, Kind, Resource};
use crate::erl::{Env, Pid, Recipient, Term, atom};
use crate::object::Encoding;
use crate::raised::{Raised, Result};
use larder_host::{HostCache, WaitError};
use std::convert::Infallible;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tokio::task::AbortHandle;

/// Where the answer of a call is made.
#[derive(Clone, Copy)]
pub(crate) struct Here<'e> {
    pub(crate) env: Env<'e>,
    /// Whose call it is.
    pub(crate) process: Pid,
    /// Whether this is the process itself, and not a thread of larder.
    is_process: bool,
}

impl<'e> Here<'e> {
    /// A term that refers to a resource, which learns of the end of the process.
    pub(crate) fn watching<T: Resource>(self, resource: T) -> Term<'e> {
        let handle = Handle::new(resource);
        if !handle.watch(self.is_process.then_some(self.env), self.process) {
            handle.process_ended();
        }
        handle.term(self.env)
    }
}

/// Starts a call whose answer is small.
pub(crate) fn start<'e, R: Send + 'static>(
    call: &nif::Call<'_, 'e>,
    host: &HostCache,
    reference: Term<'e>,
    future: impl Future<Output = R> + Send + 'static,
    answer: impl for<'a> FnOnce(Here<'a>, R) -> Result<Term<'a>> + Send + 'static,
) -> Result<Term<'e>> {
    start_with_work(call, host, reference, future, |_| 0, answer)
}

/// Starts a call, and returns its answer, or `:pending` if it will be sent. `work` tells how many bytes the answer is made of.
pub(crate) fn start_with_work<'e, R: Send + 'static>(
    call: &nif::Call<'_, 'e>,
    host: &HostCache,
    reference: Term<'e>,
    future: impl Future<Output = R> + Send + 'static,
    work: impl FnOnce(&R) -> usize,
    answer: impl for<'a> FnOnce(Here<'a>, R) -> Result<Term<'a>> + Send + 'static,
) -> Result<Term<'e>> {
    let mut future = Box::pin(future);
    // A deadline that has come: it is polled, and no more.
    match host.wait(future.as_mut(), Some(Instant::now()), || Ok::<_, Infallible>(())) {
        Ok(result) if call.may_take_long || Encoding::is_quick(work(&result)) => {
            answer(Here { env: call.env, process: call.env.caller(), is_process: true }, result)
        }
        Ok(result) => send_later(call, host, reference, async { result }, answer),
        Err(WaitError::Deadline) => send_later(call, host, reference, future, answer),
        Err(WaitError::Closed) => Err(Raised::closed()),
        Err(other) => Err(Raised::fault(other)),
    }
}

/// Lets threads of larder go on with a call.
fn send_later<'e, R: Send + 'static>(
    call: &nif::Call<'_, 'e>,
    host: &HostCache,
    reference: Term<'e>,
    future: impl Future<Output = R> + Send + 'static,
    answer: impl for<'a> FnOnce(Here<'a>, R) -> Result<Term<'a>> + Send + 'static,
) -> Result<Term<'e>> {
    let runtime = host.runtime()?;
    let running = Handle::new(Running::default());
    let waiter = Waiter { recipient: Some(Recipient::caller(call.env, reference)), running: running.clone() };
    let process = call.env.caller();
    running.watch(Some(call.env), process);
    let task = runtime.spawn(async move {
        let result = future.await;
        waiter.answer(|env| answer(Here { env, process, is_process: false }, result));
    });
    running.may_abort(task.abort_handle());
    Ok(call.env.atom(&atom::PENDING))
}

/// A call that goes on, which watches the process that waits for it.
#[derive(Default)]
struct Running {
    task: Mutex<Option<AbortHandle>>,
    process_ended: AtomicBool,
}

static RUNNING: Kind = Kind::new();

impl Resource for Running {
    const NAME: &'static CStr = c"call";

    fn kind() -> &'static Kind {
        &RUNNING
    }

    fn process_ended(&self) {
        self.process_ended.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The call may be dropped here, which gives up what it has.
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl Running {
    fn may_abort(&self, task: AbortHandle) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        if self.process_ended.load(Ordering::Acquire) {
            self.process_ended();
        }
    }
}

/// Opens the type of calls that go on.
pub(crate) fn open_resource(env: Env<'_>) -> bool {
    crate::erl::resource::open::<Running>(env)
}

/// Sends one message to the process that waits.
struct Waiter {
    /// Until it was sent.
    recipient: Option<Recipient>,
    running: Handle<Running>,
}

impl Waiter {
    fn answer(mut self, make: impl for<'a> FnOnce(Env<'a>) -> Result<Term<'a>>) {
        if let Some(recipient) = self.recipient.take() {
            recipient.send(|env| {
                let made = catch_unwind(AssertUnwindSafe(|| make(env)));
                match made.unwrap_or_else(|_| Err(Raised::panicked())) {
                    Ok(term) => env.tuple([env.atom(&atom::OK), term]),
                    Err(raised) => env.tuple([env.atom(&atom::ERROR), raised.exception(env)]),
                }
            });
        }
    }
}

impl Drop for Waiter {
    /// The call was dropped before its end: because of a panic, or the end of the cache, or of the process.
    fn drop(&mut self) {
        let Some(recipient) = self.recipient.take() else { return };
        if self.running.process_ended.load(Ordering::Acquire) {
            return;
        }
        let raised = if std::thread::panicking() { Raised::panicked() } else { Raised::closed() };
        recipient.send(|env| env.tuple([env.atom(&atom::ERROR), raised.exception(env)]));
    }
}
