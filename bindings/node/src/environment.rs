//! What one environment of Node has: the calls under way, whose promises its thread settles.
//!
//! ```text
//!  thread of the environment                            threads of larder
//!
//!  Environment::start ── promise, call ───────────────► the call runs
//!                                                          │ ended
//!  settle ◄── one wake-up for all that ended meanwhile ────┘
//! ```

use crate::cache::CacheHandle;
use crate::js::instance::Instance;
use crate::js::promise::Deferred;
use crate::js::reference::{Dropped, Reference};
use crate::js::waker::Waker;
use crate::js::{Env, Value};
use crate::raised::{Raised, Result};
use larder_host::{Completions, ErrorClass, HostCache, LogLevel, LogRecord, Outcome, take_logs};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// Makes the result of a call, on the thread of its environment.
pub(crate) type Answer = Box<dyn for<'s> FnOnce(Env<'s>) -> Result<Value<'s>> + Send>;

/// The calls of one environment on one cache.
pub(crate) type Calls = Completions<Deferred, Answer>;

/// Of each environment, as long as it lives.
pub(crate) struct Environment {
    /// Makes an error of a class, a message and a cause.
    make_error: Reference,
    /// Takes a level and a message of the log.
    log: Reference,
    dropped: Arc<Dropped>,
    waker: Arc<Waker>,
    /// Of each cache that was used.
    calls: RefCell<Vec<Rc<Calls>>>,
    /// How many promises are not settled. While there are some, the event loop goes on.
    unsettled: Cell<usize>,
}

impl Instance for Environment {
    fn end(&self) {
        self.waker.end();
        // Their promises end with the environment.
        for calls in self.calls.take() {
            calls.close();
        }
    }
}

impl Environment {
    /// Begins an environment. `make_error` is a function of `errors.js`, `log` one of `logs.js`.
    pub(crate) fn begin<'s>(env: Env<'s>, make_error: Value<'s>, log: Value<'s>) -> Result<()> {
        // What fails there fails because the environment ends.
        let settle = |env: Env<'_>| _ = Environment::of(env).and_then(|environment| environment.settle(env));
        let dropped = Arc::<Dropped>::default();
        let environment = Environment {
            make_error: Reference::new(env, &dropped, make_error)?,
            log: Reference::new(env, &dropped, log)?,
            dropped,
            waker: Arc::new(Waker::new(env, settle)?),
            calls: RefCell::default(),
            unsettled: Cell::new(0),
        };
        // SAFETY: no other type is set, and the package calls this once in each environment.
        unsafe { env.set_instance(environment) }
    }

    /// That of this environment.
    pub(crate) fn of<'s>(env: Env<'s>) -> Result<&'s Environment> {
        // SAFETY: `begin` sets this type.
        unsafe { env.instance() }
    }

    pub(crate) fn dropped(&self) -> &Arc<Dropped> {
        &self.dropped
    }

    pub(crate) fn make_error<'s>(&self, env: Env<'s>) -> Result<Value<'s>> {
        self.make_error.value_here(env)
    }

    /// A queue for the calls on a cache.
    pub(crate) fn calls_on(&self, host: &HostCache) -> Result<Rc<Calls>> {
        let (runtime, waker) = (host.runtime()?.clone(), self.waker.clone());
        let calls = Rc::new(Calls::new(runtime, move || waker.wake()));
        self.calls.borrow_mut().push(calls.clone());
        Ok(calls)
    }

    /// Starts a call, and returns its promise. `answer` makes the result.
    pub(crate) fn start<'s, R: Send + 'static>(
        &self,
        env: Env<'s>,
        cache: &CacheHandle,
        call: impl Future<Output = R> + Send + 'static,
        answer: impl for<'a> FnOnce(Env<'a>, R) -> Result<Value<'a>> + Send + 'static,
    ) -> Result<Value<'s>> {
        let calls = cache.calls(self)?;
        let (deferred, promise) = env.promise()?;
        let started = calls.start(deferred, async move {
            let result = call.await;
            let answer: Answer = Box::new(move |env| answer(env, result));
            answer
        });
        match started {
            Ok(_) => {
                self.unsettled.set(self.unsettled.get() + 1);
                if self.unsettled.get() == 1 {
                    self.waker.hold(env, true)?;
                }
            }
            Err(deferred) => {
                self.settle_one(env, deferred, Err(Raised::of(ErrorClass::Closed, "the cache was closed")))
            }
        }
        Ok(promise)
    }

    /// Settles the promises of all calls that have ended.
    fn settle(&self, env: Env<'_>) -> Result<()> {
        self.dropped.delete(env);
        self.write_log(env)?;
        // Taken first: an answer may start calls, and open caches.
        let ended: Vec<_> = self.calls.borrow().iter().flat_map(|calls| calls.take()).collect();
        let settled = ended.len();
        for (deferred, outcome) in ended {
            env.scoped(|env| {
                self.settle_one(env, deferred, result_of(env, outcome));
                Ok(())
            })?;
        }
        self.unsettled.set(self.unsettled.get() - settled);
        if settled > 0 && self.unsettled.get() == 0 {
            self.waker.hold(env, false)?;
        }
        // Of caches that JavaScript has forgotten nothing comes any more.
        self.calls.borrow_mut().retain(|calls| Rc::strong_count(calls) > 1 || calls.outstanding() > 0);
        Ok(())
    }

    /// Writes what larder has logged.
    fn write_log(&self, env: Env<'_>) -> Result<()> {
        for LogRecord { level, message } in take_logs() {
            let level = match level {
                LogLevel::Info => "info",
                LogLevel::Warn => "warn",
                LogLevel::Error => "error",
            };
            let log = self.log.value_here(env)?;
            if log.call(env, &[env.text(level)?, env.text(&message)?]).is_err() {
                // What a logger throws is not the error of a call.
                env.take_pending()?;
            }
        }
        Ok(())
    }

    fn settle_one<'s>(&self, env: Env<'s>, deferred: Deferred, result: Result<Value<'s>>) {
        let result = match result {
            Ok(value) => Ok(Ok(value)),
            Err(raised) => raised.into_value(env, self).map(Err),
        };
        // It fails only while the environment ends.
        _ = result.and_then(|result| deferred.settle(env, result));
    }
}

fn result_of<'s>(env: Env<'s>, outcome: Outcome<Answer>) -> Result<Value<'s>> {
    match outcome {
        Outcome::Done(answer) => {
            catch_unwind(AssertUnwindSafe(|| answer(env))).unwrap_or_else(|_| Err(Raised::panicked()))
        }
        Outcome::Cancelled => {
            Err(Raised::of(ErrorClass::Closed, "the cache was closed before the call ended"))
        }
        Outcome::Panicked => Err(Raised::panicked()),
    }
}
