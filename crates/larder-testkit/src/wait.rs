//! Bounded waits: a test that waits for what never comes fails, and says what it waited for.

use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than anything takes that works, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long a whole test may take. A soak adds its own time.
pub const DEADLINE: Duration = Duration::from_secs(240);
/// The pause between two questions: a test loses little time, and what it waits for gets the processor.
const PAUSE: Duration = Duration::from_millis(10);
/// The same where the question is asked on a runtime, which works in the pause.
const ASYNC_PAUSE: Duration = Duration::from_millis(2);

/// Asks until there is an answer, and returns it. Blocks the thread.
///
/// # Panics
/// If there is none within [`PATIENCE`]; `what` says what was expected.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(PAUSE);
    }
}

/// Asks until it is so, without blocking the runtime.
///
/// # Panics
/// If it is not so within [`PATIENCE`] of real time, also under a paused clock; `what` says what was expected.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    let asking = async {
        while !is_so().await {
            assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
            tokio::time::sleep(ASYNC_PAUSE).await;
        }
    };
    // Bounds the question itself too.
    within(2 * PATIENCE, what, asking).await;
}

/// Waits for a future.
///
/// # Panics
/// If it is not ready within `limit` of the runtime's time; `what` says what was expected.
pub async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}

/// Ends the process if the test that holds it takes longer than [`DEADLINE`]: also a test whose thread is blocked or
/// spins. Every [`RedisServer`](crate::RedisServer) holds one.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Deadline(#[expect(dead_code, reason = "its drop ends the watch")] Sender<()>);

impl Deadline {
    /// Watches the test of this thread.
    pub fn start() -> Self {
        let soak = std::env::var("LARDER_SOAK").ok().and_then(|seconds| seconds.parse().ok());
        Deadline::after(DEADLINE + Duration::from_secs_f64(soak.unwrap_or(0.0)))
    }

    /// The same with another time.
    pub fn after(limit: Duration) -> Self {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let (alive, ended) = channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{test}: the test did not end within {limit:?}");
                larder_process::kill_all();
                std::process::exit(101);
            }
        });
        Deadline(alive)
    }
}
