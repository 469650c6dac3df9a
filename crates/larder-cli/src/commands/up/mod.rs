//! `larder up`: all parts in one process, under one supervisor.
//!
//! ```text
//!             ┌── server ──── own threads ────── Store ◄─┐ the second tier of the shortener
//! supervisor ─┼── links ───── caches, SQLite ────────────┘   or, with `--origin`, a proxy in its place
//!             └── admin ───── reads the statistics of the others
//! ```
//!
//! Listeners, stores and caches are created here and lent to the parts, so that they survive the restart of a part.

mod web;

use crate::options::settings;
use crate::output::{print, remark};
use crate::parts::data_folder;
use crate::parts::explainers;
use crate::parts::sources::{self, CurrentStats};
use crate::parts::startup_pages;
use crate::parts::{bind_server, open_store, read_again, runtime};
use crate::process::admin_port;
use crate::process::files::{ADMIN_CONNECTIONS, Shares};
use crate::process::listen::ListenAddress;
use crate::process::service_manager::announced;
use crate::process::signals::{self, hangup_reloads, reload_after_hangups};
use crate::process::supervisor::Supervisor;
use crate::process::telemetry;
use anyhow::Result;
use larder_admin::{Registry, Token};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use web::Web;

/// The guarantee is five seconds, without a snapshot; the rest is for the exit of the process.
const STOP_DEADLINE: Duration = Duration::from_millis(4_500);
/// A stop that takes longer says what it waits for.
const SHORT_STOP: Duration = Duration::from_millis(500);
/// The part of this time in which the parts drain their connections.
const DRAIN_MS: u64 = 3_000;

pub(crate) fn run(settings: settings::Up) -> Result<()> {
    runtime()?.block_on(up(settings))
}

async fn up(mut settings: settings::Up) -> Result<()> {
    settings.server.config.validate().map_err(|error| settings.server.sources.of_server(error))?;
    // Before the cache server takes the place of a missing Redis: the options of a Redis are not for it.
    match &settings.proxy {
        Some(proxy) => proxy.config.validate().map_err(|error| proxy.sources.of_proxy(error))?,
        None => settings.links.config.validate().map_err(|error| settings.links.sources.of_links(error))?,
    }
    let _lock = data_folder::open(&settings.data)?;
    let admin_token = Token::load_or_create(&settings.data)?;
    let proxy_is_encrypted = settings.proxy.as_ref().is_some_and(|proxy| proxy.config.tls_cert.is_some());
    let reloads = hangup_reloads(proxy_is_encrypted || settings.server.config.tls_port.is_some());
    let signal = signals::stop_signal(reloads)?;

    let requested = Shares {
        server: settings.server.config.maxclients,
        links: web::connections(&settings),
        admin: ADMIN_CONNECTIONS,
    };
    let shares = Shares::of_process(requested);
    settings.server.config.maxclients = shares.server.max(1);

    settings.server.config.drain_timeout_ms = settings.server.config.drain_timeout_ms.min(DRAIN_MS);
    let store = open_store(&settings.server)?;
    let server = bind_server(&settings.server, &store)?;
    let explained = store.clone();
    let (resp, encrypted) = (server.local_addr(), server.tls_addr());
    settings.server.listen = resp.map(ListenAddress::bound_to);

    let sources = settings.links.sources;
    let http = settings.links.listen.tcp().map_err(|error| sources.unusable("listen", error))?;
    let admin = settings.admin.listen.tcp().map_err(|error| settings.sources.unusable("admin", error))?;
    let web = match settings.proxy {
        Some(proxy) => Web::proxy(proxy.config, &proxy.sources, shares.links)?,
        None => {
            let mut config = settings.links.config;
            let kind = if settings.server.config.cluster_mode { "redis+cluster" } else { "redis" };
            let own = resp.map(|address| own_url(kind, address, &settings.server.password));
            config.redis = config.redis.or(own);
            Web::links(config, &sources, &settings.data, shares.links).await?
        }
    };

    let web_lines = web.addresses(http.local_addr()?);
    print(&addresses(
        &settings.data,
        [("redis", resp), ("rediss", encrypted)],
        &web_lines,
        admin.local_addr()?,
    ))?;

    let mut supervisor = Supervisor::new();
    let current_stats = CurrentStats::new(&server);
    let certificate = Arc::new(Mutex::new(server.certificate_handle()));
    let initial = Arc::new(Mutex::new(Some(server)));
    let has_snapshot = settings.server.config.snapshot.is_some();
    let (server_settings, server_stats) = (Arc::new(settings.server), current_stats.clone());
    let server_certificate = certificate.clone();
    let server_health = supervisor.start("server", move |stop| {
        let (settings, store, initial, stats) =
            (server_settings.clone(), store.clone(), initial.clone(), server_stats.clone());
        let certificate = server_certificate.clone();
        async move {
            let bound = initial.lock().expect("nothing panics under this lock").take();
            let server = match bound {
                Some(server) => server,
                None => bind_server(&settings, &store)?,
            };
            stats.replace(&server);
            *certificate.lock().expect("nothing panics under this lock") = server.certificate_handle();
            Ok(server.run(stop.requested()).await?)
        }
    });
    let web_health = web.start(&mut supervisor, http);
    if reloads {
        let of_web = web.reload();
        reload_after_hangups(move || {
            of_web();
            certificate.lock().expect("nothing panics under this lock").iter().for_each(read_again);
        })?;
    }

    let registry = Registry::new();
    web.register(&registry, &web_health);
    sources::register_server(&registry, current_stats, &server_health);
    explainers::of_server(&registry, explained);
    telemetry::observe(&registry);
    let pages = admin_port::pages(registry, settings.admin.hosts, Some(admin_token));
    admin_port::start(&mut supervisor, pages, admin, shares.admin);

    startup_pages::release();
    announced(signal).await;
    // Whatever the output is: the parts stop.
    _ = print("stopping\n");
    let for_snapshot = if has_snapshot { larder_server::SNAPSHOT_WRITE_LIMIT } else { Duration::ZERO };
    let mut stopped = pin!(supervisor.shut_down(STOP_DEADLINE + for_snapshot));
    let have_ended = match tokio::time::timeout(SHORT_STOP, &mut stopped).await {
        Ok(have_ended) => have_ended,
        Err(_) => {
            let snapshot = if has_snapshot { " and for the snapshot" } else { "" };
            remark(&format!(
                "larder up: waiting for requests that are running{snapshot}; Ctrl-C again ends it at once{}",
                web.loses()
            ));
            stopped.await
        }
    };
    if !have_ended? {
        remark("larder up: some connections did not end in time and were closed");
        web.flush().await?;
    }
    Ok(())
}

/// The URL of our own cache server for clients in this process.
fn own_url(kind: &str, address: SocketAddr, password: &Option<String>) -> String {
    let reachable = match address.ip() {
        ip if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        _ => address,
    };
    match password {
        Some(password) => format!("{kind}://:{}@{reachable}", percent_encode(password)),
        None => format!("{kind}://{reachable}"),
    }
}

/// A text as one part of a URL.
pub(crate) fn percent_encode(text: &str) -> impl Display {
    /// All but the unreserved characters (RFC 3986, section 2.3).
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, RESERVED)
}

/// The lines that are printed once everything is bound.
fn addresses(data: &Path, server: [(&str, Option<SocketAddr>); 2], web: &str, admin: SocketAddr) -> String {
    let line = |(kind, address): (&str, Option<SocketAddr>)| {
        Some(format!("  cache server   {kind}://{}\n", address?))
    };
    let resp: String = server.into_iter().filter_map(line).collect();
    format!(
        "larder {} is up; its data is in {}\n{resp}{web}  dashboard      http://{admin}/\nCtrl-C stops it.\n",
        env!("CARGO_PKG_VERSION"),
        data.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_url_is_reachable_and_escapes_the_password() {
        let any = SocketAddr::from(([0, 0, 0, 0], 7000));
        assert_eq!(own_url("redis", any, &None), "redis://127.0.0.1:7000");
        let one = SocketAddr::from(([127, 0, 0, 1], 6379));
        let url = own_url("redis+cluster", one, &Some("p@ss:w/rd".into()));
        assert_eq!(url, "redis+cluster://:p%40ss%3Aw%2Frd@127.0.0.1:6379");
    }
}
