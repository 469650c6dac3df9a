//! A test that hangs fails.

use larder_testkit::{Deadline, PATIENCE, start, within};
use std::process::Command;
use std::time::{Duration, Instant};

const HANGS: &str = "LARDER_TESTKIT_HANGS";

/// Hangs, but only in the process that [`deadline_ends_a_process_that_hangs`] starts.
#[test]
fn hanging_test() {
    if std::env::var_os(HANGS).is_some() {
        let _deadline = Deadline::after(Duration::from_millis(500));
        let _child = start(Command::new("sleep").arg("1000"));
        std::thread::sleep(10 * PATIENCE);
    }
}

#[test]
fn deadline_ends_a_process_that_hangs() {
    let (start, _deadline) = (Instant::now(), Deadline::after(PATIENCE));
    let program = std::env::current_exe().expect("the path of this test");
    let output = Command::new(program)
        .args(["--exact", "hanging_test", "--nocapture"])
        .env(HANGS, "1")
        // Its child has the same output: this returns when both have ended.
        .output()
        .expect("the test starts again");
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(output.status.code(), Some(101));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("hanging_test: the test did not end within 500ms"), "{errors}");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "not within 1s: it comes")]
async fn within_panics_with_what_did_not_come() {
    within(Duration::from_secs(1), "it comes", std::future::pending::<()>()).await;
}
