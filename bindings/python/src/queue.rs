//! The calls of an event loop: it watches a socket, and takes the results when that is readable.

use crate::cache::Cache;
use crate::call::{Answer, Call};
use crate::raised::{CacheClosed, LarderError, of_host};
use larder_host::{CallId, Completions, NoticeSocket, Outcome, notice_socket};
use pyo3::prelude::*;
use std::os::fd::AsRawFd;

/// What a call is known by: an object of the event loop.
type Token = Py<PyAny>;
/// The token of a call that has ended, its result and its exception.
type Ended = (Token, Py<PyAny>, Py<PyAny>);

/// The calls of one event loop on one cache.
#[pyclass(frozen, weakref, module = "larder_cache")]
pub(crate) struct Queue {
    socket: NoticeSocket,
    completions: Completions<Token, Answer>,
}

/// A call that was started.
#[pyclass(frozen, module = "larder_cache")]
pub(crate) struct Started(CallId);

#[pymethods]
impl Queue {
    #[new]
    fn new(cache: &Cache) -> PyResult<Self> {
        let runtime = cache.host().runtime().map_err(of_host)?.clone();
        let (socket, sender) = notice_socket()?;
        Ok(Queue { socket, completions: Completions::new(runtime, move || sender.send()) })
    }

    /// The descriptor that becomes readable when there is something to take.
    fn fileno(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Starts a call, whose token `take` returns with the result.
    fn start(&self, token: Token, call: &Call) -> PyResult<Started> {
        let started = self.completions.start(token, call.take()?);
        started
            .map(Started)
            .map_err(|_| CacheClosed::new_err("the queue was closed, or inherited through a fork"))
    }

    /// Drops a call. Its token comes back all the same.
    fn cancel(&self, started: &Started) {
        self.completions.cancel(started.0);
    }

    /// The calls that have ended, each with its token, its result and its exception, one of which is `None`.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Vec<Ended>> {
        self.socket.clear();
        crate::log::write(py);
        let ended = self.completions.take().into_iter().map(|(token, outcome)| {
            let result = match outcome {
                Outcome::Done(answer) => answer(py),
                Outcome::Cancelled => Err(CacheClosed::new_err("the cache was closed before the call ended")),
                Outcome::Panicked => {
                    Err(LarderError::new_err("larder has a fault: see the message on stderr"))
                }
            };
            match result {
                Ok(result) => (token, result.unbind(), py.None()),
                Err(raised) => (token, py.None(), raised.into_value(py).into_any()),
            }
        });
        Ok(ended.collect())
    }
}
