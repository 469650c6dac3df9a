//! The proxy of this project, from the folder of this program.

use super::{IDLE_SECONDS, MAX_CONNECTIONS, MEMORY_BYTES, Setup, WORKERS};
use crate::suite::server::larder;
use anyhow::Result;
use std::process::Command;

/// Responses are in memory.
pub(super) fn command(setup: Setup<'_>) -> Result<Command> {
    let Setup { folder, address, origin, certificate } = setup;
    let mut options = format!(
        "[proxy]\ncache_bytes = {MEMORY_BYTES}\nmax_connections = {MAX_CONNECTIONS}\nkeepalive_timeout_ms = {}\n",
        IDLE_SECONDS * 1_000
    );
    if let Some(certificate) = certificate {
        options += &format!("tls_cert = {:?}\ntls_key = {:?}\n", certificate.chain, certificate.key);
    }
    let file = folder.join("larder.toml");
    std::fs::write(&file, options)?;
    let mut command = Command::new(larder()?);
    command.args(["proxy", "--listen", &address.to_string(), "--origin", &format!("http://{origin}")]);
    // The runtime reads it.
    command.arg("--config").arg(file).env("TOKIO_WORKER_THREADS", WORKERS.to_string());
    Ok(command)
}
