//! Parts of calls that run in tasks of their own: a caller that leaves does not end them, and one that is not polled does not
//! hold up those who wait for them.

use tracing::{Instrument, Span};

/// Runs `work` in a task, and waits for it. `None` if the runtime shuts down. A panic of the task is resumed.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) async fn in_task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    match tokio::spawn(work.instrument(Span::current())).await {
        Ok(result) => Some(result),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_cancelled) => None,
        },
    }
}
