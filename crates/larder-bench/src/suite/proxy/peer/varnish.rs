//! Varnish with its built-in rules.

use super::{IDLE_SECONDS, MEMORY_BYTES, Setup};
use std::process::Command;

/// Responses are in memory. A thread serves a request, so there is no number of workers. It has no TLS.
pub(super) fn command(Setup { folder, address, origin, .. }: Setup<'_>) -> Command {
    let mut command = Command::new("varnishd");
    command.args(["-F", "-a", &address.to_string(), "-b", &origin.to_string(), "-T", "none"]);
    command.args(["-s", &format!("malloc,{MEMORY_BYTES}")]).arg("-n").arg(folder);
    let idle = format!("timeout_idle={IDLE_SECONDS}");
    // Stored responses are kept for an hour, to be revalidated.
    for parameter in ["default_ttl=0", "default_grace=0", "default_keep=3600", &idle] {
        command.args(["-p", parameter]);
    }
    command
}
