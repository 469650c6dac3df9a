//! What `larder up` serves over HTTP: the shortener, or with `--origin` a caching proxy in its place.

use super::DRAIN_MS;
use crate::commands::token::{self, InitialToken};
use crate::options::option_sources::OptionSources;
use crate::options::settings;
use crate::parts::{explainers, open_links, proxy, sources};
use crate::process::supervisor::{HealthHandle, Supervisor};
use anyhow::Result;
use larder_admin::Registry;
use larder_links::Links;
use larder_proxy::Proxy;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// The part that serves HTTP.
pub(super) enum Web {
    Links { links: Links, token: InitialToken },
    Proxy { proxy: Proxy, origins: String },
}

/// The connections that a part of these settings asks for: of clients and to origins.
pub(super) fn connections(settings: &settings::Up) -> usize {
    match &settings.proxy {
        Some(proxy) => {
            proxy.config.max_connections + proxy.config.max_origin_requests * proxy.config.origin.len()
        }
        None => settings.links.config.max_connections,
    }
}

impl Web {
    /// The shortener, with its first token in the data folder.
    pub(super) async fn links(
        mut config: larder_links::Config,
        sources: &OptionSources,
        data: &Path,
        connections: usize,
    ) -> Result<Web> {
        config.max_connections = connections.max(1);
        config.drain_timeout_ms = config.drain_timeout_ms.min(DRAIN_MS);
        let links = open_links(config, sources)?;
        let token = token::create_initial(data, links.store()).await?;
        Ok(Web::Links { links, token })
    }

    /// The proxy. The connections that are fewer than it asks for are divided between clients and origins.
    pub(super) fn proxy(
        mut config: larder_proxy::Config,
        sources: &OptionSources,
        connections: usize,
    ) -> Result<Web> {
        let origins = config.origin.len();
        config.max_connections = config.max_connections.min((connections / 2).max(1));
        let rest = connections.saturating_sub(config.max_connections);
        config.max_origin_requests = config.max_origin_requests.min((rest / origins).max(1));
        config.drain_timeout_ms = config.drain_timeout_ms.min(DRAIN_MS);
        let origins = config.origin.join(", ");
        let proxy = Proxy::new(config).map_err(|error| sources.of_proxy(error))?;
        Ok(Web::Proxy { proxy, origins })
    }

    /// Starts it under the supervisor.
    pub(super) fn start(&self, supervisor: &mut Supervisor, listener: TcpListener) -> HealthHandle {
        match self {
            Web::Links { links, .. } => {
                let links = links.clone();
                supervisor.start("links", move |stop| {
                    let (links, listener) = (links.clone(), listener.try_clone());
                    async move {
                        let listener = tokio::net::TcpListener::from_std(listener?)?;
                        Ok(links.serve(listener, stop.requested()).await?)
                    }
                })
            }
            Web::Proxy { proxy, .. } => {
                let proxy = proxy.clone();
                supervisor.start("proxy", move |stop| {
                    let (proxy, listener) = (proxy.clone(), listener.try_clone());
                    async move {
                        let listener = tokio::net::TcpListener::from_std(listener?)?;
                        proxy.serve(listener, stop.requested()).await;
                        Ok(())
                    }
                })
            }
        }
    }

    /// Reads its certificate again, if it has one.
    pub(super) fn reload(&self) -> impl Fn() + Send + 'static {
        let proxy = match self {
            Web::Links { .. } => None,
            Web::Proxy { proxy, .. } => Some(proxy.clone()),
        };
        move || proxy.iter().for_each(proxy::read_again)
    }

    /// Shows it on the dashboard.
    pub(super) fn register(&self, registry: &Registry, health: &HealthHandle) {
        match self {
            Web::Links { links, .. } => {
                sources::register_links(registry, links, health);
                explainers::of_links(registry, links);
            }
            Web::Proxy { proxy, .. } => proxy::register(registry, proxy, health),
        }
    }

    /// The lines that say where it is.
    pub(super) fn addresses(&self, http: SocketAddr) -> String {
        match self {
            Web::Links { token, .. } => {
                let advice = if token.is_valid {
                    ""
                } else {
                    " (not valid any more: remove the file to get a new one)"
                };
                format!(
                    "  short links    http://{http}/\n  links token    {}{advice}\n",
                    token.path.display()
                )
            }
            Web::Proxy { proxy, origins } => {
                let scheme = if proxy.is_encrypted() { "https" } else { "http" };
                format!("  proxy          {scheme}://{http}/\n  forwards to    {origins}\n")
            }
        }
    }

    /// What a stop that takes long loses if it is ended at once.
    pub(super) fn loses(&self) -> &'static str {
        match self {
            Web::Links { .. } => " and loses the visits that are not written yet",
            Web::Proxy { .. } => "",
        }
    }

    /// Writes what must not be lost, after some connections were closed.
    pub(super) async fn flush(&self) -> Result<()> {
        match self {
            Web::Links { links, .. } => Ok(links.flush_visits().await?),
            Web::Proxy { .. } => Ok(()),
        }
    }
}
