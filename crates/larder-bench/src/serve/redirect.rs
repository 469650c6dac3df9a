//! The servers of document 0: redirects of slugs, from the database alone, from a cache that one thread owns, from a cache
//! that every caller reads, and from memory over Redis.

use super::{listen, runtime};
use crate::source::{Database, Place};
use crate::workload::Pairs;
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::ValueEnum;
use larder::View;
use larder_engine::Cache;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

const BACKLOG: u32 = 1_024;
const TTL: Duration = Duration::from_secs(3_600);
/// The path that answers how often the database was read. No slug has a slash.
pub(crate) const READS_PATH: &str = "/bench/reads";

/// Where a redirect comes from.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Design {
    /// The database, for each request.
    Database,
    /// A map that one thread owns, behind a queue, as in the document.
    Queue,
    /// A cache that the handler reads itself: the engine of this project.
    Direct,
    /// Memory over Redis: the library of this project.
    Tiers,
}

/// Serves the first `count` of the pairs at `/SLUG`.
pub(super) fn serve(
    design: Design,
    pairs: &Pairs,
    count: usize,
    redis: Option<&str>,
    place: &Place,
) -> Result<()> {
    runtime()?.block_on(async {
        let database = Database::create(place, pairs.iter(count)).await?;
        let cache = LinkCache::open(design, count, redis)?;
        let links = Links { database, cache, reads: Arc::default() };
        let reads = links.reads.clone();
        let respond = async move |Path(slug): Path<String>| respond(&links, &slug).await;
        let router = Router::new()
            .route("/{slug}", get(respond))
            .route(READS_PATH, get(async move || reads.load(Ordering::Relaxed).to_string()));
        Ok(axum::serve(listen(BACKLOG)?, router).await?)
    })
}

#[derive(Clone)]
struct Links {
    database: Database,
    cache: LinkCache,
    /// How often the database was read.
    reads: Arc<AtomicU64>,
}

async fn respond(links: &Links, slug: &str) -> Response {
    match links.address(slug).await {
        Ok(Some(address)) => (StatusCode::FOUND, [(header::LOCATION, address.as_ref())]).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

impl Links {
    /// The `fetch` of the document: look up, and on a miss read and store.
    async fn address(&self, slug: &str) -> Result<Option<Arc<str>>> {
        if let LinkCache::Tiers(view) = &self.cache {
            return self.fetch(view, slug).await;
        }
        if let Some(address) = self.cache.get(slug).await? {
            return Ok(Some(address));
        }
        let address = self.read(slug).await?;
        if let Some(address) = &address {
            self.cache.set(slug, address.clone()).await?;
        }
        Ok(address)
    }

    /// One call, in which one caller loads.
    async fn fetch(&self, view: &LinkView, slug: &str) -> Result<Option<Arc<str>>> {
        let (links, key) = (self.clone(), slug.to_owned());
        let load = move |_| async move {
            let address = links.read(&key).await.map_err(|error| error.to_string())?;
            Ok(address.map(|address| address.to_string()))
        };
        let fetched = view.fetch(slug).load(load).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(fetched.as_deref().map(Arc::from))
    }

    async fn read(&self, slug: &str) -> Result<Option<Arc<str>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.database.read(slug).await
    }
}

type LinkView = View<str, Option<String>, String>;

#[derive(Clone)]
enum LinkCache {
    None,
    Queue(mpsc::UnboundedSender<Call>),
    Direct(Arc<Cache<String, Arc<str>>>),
    Tiers(LinkView),
}

/// What the owner of the map is asked.
enum Call {
    Get(String, oneshot::Sender<Option<Arc<str>>>),
    Set(String, Arc<str>, oneshot::Sender<()>),
}

impl LinkCache {
    fn open(design: Design, links: usize, redis: Option<&str>) -> Result<Self> {
        Ok(match design {
            Design::Database => LinkCache::None,
            Design::Direct => {
                LinkCache::Direct(Arc::new(Cache::builder().entries(2 * links as u64).build()?))
            }
            Design::Queue => {
                let (sender, calls) = mpsc::unbounded_channel();
                std::thread::Builder::new().name("owner".to_owned()).spawn(move || own(calls))?;
                LinkCache::Queue(sender)
            }
            Design::Tiers => {
                let builder = larder::Cache::builder("links").memory_entries(2 * links as u64).ttl(TTL);
                let cache = builder.redis(redis.context("the tiers need Redis")?).build()?;
                LinkCache::Tiers(cache.view("address"))
            }
        })
    }

    async fn get(&self, slug: &str) -> Result<Option<Arc<str>>> {
        match self {
            LinkCache::None | LinkCache::Tiers(_) => Ok(None),
            LinkCache::Direct(cache) => Ok(cache.get(slug)),
            LinkCache::Queue(owner) => {
                let (sender, answer) = oneshot::channel();
                owner.send(Call::Get(slug.to_owned(), sender)).ok().context("the owner has ended")?;
                Ok(answer.await?)
            }
        }
    }

    async fn set(&self, slug: &str, address: Arc<str>) -> Result<()> {
        match self {
            LinkCache::None | LinkCache::Tiers(_) => Ok(()),
            LinkCache::Direct(cache) => {
                cache.insert(slug.to_owned(), address);
                Ok(())
            }
            LinkCache::Queue(owner) => {
                let (sender, answer) = oneshot::channel();
                owner
                    .send(Call::Set(slug.to_owned(), address, sender))
                    .ok()
                    .context("the owner has ended")?;
                Ok(answer.await?)
            }
        }
    }
}

/// Owns the map, and answers one call after another. A caller that has gone misses nothing.
fn own(mut calls: mpsc::UnboundedReceiver<Call>) {
    let mut map: HashMap<String, Arc<str>> = HashMap::new();
    while let Some(call) = calls.blocking_recv() {
        match call {
            Call::Get(slug, answer) => _ = answer.send(map.get(&slug).cloned()),
            Call::Set(slug, address, answer) => {
                map.insert(slug, address);
                _ = answer.send(());
            }
        }
    }
}
