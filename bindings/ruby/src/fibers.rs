//! How a fiber of a scheduler waits: its call runs on the threads of larder, and another thread of Ruby, the pump, tells the fiber.
//!
//! ```text
//!  fiber ── Fibers.wait(call) ── registers, Call#start ──────────► the call runs
//!                │                                                    │ ended
//!            Thread::Queue#pop: the scheduler runs other fibers       ▼
//!                ▲                                      Pump ◄──── a notice
//!                └──── the thread of Ruby that waits in Larder._ended_calls
//! ```
//!
//! While it waits, a fiber has nothing of Rust on its stack: one that is never resumed is freed with its [`Call`], which gives up
//! what it got.

use crate::cache::Node;
use crate::call::{Answer, closed, upkeep};
use crate::raised::{Raised, Result};
use crate::ruby::data::data;
use crate::ruby::gvl::Interrupt;
use crate::ruby::method::{Arguments, methods};
use crate::ruby::{Ruby, Value};
use larder_host::{CallId, Completions, HostCache, Outcome, PerProcess, StartError};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

type Future = Pin<Box<dyn std::future::Future<Output = Answer> + Send>>;

/// The calls of fibers on one cache, in one process.
pub(crate) type Calls = Completions<Arc<Waiting>, Answer>;

/// What a fiber waits for.
pub(crate) struct Waiting {
    number: u64,
    state: Mutex<State>,
}

/// How far a call of a fiber is.
enum State {
    UnderWay,
    Ended(Outcome<Answer>),
    /// The fiber waits no more. Whatever the call results in is given up at once.
    Left,
}

impl Waiting {
    fn end(&self, outcome: Outcome<Answer>) {
        let mut state = lock(&self.state);
        if matches!(*state, State::UnderWay) {
            *state = State::Ended(outcome);
        }
    }

    fn leave(&self) -> State {
        std::mem::replace(&mut lock(&self.state), State::Left)
    }
}

/// A call of a fiber.
struct Call {
    node: Arc<Node>,
    waiting: Arc<Waiting>,
    /// Until it is started.
    future: RefCell<Option<Future>>,
    started: Cell<Option<CallId>>,
}

data!(Call: c"Larder::Call");

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The result of a call of this fiber.
pub(crate) fn wait<'r>(ruby: Ruby<'r>, node: &Arc<Node>, future: Future) -> Result<Value<'r>> {
    let call = {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let waiting = Arc::new(Waiting { number, state: Mutex::new(State::UnderWay) });
        let (future, started) = (RefCell::new(Some(future)), Cell::new(None));
        ruby.object(ruby.constant("Call")?, Call { node: node.clone(), waiting, future, started })?
    };
    let waited = ruby.constant("Fibers").and_then(|fibers| fibers.call(ruby, "wait", &[call]));
    let call: &Call = call.data()?;
    if waited.is_err() {
        call.give_up();
    }
    waited?;
    let state = call.waiting.leave();
    upkeep(ruby)?;
    match state {
        State::Ended(Outcome::Done(answer)) => answer(ruby),
        State::Ended(Outcome::Cancelled) => Err(closed()),
        State::Ended(Outcome::Panicked) => Err(Raised::panicked()),
        State::UnderWay | State::Left => Err(Raised::fault("the fiber was resumed before its call ended")),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `Call#number`
fn number<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    ruby.count(given.this.data::<Call>()?.waiting.number)
}

/// `Call#start`
fn start<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let call: &Call = given.this.data()?;
    let Some(future) = call.future.take() else { return Err(Raised::fault("the call has begun already")) };
    let calls = call.node.calls()?;
    let started = calls.start(call.waiting.clone(), future).map_err(|_| closed())?;
    call.started.set(Some(started));
    Ok(ruby.nil())
}

/// `Call#cancel`: drops the call, or what it has resulted in.
fn cancel<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    given.this.data::<Call>()?.give_up();
    Ok(ruby.nil())
}

impl Call {
    fn give_up(&self) {
        drop(self.waiting.leave());
        drop(self.future.take());
        // A child of the process that has started it has no such queue, and starts none for that.
        if let Some((started, calls)) = self.started.take().zip(self.node.calls_under_way()) {
            calls.cancel(started);
        }
    }
}

impl Drop for Call {
    /// A fiber that is never resumed leaves it behind.
    fn drop(&mut self) {
        self.give_up();
    }
}

pub(crate) fn define(ruby: Ruby<'_>) -> Result<()> {
    let class = ruby.class(c"Call")?;
    ruby.add_methods(
        class,
        methods![
            c"number" => number, 0..=0;
            c"start" => start, 0..=0;
            c"cancel" => cancel, 0..=0;
        ],
    )
}

/// What the pump of a process waits for.
#[derive(Default)]
struct Pump {
    /// The caches with calls of fibers.
    nodes: Mutex<Vec<Weak<Node>>>,
    notice: Mutex<Notice>,
}

#[derive(Default)]
struct Notice {
    has_come: bool,
    waker: Option<Waker>,
}

static PUMP: PerProcess<Pump> = PerProcess::new();

impl Pump {
    fn of_this_process() -> &'static Self {
        let Ok(pump) = PUMP.get_or_make(|| Ok::<_, Infallible>(Pump::default()));
        pump
    }

    fn notify(&self) {
        let waker = {
            let mut notice = lock(&self.notice);
            notice.has_come = true;
            notice.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Hands the outcomes over, and returns the numbers of their calls.
    fn take(&self) -> Vec<u64> {
        let nodes: Vec<_> = {
            let mut nodes = lock(&self.nodes);
            nodes.retain(|node| node.strong_count() > 0);
            nodes.iter().filter_map(Weak::upgrade).collect()
        };
        let mut numbers = Vec::new();
        for calls in nodes.iter().filter_map(|node| node.calls_under_way()) {
            for (waiting, outcome) in calls.take() {
                waiting.end(outcome);
                numbers.push(waiting.number);
            }
        }
        numbers
    }
}

/// The queue of a cache of this process, of which the pump is told.
pub(crate) fn calls_of(node: &Weak<Node>, host: &HostCache) -> std::result::Result<Calls, StartError> {
    let pump = Pump::of_this_process();
    lock(&pump.nodes).push(node.clone());
    Ok(Completions::new(host.runtime()?.clone(), || Pump::of_this_process().notify()))
}

/// `Larder._ended_calls`: waits until calls of fibers have ended, and returns their numbers.
pub(crate) fn ended_calls<'r>(ruby: Ruby<'r>, _: Arguments<'r>) -> Result<Value<'r>> {
    let (pump, interrupt) = (Pump::of_this_process(), Interrupt::new(ruby));
    loop {
        let numbers = pump.take();
        if !numbers.is_empty() {
            let list = ruby.array(&[])?;
            for number in numbers {
                ruby.push(list, ruby.count(number)?)?;
            }
            return Ok(list);
        }
        let asked = || if interrupt.is_set() { Err(()) } else { Ok(()) };
        let noticed = std::future::poll_fn(|context| {
            let mut notice = lock(&pump.notice);
            if std::mem::take(&mut notice.has_come) {
                return Poll::Ready(());
            }
            notice.waker = Some(context.waker().clone());
            Poll::Pending
        });
        // Whatever ended it: the queues are looked at again.
        _ = ruby.without_gvl(&interrupt, || larder_host::wait(noticed, None, asked));
        interrupt.clear();
        ruby.check_interrupts()?;
    }
}
