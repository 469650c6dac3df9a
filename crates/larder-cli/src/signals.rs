//! Ctrl-C and SIGTERM.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Listens from now on; the future completes on the first Ctrl-C or SIGTERM. A second one ends the process at once.
pub(crate) fn requested_to_stop() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut either = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    Ok(async move {
        either().await;
        tokio::spawn(async move {
            either().await;
            std::process::exit(130);
        });
    })
}
