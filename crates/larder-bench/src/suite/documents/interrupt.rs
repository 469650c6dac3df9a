//! Ctrl-C during a run of an hour: what was measured is kept and written.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static LISTENING: Once = Once::new();

/// From now on the first Ctrl-C ends the run after its current measurement. The second ends the program.
pub(super) fn listen() {
    LISTENING.call_once(|| {
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    if REQUESTED.swap(true, Ordering::Relaxed) {
                        larder_process::kill_all();
                        std::process::exit(130);
                    }
                }
            });
        });
    });
}

pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
