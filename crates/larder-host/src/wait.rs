//! Blocks a thread of the host until a call of a cache ends, and lets the host interrupt that.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How long a wait lasts at most before the host is asked whether to go on.
pub const WAIT_SLICE: Duration = Duration::from_millis(100);

/// The reason why a wait ended before its call. The call was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError<I> {
    /// The deadline has come.
    #[error("the call did not end before its deadline")]
    Deadline,
    /// The host interrupted the wait, with this.
    #[error("the wait was interrupted")]
    Interrupted(I),
    /// The cache was closed meanwhile ([`HostCache::close`](crate::HostCache::close)).
    #[error("the cache was closed")]
    Closed,
    /// The calling thread runs tasks of a tokio runtime, which would all wait. Nothing was polled.
    #[error("a thread of a tokio runtime must not wait")]
    InRuntime,
}

/// Blocks the calling thread until the future ends. A call of a cache needs a runtime of that cache
/// ([`Builder::runtime`](larder::Builder::runtime)), which must not end meanwhile: see
/// [`HostCache::wait`](crate::HostCache::wait). The thread must not have the lock of an interpreter; a hit needs no wait
/// ([`View::hit`](larder::View::hit)).
///
/// Every [`WAIT_SLICE`], and not before the first one, `interrupted` is asked: an error of it ends the wait. A host checks its
/// signals there, or a flag that its own way of waking threads sets.
///
/// A host that has fibers on a thread calls this on a thread for itself, with a future that tells of
/// [completions](crate::Completions).
///
/// # Errors
/// [`WaitError`]: the future was then dropped before it ended. What that means is documented with each call of larder.
///
/// # Panics
/// If the future or `interrupted` panics.
///
/// # Examples
/// ```
/// use larder_host::{WaitError, wait};
/// use std::time::{Duration, Instant};
///
/// assert_eq!(wait(async { 1 }, None, || Err("Ctrl-C")), Ok(1));
/// assert_eq!(wait(std::future::pending::<()>(), None, || Err("Ctrl-C")), Err(WaitError::Interrupted("Ctrl-C")));
/// let soon = Instant::now() + Duration::from_millis(5);
/// assert_eq!(wait(std::future::pending::<()>(), Some(soon), || Err("Ctrl-C")), Err(WaitError::Deadline));
/// ```
pub fn wait<F: Future, I>(
    future: F,
    deadline: Option<Instant>,
    mut interrupted: impl FnMut() -> Result<(), I>,
) -> Result<F::Output, WaitError<I>> {
    if Handle::try_current().is_ok() {
        return Err(WaitError::InRuntime);
    }
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    let mut next_check = None;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        loop {
            // A hit needs no time.
            let check_at = *next_check.get_or_insert_with(|| Instant::now() + WAIT_SLICE);
            let rung = bell.wait_until(deadline.map_or(check_at, |deadline| deadline.min(check_at)));
            let now = Instant::now();
            if now >= check_at {
                interrupted().map_err(WaitError::Interrupted)?;
                next_check = None;
            }
            if rung {
                break;
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(WaitError::Deadline);
            }
        }
        // A future that wakes itself again and again must not pass it.
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            // What ended in time is not lost.
            return match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => Ok(output),
                Poll::Pending => Err(WaitError::Deadline),
            };
        }
    }
}

/// Wakes the thread that waits. Not the parking of its thread: `interrupted` may use that.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Whether it was rung, by then.
    fn wait_until(&self, then: Instant) -> bool {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        while !*rung {
            let rest = then.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            rung = self.changed.wait_timeout(rung, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung = false;
        true
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::future::{pending, poll_fn};
    use std::sync::mpsc;

    fn never() -> Result<(), Infallible> {
        Ok(())
    }

    #[test]
    fn wake_by_another_thread_ends_the_wait_before_its_slice() {
        let is_prompt = || {
            let (send, receive) = mpsc::channel::<Waker>();
            let waking = std::thread::spawn(move || receive.recv().map(Waker::wake));
            let (mut polls, mut checks) = (0, 0);
            let woken = poll_fn(|context: &mut Context<'_>| {
                polls += 1;
                if polls > 1 {
                    return Poll::Ready(());
                }
                send.send(context.waker().clone()).expect("awaited");
                Poll::Pending
            });
            let count = || {
                checks += 1;
                never()
            };
            assert_eq!(wait(woken, None, count), Ok(()));
            assert_eq!(waking.join().expect("no panic"), Ok(()));
            checks == 0
        };
        // On a busy machine any thread may be late.
        assert!((0..20).any(|_| is_prompt()));
    }

    #[test]
    fn host_is_asked_once_a_slice_and_its_error_ends_the_wait() {
        let (began, mut checks) = (Instant::now(), 0);
        let interrupted = || {
            checks += 1;
            if checks < 3 { Ok(()) } else { Err("Ctrl-C") }
        };
        assert_eq!(wait(pending::<()>(), None, interrupted), Err(WaitError::Interrupted("Ctrl-C")));
        assert_eq!(checks, 3);
        assert!(began.elapsed() >= 3 * WAIT_SLICE);
    }

    #[test]
    fn deadline_ends_the_wait_before_the_first_slice() {
        let ended = || {
            let soon = Instant::now() + Duration::from_millis(1);
            let ended = wait(pending::<()>(), Some(soon), || Err("the slice has passed"));
            assert!(Instant::now() >= soon);
            ended
        };
        // On a busy machine the slice may pass.
        assert!((0..20).any(|_| ended() == Err(WaitError::Deadline)));
    }

    #[test]
    fn future_that_wakes_itself_passes_neither_deadline_nor_interruption() {
        let restless = || {
            poll_fn(|context: &mut Context<'_>| {
                context.waker().wake_by_ref();
                Poll::<()>::Pending
            })
        };
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(wait(restless(), Some(soon), never), Err(WaitError::Deadline));
        assert_eq!(wait(restless(), None, || Err(())), Err(WaitError::Interrupted(())));
    }

    #[test]
    fn thread_of_a_runtime_does_not_wait() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let task = runtime.spawn(async { wait(async { 1 }, None, never) });
        assert_eq!(wait(task, None, never).expect("ends").expect("no panic"), Err(WaitError::InRuntime));
        let _entered = runtime.enter();
        assert_eq!(wait(async { 1 }, None, never), Err(WaitError::InRuntime));
    }
}
