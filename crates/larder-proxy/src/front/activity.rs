//! What a connection does, for the deadlines of those that do nothing, or too slowly.
//!
//! ```text
//! connected ──────── request ─────────── response ─────── first byte ── request ──
//!    └── header timeout ┘      (none)       └ keepalive timeout ┘└ header timeout ┘
//! ```
//!
//! hyper has one deadline for both, for HTTP/1.1 only, and only after the first bytes have shown the version.

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The requests of one connection.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    running: usize,
    /// When the last request ended, or the connection began.
    last: Instant,
    /// When the first byte after it came.
    head: Option<Instant>,
    has_begun: bool,
    /// What comes between its requests begins none.
    is_http2: bool,
}

impl Activity {
    /// That of a new connection.
    pub(super) fn new() -> Activity {
        Activity(Arc::new(Mutex::new(State {
            running: 0,
            last: Instant::now(),
            head: None,
            has_begun: false,
            is_http2: false,
        })))
    }

    /// Bytes have come.
    pub(super) fn note_read(&self) {
        let mut state = self.0.lock();
        if state.running == 0 && state.head.is_none() && !state.is_http2 {
            state.head = Some(Instant::now());
        }
    }

    /// A request runs until the guard is dropped.
    pub(super) fn begin(&self, version: Version) -> Running {
        let mut state = self.0.lock();
        state.running += 1;
        state.has_begun = true;
        state.head = None;
        state.is_http2 |= version == Version::HTTP_2;
        Running(self.clone())
    }

    /// Completes when a head is not complete within `header`, at the latest after twice that time, or no request has begun
    /// within `keepalive`.
    pub(super) async fn ended(&self, header: Duration, keepalive: Duration) {
        loop {
            let now = Instant::now();
            let deadline = self.0.lock().deadline(now, header, keepalive);
            if deadline <= now {
                return;
            }
            // What begins or ends meanwhile may have an earlier deadline.
            sleep_until(deadline.min(now + header.min(keepalive))).await;
        }
    }
}

impl State {
    fn deadline(&self, now: Instant, header: Duration, keepalive: Duration) -> Instant {
        match self.head {
            _ if self.running > 0 => now + header,
            _ if !self.has_begun => self.last + header,
            Some(head) => head + header,
            None => self.last + keepalive,
        }
    }
}

/// A running request.
#[derive(Debug)]
pub(super) struct Running(Activity);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.running -= 1;
        state.last = Instant::now();
        state.head = None;
    }
}

pin_project! {
    /// A body whose request runs until the body is dropped.
    #[derive(Debug)]
    pub(super) struct RunningBody<B> {
        #[pin]
        body: B,
        running: Running,
    }
}

impl<B> RunningBody<B> {
    pub(super) fn new(body: B, running: Running) -> RunningBody<B> {
        RunningBody { body, running }
    }
}

impl<B: Body<Data = Bytes>> Body for RunningBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn pause(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_a_request_ends() {
        let (activity, start) = (Activity::new(), Instant::now());
        activity.note_read();
        activity.ended(SECOND, 60 * SECOND).await;
        assert_eq!(start.elapsed(), SECOND);

        let (activity, start) = (Activity::new(), Instant::now());
        drop(activity.begin(Version::HTTP_11));
        activity.ended(SECOND, 60 * SECOND).await;
        assert_eq!(start.elapsed(), 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_does_not_end_during_a_request() {
        let (activity, start) = (Activity::new(), Instant::now());
        let running = activity.begin(Version::HTTP_11);
        let request = async {
            // The body of the request.
            activity.note_read();
            pause(60 * SECOND).await;
            drop(running);
        };
        tokio::join!(activity.ended(SECOND, 5 * SECOND), request);
        assert_eq!(start.elapsed(), 65 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn head_that_has_begun_has_its_own_deadline() {
        let (activity, start) = (Activity::new(), Instant::now());
        drop(activity.begin(Version::HTTP_11));
        let head = async {
            pause(20 * SECOND).await;
            activity.note_read();
            pause(SECOND / 2).await;
            activity.note_read();
        };
        tokio::join!(activity.ended(SECOND, 60 * SECOND), head);
        assert!(start.elapsed() <= 22 * SECOND, "{:?}", start.elapsed());

        // A ping of HTTP/2 is no head.
        let (activity, start) = (Activity::new(), Instant::now());
        drop(activity.begin(Version::HTTP_2));
        activity.note_read();
        activity.ended(SECOND, 60 * SECOND).await;
        assert_eq!(start.elapsed(), 60 * SECOND);
    }
}
