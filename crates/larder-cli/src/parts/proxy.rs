//! `larder proxy`: a reverse proxy with a response cache, and the dashboard of that cache.

use crate::options::settings::{self, AdminPort};
use crate::output::{print, remark};
use crate::parts::sources::{certificate_figure, sample_with_health};
use crate::parts::{runtime, startup_pages};
use crate::process::admin_port;
use crate::process::files::{ADMIN_CONNECTIONS, Shares};
use crate::process::service_manager::{PassedSockets, announced};
use crate::process::signals::{self, hangup_reloads, reload_after_hangups};
use crate::process::supervisor::{HealthHandle, Supervisor};
use crate::process::telemetry;
use anyhow::Result;
use larder_admin::{Degradation, Figure, Registry, Sample, Token, Unit};
use larder_proxy::{OriginStats, Proxy, ProxyCache};
use tokio::net::TcpListener;

/// Serves until a stop is requested. With a certificate, SIGHUP reads it again and stops nothing. A socket that the service
/// manager has opened takes the place of the address.
pub(crate) fn run(settings: settings::Proxy) -> Result<()> {
    let sources = settings.sources;
    settings.config.validate().map_err(|error| sources.of_proxy(error))?;
    let admin_port = settings.admin.port(&sources)?;
    let passed = PassedSockets::take()?;
    runtime()?.block_on(async {
        let mut config = settings.config;
        let is_encrypted = config.tls_cert.is_some();
        let reloads = hangup_reloads(is_encrypted);
        let stop = signals::stop_signal(reloads)?;
        let listener = match passed {
            Some(sockets) => sockets.only_tcp()?,
            None => settings.listen.tcp().map_err(|error| sources.unusable("listen", error))?,
        };
        let address = listener.local_addr()?;
        let bind_admin = |port: AdminPort| {
            let listener = port.listen.tcp().map_err(|error| sources.unusable("admin", error));
            listener.map(|listener| (listener, port.hosts))
        };
        let admin = admin_port.map(bind_admin).transpose()?;

        let origins = config.origin.len();
        let admin_connections = if admin.is_some() { ADMIN_CONNECTIONS } else { 0 };
        // Connections to origins have the place of the cache server's.
        let server = config.max_origin_requests * origins;
        let requested = Shares { server, links: config.max_connections, admin: admin_connections };
        let shares = Shares::of_process(requested);
        config.max_connections = shares.links.max(1);
        config.max_origin_requests = (shares.server / origins).max(1);

        let (urls, folder) = (config.origin.join(", "), config.disk.clone());
        let namespace = config.redis.as_ref().map(|_| config.redis_namespace.clone());
        let proxy = Proxy::new(config).map_err(|error| sources.of_proxy(error))?;
        let scheme = if is_encrypted { "https" } else { "http" };
        print(&format!("larder proxy listens on {scheme}://{address}/\nit forwards to {urls}\n"))?;
        if let (Some(folder), Some(disk)) = (folder, proxy.cache().disk()) {
            print(&format!("it keeps responses in {}: {} entries now\n", folder.display(), disk.entries))?;
        }
        if let Some(namespace) = namespace {
            print(&format!(
                "it shares responses with its replicas through Redis, in the namespace {namespace}\n"
            ))?;
        }
        let mut supervisor = Supervisor::new();
        let registry = Registry::new();
        register(&registry, &proxy, &HealthHandle::running());
        telemetry::observe(&registry);
        if let Some((listener, hosts)) = admin {
            print(&format!("the dashboard is on http://{}/\n", listener.local_addr()?))?;
            let token = Token::load_or_create(&settings.data)?;
            let pages = admin_port::pages(registry, hosts, Some(token));
            admin_port::start(&mut supervisor, pages, listener, shares.admin);
        }
        startup_pages::release();
        if reloads {
            let proxy = proxy.clone();
            reload_after_hangups(move || read_again(&proxy))?;
        }
        proxy.serve(TcpListener::from_std(listener)?, announced(stop)).await;
        supervisor.shut_down(admin_port::DRAIN).await.map(drop)
    })
}

/// Shows a proxy and its cache on the dashboard, and Redis, if it is shared.
pub(crate) fn register(registry: &Registry, proxy: &Proxy, health: &HealthHandle) {
    let (source, health) = (proxy.clone(), health.clone());
    let start = move || with_proxy(sample_with_health(&health), &source);
    match proxy.cache() {
        ProxyCache::Alone(responses) => registry.register_http_from("responses", responses, start),
        ProxyCache::Shared { responses, redis } => {
            registry.register_http_from("responses", responses, start);
            registry.register_cache("replicas", redis);
        }
    }
}

/// Adds what a proxy tells of its origins, its responses and its certificate.
fn with_proxy(mut sample: Sample, proxy: &Proxy) -> Sample {
    let stats = proxy.stats();
    let down = stats.origins.iter().filter(|origin| origin.down_for.is_some()).count();
    let failures = stats.origins.iter().map(|origin| origin.failures).sum();
    let current = |name, value: usize, help| Figure::current(name, Unit::Count, value as f64, help);
    let total = |name, value, help| Figure::total(name, Unit::Count, value, help);
    sample.degradations.extend(lacking_origin(&stats.origins));
    sample.figures.extend(stats.certificate_expires.map(certificate_figure));
    sample
        .figure(current("origins", stats.origins.len(), "Origins of the proxy."))
        .figure(current("origins_down", down, "Origins whose last three requests got no response."))
        .figure(total(
            "origin_failures",
            failures,
            "Requests that got no response by the fault of an origin.",
        ))
        .figure(total("responses", stats.responses, "Responses of the proxy to its clients."))
        .figure(total(
            "server_error_responses",
            stats.server_errors,
            "Those whose status is 500 or above, from an origin or for want of one.",
        ))
}

/// What a proxy lacks if origins do not answer.
fn lacking_origin(origins: &[OriginStats]) -> Option<Degradation> {
    let down: Vec<&OriginStats> = origins.iter().filter(|origin| origin.down_for.is_some()).collect();
    let lasting = down.iter().filter_map(|origin| origin.down_for).max()?;
    let urls: Vec<&str> = down.iter().map(|origin| &*origin.url).collect();
    let verb = if down.len() == 1 { "does" } else { "do" };
    let consequence = match down.len() == origins.len() {
        true => "stored responses are served, and other requests get 502 or 504",
        false => "the other origins get its requests",
    };
    let meaning = format!("{} {verb} not answer: {consequence}", urls.join(", "));
    Some(Degradation::new("origin", meaning).lasting(lasting))
}

/// Reads the certificate again, if there is one.
pub(crate) fn read_again(proxy: &Proxy) {
    match proxy.reload_certificate() {
        Ok(()) if !proxy.is_encrypted() => {}
        Ok(()) => remark("larder proxy: the certificate was read again"),
        Err(error) => remark(&format!("larder proxy: the old certificate stays: {error}")),
    }
}
