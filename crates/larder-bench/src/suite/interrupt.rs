//! Ctrl-C during a run of an hour: what was measured is kept and written.

use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

static LISTENING: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on the first Ctrl-C ends the run after its current measurement. The second ends the program.
pub(super) fn listen() -> Result<()> {
    if LISTENING.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Registered before this returns: a signal that comes earlier would end the program.
    let mut interrupts = {
        let _context = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    let wait = move || {
        while runtime.block_on(interrupts.recv()).is_some() {
            if REQUESTED.swap(true, Ordering::Relaxed) {
                larder_process::kill_all();
                std::process::exit(130);
            }
        }
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait)?;
    Ok(())
}

pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
