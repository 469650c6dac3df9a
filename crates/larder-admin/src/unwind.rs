//! Panics of what others have registered. One must not end the request that asked for it, nor the thread that samples.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Runs a function. `None` if it panicked: the panic hook has reported that.
pub(crate) fn caught<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// Runs a function and the future that it returns. `None` if one of them panicked.
pub(crate) async fn caught_async<'a, R>(
    start: impl FnOnce() -> Pin<Box<dyn Future<Output = R> + Send + 'a>>,
) -> Option<R> {
    let mut future = caught(start)?;
    poll_fn(move |context| match caught(|| future.as_mut().poll(context)) {
        Some(polled) => polled.map(Some),
        None => Poll::Ready(None),
    })
    .await
}
