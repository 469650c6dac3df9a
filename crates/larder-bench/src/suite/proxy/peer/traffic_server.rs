//! Apache Traffic Server.

use super::{IDLE_SECONDS, MAX_BODY_BYTES, MAX_CONNECTIONS, MEMORY_BYTES, Setup, WORKERS, create_open};
use anyhow::Result;
use rustix::process::geteuid;
use std::fs::write;
use std::process::Command;

/// Responses are in memory and in a file in the folder. It is one process of several threads.
pub(super) fn command(setup: Setup<'_>) -> Result<Command> {
    let Setup { folder, origin, certificate, .. } = setup;
    let settings = folder.join("settings");
    for name in ["settings", "run", "log", "cache"] {
        create_open(&folder.join(name))?;
    }
    write(settings.join("records.config"), records(setup))?;
    write(settings.join("remap.config"), format!("map / http://{origin}/\n"))?;
    write(settings.join("storage.config"), format!("{} {MEMORY_BYTES}\n", folder.join("cache").display()))?;
    let all = "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n";
    write(settings.join("ip_allow.yaml"), all)?;
    let certificates = certificate.map_or(String::new(), |certificate| {
        let (chain, key) = (certificate.chain.display(), certificate.readable_key.display());
        format!("dest_ip=* ssl_cert_name={chain} ssl_key_name={key}\n")
    });
    write(settings.join("ssl_multicert.config"), certificates)?;
    let run_root = folder.join("runroot.yaml");
    let path = folder.display();
    write(
        &run_root,
        format!(
            "prefix: {path}\nexec_prefix: {path}\nbindir: /usr/bin\nsbindir: /usr/bin\nsysconfdir: {path}/settings\n\
             datadir: {path}/cache\nincludedir: /usr/include\nlibdir: /usr/lib/trafficserver\n\
             libexecdir: /usr/lib/trafficserver/modules\nlocalstatedir: {path}/run\nruntimedir: {path}/run\n\
             logdir: {path}/log\ncachedir: {path}/cache\n"
        ),
    )?;
    let mut command = Command::new("traffic_server");
    command.arg(format!("--run-root={}", run_root.display()));
    Ok(command)
}

fn records(Setup { address, certificate, .. }: Setup<'_>) -> String {
    let tls = if certificate.is_some() { ":ssl" } else { "" };
    // It refuses to serve as root.
    let user = if geteuid().is_root() { "nobody" } else { "#-1" };
    let records = [
        ("admin.user_id STRING", user.to_owned()),
        ("http.server_ports STRING", format!("{}:ip-in={}{tls}", address.port(), address.ip())),
        ("exec_thread.autoconfig INT", "0".to_owned()),
        ("exec_thread.limit INT", WORKERS.to_string()),
        ("accept_threads INT", "0".to_owned()),
        ("net.connections_throttle INT", (2 * MAX_CONNECTIONS).to_string()),
        ("net.max_connections_in INT", (2 * MAX_CONNECTIONS).to_string()),
        ("net.max_requests_in INT", "0".to_owned()),
        ("http.keep_alive_no_activity_timeout_in INT", IDLE_SECONDS.to_string()),
        // Requests wait until the cache is ready.
        ("http.wait_for_cache INT", "1".to_owned()),
        ("http.cache.required_headers INT", "2".to_owned()),
        ("http.insert_response_via_str INT", "0".to_owned()),
        ("cache.ram_cache.size INT", MEMORY_BYTES.to_string()),
        ("cache.ram_cache_cutoff INT", MAX_BODY_BYTES.to_string()),
        ("log.logging_enabled INT", "0".to_owned()),
        ("url_remap.pristine_host_hdr INT", "1".to_owned()),
    ];
    records.into_iter().map(|(name, value)| format!("CONFIG proxy.config.{name} {value}\n")).collect()
}
