//! Ctrl-C, SIGTERM, and the end of the terminal.

use crate::process::service_manager;
use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Every SIGHUP from now on.
fn hangups() -> Result<Signal> {
    signal(SignalKind::hangup()).context("cannot listen for SIGHUP")
}

/// Calls `read` after each SIGHUP, so that a part reads its files again. Whoever uses this does not stop by it.
pub(crate) fn reload_after_hangups(read: impl Fn() + Send + 'static) -> Result<()> {
    let mut hangups = hangups()?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            service_manager::reload(&read);
        }
    });
    Ok(())
}

/// Whether SIGHUP reads files again, and stops nothing. Where there are none, a service manager that asks for it means the same.
pub(crate) fn hangup_reloads(has_files: bool) -> bool {
    has_files || service_manager::is_present()
}

/// Installs the signal handlers. The future completes after the first Ctrl-C, SIGTERM or, unless it `reloads`, SIGHUP; a
/// second one ends the process immediately.
pub(crate) fn stop_signal(reloads: bool) -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hangup = if reloads || ignores_hangup() { None } else { Some(hangups()?) };
    let mut any = async move || {
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => _ = hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = hung_up => {}
        }
    };
    Ok(async move {
        any().await;
        tokio::spawn(async move {
            any().await;
            std::process::exit(130);
        });
    })
}

/// Whether the program was started to outlive its terminal, as by `nohup`.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // A bit for each signal; SIGHUP is the first.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
