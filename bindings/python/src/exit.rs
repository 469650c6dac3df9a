//! The exit of the interpreter: a daemon thread that waits in larder must not come back to it.
//!
//! Up to Python 3.13 such a thread is ended where it asks for the lock of the interpreter, which would unwind through frames of
//! Rust and abort the process.

use pyo3::prelude::*;
use std::sync::OnceLock;
use std::thread::ThreadId;

/// The thread that ends the interpreter, once it does.
static EXITING: OnceLock<ThreadId> = OnceLock::new();

/// From now on only this thread comes back from larder.
#[pyfunction]
pub(crate) fn exiting() {
    _ = EXITING.set(std::thread::current().id());
}

/// Keeps the thread for ever, if another one ends the interpreter. The thread must not have its lock.
pub(crate) fn stay() {
    while is_left_behind() {
        std::thread::park();
    }
}

/// Calls into Python, unless another thread ends the interpreter.
pub(crate) fn unless_exiting(call: impl FnOnce(Python<'_>) -> PyResult<()>) -> PyResult<()> {
    if is_left_behind() {
        return Ok(());
    }
    Python::try_attach(call).unwrap_or(Ok(()))
}

fn is_left_behind() -> bool {
    EXITING.get().is_some_and(|thread| *thread != std::thread::current().id())
}
