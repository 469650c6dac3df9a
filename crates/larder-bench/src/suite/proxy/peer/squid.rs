//! Squid as an accelerator.

use super::{IDLE_SECONDS, MAX_BODY_BYTES, MAX_CONNECTIONS, MEMORY_BYTES, Setup};
use anyhow::Result;
use std::process::Command;

/// Responses are in memory. Squid is one process: several need a folder of root's for their sockets. Debian's speaks no
/// HTTP/2.
pub(super) fn command(setup: Setup<'_>) -> Result<Command> {
    let file = setup.folder.join("squid.conf");
    std::fs::write(&file, configuration(setup))?;
    let mut command = Command::new("squid");
    command.arg("-N").arg("-f").arg(file);
    Ok(command)
}

fn configuration(Setup { folder, address, origin, certificate }: Setup<'_>) -> String {
    let folder = folder.display();
    let (port, keys) = match certificate {
        Some(certificate) => (
            "https_port",
            format!(
                " tls-cert={} tls-key={}",
                certificate.chain.display(),
                certificate.readable_key.display()
            ),
        ),
        None => ("http_port", String::new()),
    };
    format!(
        "{port} {address} accel defaultsite=localhost no-vhost{keys}
cache_peer {host} parent {origin_port} 0 no-query no-digest originserver login=PASS default name=origin
cache_peer_access origin allow all
http_access allow all
cache_mem {megabytes} MB
maximum_object_size {MAX_BODY_BYTES} bytes
maximum_object_size_in_memory {MAX_BODY_BYTES} bytes
max_filedescriptors {MAX_CONNECTIONS}
client_idle_pconn_timeout {IDLE_SECONDS} seconds
pid_filename {folder}/pid
access_log none
cache_log stdio:{folder}/log
cache_store_log none
netdb_filename none
coredump_dir {folder}
visible_hostname localhost
pinger_enable off
shutdown_lifetime 0 seconds
",
        host = origin.ip(),
        origin_port = origin.port(),
        megabytes = MEMORY_BYTES >> 20,
    )
}
