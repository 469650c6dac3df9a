//! Running a loader: in a task of its own, so that whoever leaves cannot take the load with them, and with its panics
//! caught, so that those who wait learn of them.

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What a loader can say about the value that it returns. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct LoadCx(Arc<Mutex<Said>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    pub(crate) ttl: Option<Duration>,
    pub(crate) no_store: bool,
}

impl LoadCx {
    /// How long this value is fresh, whatever the call, the view or the cache say.
    pub fn ttl(&self, ttl: Duration) {
        self.0.lock().ttl = Some(ttl);
    }

    /// This value goes to those who wait for it and into no tier.
    pub fn no_store(&self) {
        self.0.lock().no_store = true;
    }

    pub(crate) fn said(&self) -> Said {
        *self.0.lock()
    }
}

/// The loader panicked; the panic has been reported where panics are.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs a loader to its end.
pub(crate) async fn run<F, R>(loader: impl FnOnce(LoadCx) -> F, cx: LoadCx) -> Result<R, Panicked>
where
    F: Future<Output = R>,
{
    let future = catch_unwind(AssertUnwindSafe(|| loader(cx))).map_err(|_| Panicked)?;
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        // The future is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
    .await
}
