//! The timer of a connection, which hyper asks for the deadline of each request head.
//!
//! ```text
//! hyper:  deadline 1 ─ head │ deadline 2 ─ head │ deadline 3 ──────── … ──────────── over
//! tokio:  sleep until deadline 1 ───────────────────────────┐ until deadline 3 ──────┘
//! ```
//!
//! hyper drops the deadline when the head is there, and makes one for the next. A sleep of tokio takes a lock of all threads
//! when it begins and when it is dropped, so that two of them cost as much as the lookup of a redirect. A connection keeps one
//! sleep instead. If it ends before the current deadline, it begins again.

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::task::unconstrained;

/// The timer of one connection, whose deadlines are all awaited by the same task.
#[derive(Default)]
pub(super) struct ConnectionTimer(Arc<Mutex<Alarm>>);

#[derive(Default)]
struct Alarm {
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Whether the sleep wakes the task when it ends.
    is_set: bool,
}

impl Alarm {
    /// Ready when the sleep has ended. It begins anew if it would end later than `deadline`.
    fn poll_until(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let deadline = tokio::time::Instant::from_std(deadline);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        loop {
            if sleep.deadline() > deadline {
                sleep.as_mut().reset(deadline);
                self.is_set = false;
            }
            if self.is_set && !sleep.is_elapsed() {
                return Poll::Pending;
            }
            // Unconstrained: a task that has used up its budget would get `Pending` from a sleep that will not wake it.
            let polled = Pin::new(&mut unconstrained(sleep.as_mut())).poll(context);
            self.is_set = polled.is_pending();
            ready!(polled);
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

impl Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Deadline { alarm: self.0.clone(), deadline })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

/// One deadline of a connection.
struct Deadline {
    alarm: Arc<Mutex<Alarm>>,
    deadline: Instant,
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.alarm.lock().poll_until(self.deadline, context)
    }
}

impl Sleep for Deadline {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);

    async fn is_over(sleep: &mut Pin<Box<dyn Sleep>>) -> bool {
        poll_fn(|context| Poll::Ready(sleep.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_ends_when_it_is_over_whatever_the_sleep_of_earlier_ones() {
        let timer = ConnectionTimer::default();
        let start = timer.now();
        for (after, expected) in [(10, 10), (5, 15), (20, 35)] {
            timer.sleep(after * SECOND).await;
            assert_eq!(timer.now() - start, expected * SECOND);
        }
        // The head was there in time, and the next one is awaited.
        assert!(!is_over(&mut timer.sleep(10 * SECOND)).await);
        advance(9 * SECOND).await;
        timer.sleep(10 * SECOND).await;
        assert_eq!(timer.now() - start, 54 * SECOND);
        // An earlier deadline than that of the sleep.
        assert!(!is_over(&mut timer.sleep(60 * SECOND)).await);
        timer.sleep(SECOND).await;
        assert_eq!(timer.now() - start, 55 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_quick_succession_share_a_sleep() {
        let timer = ConnectionTimer::default();
        let sleep_ends = || timer.0.lock().sleep.as_ref().map(|sleep| sleep.deadline().into_std());
        let first = timer.now() + 10 * SECOND;
        for _ in 0..9 {
            assert!(!is_over(&mut timer.sleep(10 * SECOND)).await);
            advance(SECOND).await;
            assert_eq!(sleep_ends(), Some(first));
        }
        advance(2 * SECOND).await;
        let mut last = timer.sleep(10 * SECOND);
        assert!(!is_over(&mut last).await);
        assert_eq!(sleep_ends(), Some(timer.now() + 10 * SECOND));
        last.await;
    }
}
