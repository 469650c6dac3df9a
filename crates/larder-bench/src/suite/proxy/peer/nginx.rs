//! nginx with `proxy_cache`.

use super::{IDLE_SECONDS, MAX_CONNECTIONS, MEMORY_BYTES, Setup, WORKERS};
use anyhow::Result;
use std::process::Command;

/// Responses are files in the folder. With `tcp_nopush` the last part of 100 KiB would wait 40 ms for an acknowledgement.
pub(super) fn command(setup: Setup<'_>) -> Result<Command> {
    let file = setup.folder.join("nginx.conf");
    std::fs::write(&file, configuration(setup))?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(setup.folder).arg("-c").arg(file).args(["-e", "stderr"]);
    Ok(command)
}

fn configuration(Setup { folder, address, origin, certificate }: Setup<'_>) -> String {
    let folder = folder.display();
    let (tls, keys) = match certificate {
        Some(certificate) => (
            " ssl http2",
            format!(
                "ssl_certificate {}; ssl_certificate_key {};",
                certificate.chain.display(),
                certificate.key.display()
            ),
        ),
        None => ("", String::new()),
    };
    format!(
        "daemon off; worker_processes {WORKERS}; worker_rlimit_nofile {files}; pid {folder}/pid;
        events {{ worker_connections {MAX_CONNECTIONS}; }}
        http {{
            access_log off; sendfile on; keepalive_requests 100000000;
            keepalive_timeout {IDLE_SECONDS}s;
            client_body_temp_path {folder}/client; proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
            proxy_cache_path {folder}/cache levels=1:2 keys_zone=responses:32m max_size={MEMORY_BYTES} inactive=1h
                use_temp_path=off;
            upstream origin {{ server {origin}; keepalive 64; keepalive_requests 100000000; }}
            server {{
                listen {address}{tls} reuseport; {keys}
                location / {{
                    proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection '';
                    proxy_set_header Host $http_host;
                    proxy_cache responses; proxy_cache_revalidate on;
                }}
            }}
        }}
",
        files = 2 * MAX_CONNECTIONS
    )
}
