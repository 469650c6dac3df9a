//! The end of a run by a signal: Ctrl-C or SIGTERM.
//!
//! A suite that takes an hour ends after its current measurement, and what was measured is kept. Others end at once. In either
//! case nothing is left: child processes and temporary folders would outlive a process that ends without destructors.

use super::output_folder::OutputFolder;
use anyhow::{Context, Result};
use std::fs::{Permissions, remove_dir_all};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static WAITS_FOR_MEASUREMENT: AtomicBool = AtomicBool::new(false);
static EXITING: AtomicBool = AtomicBool::new(false);

/// From now on the first signal ends the program, or the run of a suite that [waits](wait_for_measurement) for its current
/// measurement; the second ends the program in any case. The exit status is 128 plus the number of the signal.
///
/// All temporary folders of the process are in the returned one, so that it can be removed with them. `output` is the folder of
/// the results, if there will be any.
pub(crate) fn listen(output: Option<&OutputFolder>) -> Result<TempDir> {
    let mut folder = tempfile::Builder::new();
    // Servers that run as another user have folders in it.
    folder.prefix("larder-bench-").permissions(Permissions::from_mode(0o711));
    let folder = folder.tempdir().context("cannot create a temporary folder")?;
    _ = tempfile::env::override_temp_dir(folder.path());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Registered before this returns: a signal that comes earlier ends the program, which has nothing to leave yet.
    let (mut interrupts, mut terminations) = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let (path, output) = (folder.path().to_owned(), output.cloned());
    let wait = move || loop {
        let kind = runtime.block_on(async {
            tokio::select! {
                _ = interrupts.recv() => SignalKind::interrupt(),
                _ = terminations.recv() => SignalKind::terminate(),
            }
        });
        if REQUESTED.swap(true, Ordering::Relaxed) || !WAITS_FOR_MEASUREMENT.load(Ordering::Relaxed) {
            EXITING.store(true, Ordering::Relaxed);
            _ = remove_dir_all(&path);
            larder_process::kill_all();
            // What a child has created meanwhile.
            _ = remove_dir_all(&path);
            if let Some(output) = &output {
                output.remove_if_empty();
            }
            std::process::exit(128 + kind.as_raw_value());
        }
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait)?;
    Ok(folder)
}

/// Whether the suite that runs now keeps what it has measured: the first signal ends it after its current measurement.
pub(crate) fn wait_for_measurement(waits: bool) {
    WAITS_FOR_MEASUREMENT.store(waits, Ordering::Relaxed);
}

/// Returns unless a signal is ending the program: the children that it kills let the measurement fail, which is no error to
/// report.
pub(crate) fn await_exit() {
    while EXITING.load(Ordering::Relaxed) {
        std::thread::park();
    }
}

/// Whether a signal has requested the end of the run.
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
