//! Waiting for something to become true, without sleeping longer than it takes.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than anything takes that works, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked: often enough that a test loses no time, seldom enough that what it waits for has the processor.
const EVERY: Duration = Duration::from_millis(10);

/// Asks until there is an answer, and returns it.
///
/// # Panics
/// If there is none after [`PATIENCE`]; `what` says what was waited for.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        sleep(EVERY);
    }
}
