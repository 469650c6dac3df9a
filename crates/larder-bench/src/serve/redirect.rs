//! The servers of document 0: redirects of slugs, from the database alone, from a cache that one thread owns, and from a
//! cache that every caller reads.

use super::{listen, runtime};
use crate::source::Database;
use crate::workload::Pairs;
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::ValueEnum;
use larder_engine::Cache;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

const BACKLOG: u32 = 1_024;

/// Where a redirect comes from.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Design {
    /// The database, for each request.
    Database,
    /// A map that one thread owns, behind a queue, as in the document.
    Queue,
    /// A cache that the handler reads itself: the engine of this project.
    Direct,
}

/// Serves the links of [`Pairs::generated`] at `/SLUG`.
pub(super) fn serve(design: Design, links: usize, seed: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = Database::create(folder.path(), Pairs::generated(links, seed).iter(links))?;
    let links = Links { database, cache: LinkCache::open(design, links)? };
    runtime()?.block_on(async {
        let respond = async move |Path(slug): Path<String>| respond(&links, &slug).await;
        Ok(axum::serve(listen(BACKLOG)?, Router::new().route("/{slug}", get(respond))).await?)
    })
}

#[derive(Clone)]
struct Links {
    database: Database,
    cache: LinkCache,
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
        if let Some(address) = self.cache.get(slug).await? {
            return Ok(Some(address));
        }
        let address = self.database.read(slug).await?;
        if let Some(address) = &address {
            self.cache.set(slug, address.clone()).await?;
        }
        Ok(address)
    }
}

#[derive(Clone)]
enum LinkCache {
    None,
    Queue(mpsc::UnboundedSender<Call>),
    Direct(Arc<Cache<String, Arc<str>>>),
}

/// What the owner of the map is asked.
enum Call {
    Get(String, oneshot::Sender<Option<Arc<str>>>),
    Set(String, Arc<str>, oneshot::Sender<()>),
}

impl LinkCache {
    fn open(design: Design, links: usize) -> Result<Self> {
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
        })
    }

    async fn get(&self, slug: &str) -> Result<Option<Arc<str>>> {
        match self {
            LinkCache::None => Ok(None),
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
            LinkCache::None => Ok(()),
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
