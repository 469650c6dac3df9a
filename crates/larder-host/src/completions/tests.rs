//! Tests of the queue of calls.

use super::*;
use crate::wait;
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};

/// A queue, how often there was a notice, and what a waiting thread is woken by.
struct Observed<T> {
    completions: Completions<T, u32>,
    notices: Arc<AtomicUsize>,
    ready: Arc<Notify>,
    runtime: Runtime,
}

fn observed<T: Send + 'static>() -> Observed<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let (notices, ready) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let completions = Completions::new(runtime.handle().clone(), {
        let (notices, ready) = (notices.clone(), ready.clone());
        move || {
            notices.fetch_add(1, Ordering::SeqCst);
            ready.notify_one();
        }
    });
    Observed { completions, notices, ready, runtime }
}

impl<T: Send + 'static> Observed<T> {
    /// Waits for a notice.
    fn notified(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        wait(self.ready.notified(), Some(deadline), || Ok::<_, ()>(())).expect("a notice");
    }

    /// Waits until so many calls have ended.
    fn take(&self, calls: usize) -> Vec<(T, Outcome<u32>)> {
        let mut taken = Vec::new();
        while taken.len() < calls {
            self.notified();
            taken.extend(self.completions.take());
        }
        taken
    }
}

#[test]
fn queue_that_becomes_non_empty_sends_one_notice() {
    let host = observed();
    let (first, [second, third]) = (oneshot::channel::<u32>(), [(); 2].map(|()| oneshot::channel::<u32>()));
    let calls = [(1, first), (2, second), (3, third)].map(|(token, (send, receive))| {
        host.completions.start(token, async move { receive.await.expect("sent") }).expect("open");
        send
    });
    assert_eq!((host.completions.outstanding(), host.notices.load(Ordering::SeqCst)), (3, 0));
    for (n, send) in (10..).zip(calls) {
        send.send(n).expect("awaited");
    }
    // No more notices, although more calls end before the first is taken.
    while host.completions.queue.lock().expect("ours").ended.len() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(host.notices.load(Ordering::SeqCst), 1);
    let taken: BTreeSet<_> =
        host.completions.take().into_iter().map(|(token, outcome)| (token, value(outcome))).collect();
    assert_eq!(taken, BTreeSet::from([(1, 10), (2, 11), (3, 12)]));
    host.completions.start(4, async { 4 }).expect("open");
    assert_eq!(host.take(1), [(4, Outcome::Done(4))]);
    assert_eq!(host.notices.load(Ordering::SeqCst), 2);
    assert_eq!(host.completions.outstanding(), 0);
}

fn value(outcome: Outcome<u32>) -> u32 {
    match outcome {
        Outcome::Done(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn panic_and_cancellation_are_outcomes() {
    let host = observed();
    host.completions.start("panics", async { panic!("as the test wants") }).expect("open");
    assert_eq!(host.take(1), [("panics", Outcome::Panicked)]);
    let id = host.completions.start("cancelled", pending()).expect("open");
    host.completions.cancel(id);
    assert_eq!(host.take(1), [("cancelled", Outcome::Cancelled)]);
    host.completions.cancel(id);
    assert_eq!(host.completions.take(), [], "it ended once");
}

#[test]
fn cancelled_call_is_dropped() {
    let host = observed();
    let (held, mut dropped) = oneshot::channel::<()>();
    let id = host.completions.start((), async move {
        let _held = held;
        pending().await
    });
    host.completions.cancel(id.expect("open"));
    let deadline = Instant::now() + Duration::from_secs(60);
    wait(async { (&mut dropped).await.expect_err("nothing is sent") }, Some(deadline), || Ok::<_, ()>(()))
        .expect("the call is dropped");
}

#[test]
fn close_returns_every_token_and_starts_nothing() {
    let host = observed();
    host.completions.start(1, async { 7 }).expect("open");
    host.notified();
    host.completions.start(2, pending()).expect("open");
    let mut closed = host.completions.close();
    closed.sort_by_key(|(token, _)| *token);
    assert_eq!(closed, [(1, Outcome::Done(7)), (2, Outcome::Cancelled)]);
    assert_eq!(host.completions.start(3, async { 3 }), Err(3));
    assert!(host.completions.take().is_empty() && host.completions.close().is_empty());
    assert_eq!(host.notices.load(Ordering::SeqCst), 1);
}

#[test]
fn end_of_the_runtime_ends_its_calls() {
    let host = observed();
    host.completions.start(1, pending()).expect("open");
    let Observed { completions, runtime, .. } = host;
    runtime.shutdown_timeout(Duration::from_secs(60));
    completions.start(2, pending()).expect("the queue is open");
    let mut taken = completions.take();
    taken.sort_by_key(|(token, _)| *token);
    assert_eq!(taken, [(1, Outcome::Cancelled), (2, Outcome::Cancelled)]);
}

#[test]
fn close_under_load_loses_no_token() {
    const CALLS: usize = 10_000;
    let host = observed();
    let completions = host.completions.clone();
    let starter = std::thread::spawn(move || {
        let started = |n: &usize| {
            completions
                .start(*n, async {
                    tokio::task::yield_now().await;
                    1
                })
                .is_ok()
        };
        (0..CALLS).take_while(started).count()
    });
    let mut tokens = BTreeSet::new();
    let mut add =
        |taken: Vec<(usize, Outcome<u32>)>| taken.into_iter().all(|(token, _)| tokens.insert(token));
    while host.completions.queue.lock().expect("ours").started < CALLS as u64 / 2 {
        assert!(add(host.completions.take()), "a token came out twice");
    }
    assert!(add(host.completions.close()), "a token came out twice");
    let started = starter.join().expect("no panic");
    assert!(host.completions.take().is_empty());
    assert_eq!(tokens, (0..started).collect());
}

#[cfg(unix)]
#[test]
fn socket_is_readable_until_it_is_cleared() {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    let (socket, sender) = notice_socket().expect("a pair");
    let watched = UnixStream::from(socket.as_fd().try_clone_to_owned().expect("another descriptor"));
    let is_readable = || (&watched).read(&mut [0]).is_ok_and(|bytes| bytes == 1);
    assert!(!is_readable());
    // More than its buffer takes: nobody blocks.
    (0..1_000_000).for_each(|_| sender.send());
    assert!(is_readable());
    socket.clear();
    assert!(!is_readable());
    sender.send();
    assert!(is_readable());
}
