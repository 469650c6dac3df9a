//! `larder up`: everything on one machine, in one process, under one supervisor.
//!
//! ```text
//!             ┌── server ──── its own threads ── Store ◄─┐ the shortener's second tier
//! supervisor ─┼── links ───── caches, SQLite ────────────┘
//!             └── admin ───── asks the others for their figures
//! ```
//!
//! Listeners, stores and caches are made here and lent to the parts: a part that is started again finds them as they
//! were.

use crate::files::{ADMIN_CONNECTIONS, Shares};
use crate::listen::Listen;
use crate::parts::{bind_server, open_links, runtime, serve_admin};
use crate::settings;
use crate::supervisor::{Stop, Supervisor};
use crate::{signals, sources, token};
use anyhow::{Context, Result};
use larder_admin::{Admin, Registry, Token};
use larder_links::Links;
use larder_server::{Server, StatsHandle, Store};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The promise is five seconds; the rest is for the process to end.
const STOP_DEADLINE: Duration = Duration::from_millis(4_500);
/// What the parts may take of it to drain.
const DRAIN_MS: u64 = 3_000;

pub(crate) fn run(settings: settings::Up) -> Result<()> {
    runtime()?.block_on(up(settings))
}

async fn up(mut settings: settings::Up) -> Result<()> {
    make_private_folder(&settings.data)?;
    let admin_token = Token::load_or_create(&settings.data)?;
    let signal = signals::requested_to_stop()?;

    let wanted = Shares {
        server: settings.server.config.maxclients,
        links: settings.links.config.max_connections,
        admin: ADMIN_CONNECTIONS,
    };
    let shares = Shares::of_process(wanted);
    settings.server.config.maxclients = shares.server.max(1);
    settings.links.config.max_connections = shares.links.max(1);

    settings.server.config.drain_timeout_ms = settings.server.config.drain_timeout_ms.min(DRAIN_MS);
    let store = Store::new(settings.server.config.max_memory.map(|size| size.0))?;
    let server = bind_server(&settings.server, &store)?;
    let resp = server.local_addr();
    settings.server.listen = resp.map(Listen::bound_to);

    let http = settings.links.listen.tcp()?;
    let admin = settings.admin.tcp()?;
    let mut links_config = settings.links.config;
    links_config.drain_timeout_ms = links_config.drain_timeout_ms.min(DRAIN_MS);
    links_config.redis =
        links_config.redis.or(resp.map(|address| own_url(address, &settings.server.password)));
    let links = open_links(links_config)?;
    let links_token = token::make_first(&settings.data, links.store()).await?;

    announce(&settings.data, resp, http.local_addr()?, admin.local_addr()?, &links_token);

    let mut supervisor = Supervisor::new();
    let served = ServedStats::new(&server);
    let first = Arc::new(Mutex::new(Some(server)));
    let (server_settings, server_stats) = (Arc::new(settings.server), served.clone());
    let server_watch = supervisor.start("server", move |stop| {
        let (settings, store, first, stats) =
            (server_settings.clone(), store.clone(), first.clone(), server_stats.clone());
        async move {
            let bound = first.lock().expect("nothing panics under this lock").take();
            let server = match bound {
                Some(server) => server,
                None => bind_server(&settings, &store)?,
            };
            stats.replace(&server);
            Ok(server.run(stop.requested()).await?)
        }
    });
    let served_links = links.clone();
    let links_watch =
        supervisor.start("links", move |stop| serve_links(served_links.clone(), http.try_clone(), stop));

    let registry = Registry::new();
    sources::register_links(&registry, &links, &links_watch);
    sources::register_server(&registry, served, &server_watch);
    let pages = Admin::new(registry).token(admin_token).router();
    supervisor.start("admin", move |stop| {
        let (pages, listener) = (pages.clone(), admin.try_clone());
        async move { serve_admin(pages, &listener?, stop, shares.admin, Duration::from_millis(DRAIN_MS)).await }
    });

    signal.await;
    println!("stopping");
    if !supervisor.shut_down(STOP_DEADLINE).await {
        eprintln!("larder up: some connections did not end in time and were cut");
        links.flush_visits().await?;
    }
    Ok(())
}

async fn serve_links(links: Links, listener: std::io::Result<TcpListener>, stop: Stop) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener?)?;
    Ok(links.serve(listener, stop.requested()).await?)
}

/// Makes the data folder, for its owner alone.
fn make_private_folder(folder: &Path) -> Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot make {}", folder.display()))
}

/// The address of our own cache server for clients in this process.
fn own_url(address: SocketAddr, password: &Option<String>) -> String {
    let reachable = match address.ip() {
        ip if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        _ => address,
    };
    match password {
        Some(password) => format!("redis://:{}@{reachable}", percent_encode(password)),
        None => format!("redis://{reachable}"),
    }
}

fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn announce(data: &Path, resp: Option<SocketAddr>, http: SocketAddr, admin: SocketAddr, token: &Path) {
    println!("larder {} is up; its data is in {}", env!("CARGO_PKG_VERSION"), data.display());
    if let Some(resp) = resp {
        println!("  cache server   redis://{resp}");
    }
    println!("  short links    http://{http}/");
    println!("  links token    {}", token.display());
    println!("  dashboard      http://{admin}/");
    println!("Ctrl-C stops it.");
}

/// The numbers of the cache server that serves now: each restart makes a new one.
#[derive(Clone)]
pub(crate) struct ServedStats(Arc<Mutex<StatsHandle>>);

impl ServedStats {
    fn new(server: &Server) -> Self {
        ServedStats(Arc::new(Mutex::new(server.stats_handle())))
    }

    fn replace(&self, server: &Server) {
        *self.0.lock().expect("nothing panics under this lock") = server.stats_handle();
    }

    pub(crate) fn handle(&self) -> StatsHandle {
        self.0.lock().expect("nothing panics under this lock").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_server_is_reached_wherever_it_listens_and_whatever_its_password() {
        let any = SocketAddr::from(([0, 0, 0, 0], 7000));
        assert_eq!(own_url(any, &None), "redis://127.0.0.1:7000");
        let one = SocketAddr::from(([127, 0, 0, 1], 6379));
        assert_eq!(own_url(one, &Some("p@ss:w/rd".into())), "redis://:p%40ss%3Aw%2Frd@127.0.0.1:6379");
    }
}
