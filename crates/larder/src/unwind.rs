//! Panics of functions of the user. One must not end a task that other callers wait for.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a function of the user. `None` if it panicked: the panic hook has reported that. What it changes must stay valid
/// if it does not end.
pub(crate) fn caught<R>(function: &'static str, run: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(run));
    if result.is_err() {
        tracing::error!(function, "a function of the user panicked");
    }
    result.ok()
}
