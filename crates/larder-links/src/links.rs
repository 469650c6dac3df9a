//! The service itself, without HTTP: what happens to store, caches and counters when a link is made, changed, deleted
//! or followed.
//!
//! Every change runs the same way, in a task of its own, so that a client who hangs up cannot stop it half-way:
//!
//! ```text
//! commit in the store ──► cache entry of the slug dropped ──► stored answers purged ──► answer
//! ```
//!
//! The cache refuses a load that began before the change, so from the answer on nobody sees the old state; until the
//! answer anybody may.

use crate::access::Access;
use crate::cache::{self, Resolved, Targets};
use crate::config::Config;
use crate::error::LinksError;
use crate::hosts::OwnHosts;
use crate::reply::ApiError;
use crate::responses::{self, Responses};
use crate::stats::{Counters, LinksStats, Outcome};
use crate::store::{Creation, Link, LinkChange, NewLink, Repeats, Store, StoreError};
use crate::visits::Visits;
use crate::{router, serve};
use axum::Router;
use http::StatusCode;
use larder::Cache;
use larder_http::HttpCache;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

/// Batches that are read at a time. Each takes up to 8 MiB.
const MAX_BATCHES: usize = 8;
/// How long a batch waits for its place.
const BATCH_TIMEOUT: Duration = Duration::from_secs(5);

/// What a [`Links`] works on. It is made outside, so that it can be shared, watched, and kept over a restart.
/// Clones share the same store and caches.
#[derive(Clone)]
pub struct Deps {
    /// The database.
    pub store: Store,
    /// Where slugs lead.
    pub cache: Cache,
    /// The stored answers of the API.
    pub responses: HttpCache,
}

impl Deps {
    /// Opens the store and builds the caches that the options ask for.
    ///
    /// # Errors
    /// An option out of range, or a database that cannot be opened.
    pub fn open(config: &Config) -> Result<Deps, LinksError> {
        config.validate()?;
        Ok(Deps {
            store: Store::open(&config.store_config()?)?,
            cache: cache::build(config)?,
            responses: responses::build(config.response_cache_bytes)?,
        })
    }
}

/// The URL shortener. Clones share one service. When the last one is dropped without a [`stop`](Links::stop), the visits
/// in memory are still written, as long as the runtime lives.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// use larder_links::{Config, Deps, Links};
///
/// let database = folder.path().join("links.db").display().to_string();
/// let config = Config { database, ..Config::default() };
/// let links = Links::open(config.clone(), Deps::open(&config)?)?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// links.serve(listener, async { /* until Ctrl-C, say */ }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Links {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    store: Store,
    targets: Targets,
    responses: Responses,
    hosts: OwnHosts,
    access: Access,
    batch_places: Semaphore,
    /// One batch is parsed at a time: the other cores are the redirects'.
    batch_parsing: Arc<Semaphore>,
    visits: Arc<Visits>,
    counters: Counters,
    stop_flusher: watch::Sender<bool>,
}

impl Links {
    /// Starts the service on what it needs. From here on counted visits are written to the store.
    ///
    /// # Errors
    /// [`LinksError::Config`] if an option is out of range.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(config: Config, deps: Deps) -> Result<Links, LinksError> {
        config.validate()?;
        let hosts = OwnHosts::new(config.public_base()?, config.allowed_hosts()?);
        let access = Access::new(&config, deps.store.clone())?;
        let targets = Targets::new(deps.cache, &config)?;
        let visits = Arc::new(Visits::new(config.visit_batch, config.visit_queue));
        let (stop_flusher, stopped) = watch::channel(false);
        let every = Duration::from_millis(config.visit_flush_ms);
        let (flushed, store) = (visits.clone(), deps.store.clone());
        tokio::spawn(async move { flushed.run(&store, every, stopped).await });
        Ok(Links {
            shared: Arc::new(Shared {
                hosts,
                access,
                batch_places: Semaphore::new(MAX_BATCHES),
                batch_parsing: Arc::new(Semaphore::new(1)),
                targets,
                config,
                store: deps.store,
                responses: Responses::new(deps.responses),
                visits,
                counters: Counters::default(),
                stop_flusher,
            }),
        })
    }

    /// The routes of the service, to be served by [`serve`](Links::serve) or inside another application.
    pub fn router(&self) -> Router {
        router::build(self.clone())
    }

    /// Serves connections until `shutdown` resolves, lets running requests end within the drain timeout, and then
    /// [stops](Links::stop).
    ///
    /// # Errors
    /// [`LinksError::Stopped`] if it was stopped before, [`LinksError::Io`] if the listener has no address.
    ///
    /// # Cancel safety
    /// A dropped or panicking call leaves store and caches as they are; the service can be served again.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), LinksError> {
        if self.shared.store.is_closed() {
            return Err(LinksError::Stopped);
        }
        self.shared.hosts.add_bound(listener.local_addr()?);
        serve::serve(listener, self.router(), self.shared.config.serve_options(), shutdown).await;
        self.stop().await
    }

    /// Writes the visits that are still in memory and closes the database.
    ///
    /// # Errors
    /// If the visits cannot be written; the database is closed all the same.
    pub async fn stop(&self) -> Result<(), LinksError> {
        self.shared.stop_flusher.send_replace(true);
        let flushed = match self.shared.store.is_closed() {
            true => Ok(()),
            false => self.shared.visits.flush(&self.shared.store).await,
        };
        self.shared.store.close().await;
        Ok(flushed?)
    }

    /// Writes the visits that were counted so far.
    ///
    /// # Errors
    /// If the store fails; the visits stay in memory and are tried again.
    pub async fn flush_visits(&self) -> Result<(), LinksError> {
        Ok(self.shared.visits.flush(&self.shared.store).await?)
    }

    /// The service's figures.
    pub fn stats(&self) -> LinksStats {
        self.shared.counters.snapshot(self.shared.visits.stats())
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Where slugs lead, to be watched.
    pub fn cache(&self) -> &Cache {
        self.shared.targets.cache()
    }

    /// The stored answers of the API, to be watched or purged.
    pub fn responses(&self) -> &HttpCache {
        self.shared.responses.cache()
    }

    /// Whether a service that listens on `address` answers its API without a token: on loopback, if no option says that
    /// other machines reach it.
    pub fn is_local_on(&self, address: SocketAddr) -> bool {
        address.ip().to_canonical().is_loopback() && self.shared.access.is_local_by_config()
    }

    /// Removes an API token; false if there is none of that id. Its sessions and streams end: here at once, on other
    /// instances of the same database within a second.
    ///
    /// # Errors
    /// If the store fails; the token is still valid then.
    pub async fn remove_token(&self, id: u64) -> Result<bool, LinksError> {
        Ok(self.shared.access.remove_token(id).await?)
    }

    pub(crate) fn access(&self) -> &Access {
        &self.shared.access
    }

    /// A place among the batches that are read at a time.
    pub(crate) async fn batch_place(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let place = timeout(BATCH_TIMEOUT, self.shared.batch_places.acquire()).await;
        let busy = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many batches at a time");
        place.ok().and_then(Result::ok).ok_or_else(busy)
    }

    /// Runs work that takes milliseconds of a processor, away from the threads of the redirects.
    pub(crate) async fn parse_batch<T: Send + 'static>(
        &self,
        parse: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = self.shared.batch_parsing.clone().acquire_owned().await;
        let parsed = tokio::task::spawn_blocking(move || {
            // Held by the work itself: a client that hangs up does not end it.
            let _turn = turn;
            parse()
        });
        parsed.await.unwrap_or_else(|_| Err(ApiError::internal()))
    }

    pub(crate) fn hosts(&self) -> &OwnHosts {
        &self.shared.hosts
    }

    pub(crate) fn answers(&self) -> &Responses {
        &self.shared.responses
    }

    pub(crate) fn redirect_status(&self) -> StatusCode {
        StatusCode::from_u16(self.shared.config.redirect_status).unwrap_or(StatusCode::FOUND)
    }

    /// Where a slug leads. A found one counts as a visit if `visit` says so.
    pub(crate) async fn follow(&self, slug: &str, visit: bool) -> Resolved {
        let started = Instant::now();
        let target = self.shared.targets.resolve(slug, &self.shared.store).await;
        let outcome = match target.as_deref() {
            Ok(Some(target)) => {
                if visit {
                    self.shared.visits.record(target.link_id);
                }
                Outcome::Found
            }
            Ok(None) => Outcome::NotFound,
            Err(_) => Outcome::Error,
        };
        self.shared.counters.record_redirect(outcome, started.elapsed());
        target
    }

    /// Counts a request for something that cannot be a slug.
    pub(crate) fn note_impossible(&self) {
        self.shared.counters.record_redirect(Outcome::NotFound, Duration::ZERO);
    }

    pub(crate) async fn create(
        &self,
        links: Vec<NewLink>,
        repeats: Repeats,
    ) -> Result<Vec<Creation>, ApiError> {
        let this = self.clone();
        in_own_task(async move {
            let made = this.shared.store.create(links, repeats).await?;
            let new: Vec<String> = made
                .iter()
                .filter_map(|creation| match creation {
                    Creation::Created(link) => Some(link.slug.clone()),
                    Creation::Existing(_) | Creation::SlugTaken => None,
                })
                .collect();
            if new.is_empty() {
                return Ok(made);
            }
            this.shared.counters.created.add(new.len() as u64);
            this.shared.targets.forget(new).await;
            this.shared.responses.purge_list();
            Ok(made)
        })
        .await
    }

    pub(crate) async fn update(&self, slug: &str, change: LinkChange) -> Result<Option<Link>, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        in_own_task(async move {
            let changed = this.shared.store.update(&slug, change).await?;
            if changed.is_some() {
                this.shared.targets.forget([slug.clone()]).await;
                this.shared.responses.purge_link(&slug);
            }
            Ok(changed)
        })
        .await
    }

    pub(crate) async fn delete(&self, slug: &str) -> Result<bool, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        in_own_task(async move {
            let deleted = this.shared.store.delete(&slug).await?;
            if deleted {
                this.shared.counters.deleted.add(1);
                this.shared.targets.forget([slug.clone()]).await;
                this.shared.responses.purge_link(&slug);
            }
            Ok(deleted)
        })
        .await
    }
}

async fn in_own_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::spawn(work).await {
        Ok(result) => Ok(result?),
        Err(error) => {
            tracing::error!(%error, "a change ended in a panic");
            Err(ApiError::internal())
        }
    }
}
