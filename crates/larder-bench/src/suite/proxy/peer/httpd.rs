//! The Apache HTTP server with `mod_cache_disk`.

use super::{IDLE_SECONDS, MAX_BODY_BYTES, MAX_CONNECTIONS, Setup, WORKERS, create_open};
use anyhow::Result;
use std::fmt::Write;
use std::process::Command;

/// Where Debian has the modules.
const MODULES: &str = "/usr/lib/apache2/modules";
/// The threads of a worker. Each waits for one response of the origin; idle connections need none.
const THREADS: usize = 128;

/// Responses are files in the folder.
pub(super) fn command(setup: Setup<'_>) -> Result<Command> {
    create_open(&setup.folder.join("cache"))?;
    let file = setup.folder.join("httpd.conf");
    std::fs::write(&file, configuration(setup)?)?;
    let mut command = Command::new("apache2");
    command.arg("-DFOREGROUND").arg("-f").arg(file);
    Ok(command)
}

fn configuration(Setup { folder, address, origin, certificate }: Setup<'_>) -> Result<String> {
    let folder = folder.display();
    let mut text = format!(
        "ServerRoot {folder}
        ServerName localhost
        PidFile {folder}/pid
        DefaultRuntimeDir {folder}
        ErrorLog /dev/stderr
        Listen {address}
        # Of no effect unless root starts it.
        User www-data
        Group www-data
        StartServers {WORKERS}
        ServerLimit {WORKERS}
        ThreadLimit {THREADS}
        ThreadsPerChild {THREADS}
        MaxRequestWorkers {workers}
        MinSpareThreads 1
        MaxSpareThreads {workers}
        AsyncRequestWorkerFactor {MAX_CONNECTIONS}
        KeepAlive On
        KeepAliveTimeout {IDLE_SECONDS}
        MaxKeepAliveRequests 0
        EnableSendfile On
        ProxyPass / http://{origin}/
        CacheEnable disk /
        CacheRoot {folder}/cache
        CacheDirLevels 2
        CacheDirLength 1
        CacheMaxFileSize {MAX_BODY_BYTES}
        CacheDefaultExpire 0
        CacheIgnoreNoLastMod On
        CacheStoreExpired On
",
        workers = WORKERS * THREADS
    );
    let mut modules = vec!["mpm_event", "authz_core", "proxy", "proxy_http", "cache", "cache_disk"];
    if let Some(certificate) = certificate {
        modules.extend(["ssl", "http2"]);
        let (chain, key) = (certificate.chain.display(), certificate.key.display());
        writeln!(text, "SSLEngine on\nSSLCertificateFile {chain}\nSSLCertificateKeyFile {key}")?;
        writeln!(text, "Protocols h2 http/1.1")?;
    }
    let load = |module: &str| format!("LoadModule {module}_module {MODULES}/mod_{module}.so\n");
    Ok(modules.into_iter().map(load).chain([text]).collect())
}
