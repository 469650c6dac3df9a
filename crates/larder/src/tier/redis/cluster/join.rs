//! Awaiting several futures at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Awaits all. They are polled in their order, in the caller's task: their requests are sent in this order.
pub(super) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = pending.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_ready = true;
        for (future, output) in pending.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Duration, Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn all_run_at_once_and_outputs_keep_their_order() {
        let started = Instant::now();
        let wait = async |seconds| {
            sleep(Duration::from_secs(seconds)).await;
            seconds
        };
        assert_eq!(join_all([3, 1, 2].map(wait)).await, [3, 1, 2]);
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        assert!(join_all([0; 0].map(wait)).await.is_empty());
    }
}
