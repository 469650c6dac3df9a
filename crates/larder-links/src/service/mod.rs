//! The service without HTTP: its parts, how a slug is followed, and how it stops. [`changes`] is what changes links,
//! [`upkeep`] what drops old ones.

pub(crate) mod access;
pub(crate) mod api_error;
mod cache;
mod changes;
pub(crate) mod chart;
pub(crate) mod dimensions;
pub(crate) mod events;
pub mod export;
pub(crate) mod hosts;
pub(crate) mod responses;
pub(crate) mod stats;
mod upkeep;
pub(crate) mod visits;

use crate::config::own_pages::Pages;
use crate::config::{Config, VisitDetails};
use crate::error::LinksError;
use crate::service::access::Access;
use crate::service::api_error::ApiError;
use crate::service::cache::{Limits, Target, Targets};
use crate::service::dimensions::{AgentKinds, Countries, Country, Dimensions, Visitor};
use crate::service::events::Events;
use crate::service::hosts::OwnHosts;
use crate::service::responses::Responses;
use crate::service::stats::{Counters, LinksStats, Outcome};
use crate::service::visits::Visits;
use crate::store::{Store, StoreError, day_of, now_ms, quarter_of};
use http::{HeaderMap, HeaderValue, StatusCode};
use larder::{Cache, FetchError, Inspection};
use larder_http::HttpCache;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

/// Batches that are read at a time. Each takes up to 8 MiB.
const MAX_BATCHES: usize = 8;
/// Event streams at a time. Each keeps a connection.
const MAX_STREAMS: usize = 64;
/// How long a batch waits for its permit.
const BATCH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a service that stops waits for Redis to confirm its changes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a stop waits for the database, which may not answer.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The store and caches of a [`Links`]. The caller creates them, so that it can share them, monitor them, and keep them
/// across a restart. Clones share the same store and caches.
#[derive(Clone)]
pub struct Deps {
    /// The database.
    pub store: Store,
    /// The targets of slugs.
    pub cache: Cache,
    /// The response cache of the API.
    pub responses: HttpCache,
}

impl Deps {
    /// Opens the store and builds the caches by the options.
    ///
    /// # Errors
    /// An option out of range, or a database that cannot be opened.
    pub fn open(config: &Config) -> Result<Deps, LinksError> {
        config.validate()?;
        let store = Store::open(&config.store_config()?)?;
        Ok(Deps {
            cache: cache::build(config, store.identity())?,
            store,
            responses: responses::build(config.response_cache_bytes)?,
        })
    }
}

/// The URL shortener. Clones share one service. If the last clone is dropped without [`stop`](Links::stop), a task still
/// writes the visits in memory, as long as the runtime exists.
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
    pages: Pages,
    store: Store,
    targets: Targets,
    responses: Responses,
    hosts: OwnHosts,
    access: Access,
    batch_permits: Semaphore,
    /// One batch is parsed at a time, so that the other cores serve redirects.
    batch_parser: Arc<Semaphore>,
    visits: Arc<Visits>,
    dimensions: Arc<Dimensions>,
    agents: AgentKinds,
    countries: Option<Countries>,
    events: Arc<Events>,
    stream_permits: Arc<Semaphore>,
    counters: Counters,
    stop_flusher: watch::Sender<bool>,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    pub(crate) address: Option<IpAddr>,
    /// Its country, if it is the client of all its requests and countries are counted.
    pub(crate) country: Option<Country>,
}

impl Links {
    /// Starts the service on its store and caches. A task writes visits to the store from now on.
    ///
    /// # Errors
    /// [`LinksError::Config`] if an option is out of range, or a page cannot be read.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(config: Config, deps: Deps) -> Result<Links, LinksError> {
        config.validate()?;
        let hosts = OwnHosts::new(config.public_base()?, config.allowed_hosts()?);
        let access = Access::new(&config, deps.store.clone())?;
        let pages = Pages::open(&config)?;
        let targets = Targets::new(deps.cache, &config);
        let events = Arc::new(Events::new());
        let visits = Arc::new(Visits::new(config.visit_batch, config.visit_queue, events.clone()));
        let dimensions = Arc::new(Dimensions::new(config.visit_queue));
        let countries = config.country_database.as_deref().map(Countries::open).transpose()?;
        let (stop_flusher, stopped) = watch::channel(false);
        let every = Duration::from_millis(config.visit_flush_ms);
        let (flushed, store) = (visits.clone(), deps.store.clone());
        let (watch, mut ended) = (store.watch(), stopped.clone());
        // A service that is opened again on the same store has its own.
        tokio::spawn(async move {
            tokio::select! {
                () = watch => {}
                _ = ended.wait_for(|&ended| ended) => {}
            }
        });
        tokio::spawn(dimensions.clone().run(store.clone(), every, stopped.clone()));
        tokio::spawn(async move { flushed.run(&store, every, stopped).await });
        let links = Links {
            shared: Arc::new(Shared {
                hosts,
                access,
                batch_permits: Semaphore::new(MAX_BATCHES),
                batch_parser: Arc::new(Semaphore::new(1)),
                targets,
                pages,
                config,
                store: deps.store,
                responses: Responses::new(deps.responses),
                visits,
                dimensions,
                agents: AgentKinds::new(),
                countries,
                events,
                stream_permits: Arc::new(Semaphore::new(MAX_STREAMS)),
                counters: Counters::default(),
                stop_flusher,
            }),
        };
        tokio::spawn(upkeep::tidy_hourly(Arc::downgrade(&links.shared)));
        Ok(links)
    }

    /// Writes the visits that are still in memory and closes the database.
    ///
    /// # Errors
    /// If the visits cannot be written; the database is closed anyway.
    pub async fn stop(&self) -> Result<(), LinksError> {
        self.shared.stop_flusher.send_replace(true);
        let flushed = timeout(STOP_PATIENCE, self.close_database()).await.unwrap_or_else(|late| {
            let visits = self.shared.visits.stats().queued;
            tracing::error!(visits, "the database does not answer: visits that are not written are lost");
            Err(StoreError::Unreachable(Arc::new(late)).into())
        });
        let pending = self.shared.targets.cache().close(CLOSE_TIMEOUT).await;
        if pending > 0 {
            tracing::warn!(
                pending,
                "redis has not confirmed some changes: other instances may serve older links"
            );
        }
        flushed
    }

    async fn close_database(&self) -> Result<(), LinksError> {
        let flushed = match self.shared.store.is_closed() {
            true => Ok(()),
            // A second write tells what became of the first one.
            false => match self.flush_visits().await {
                Err(LinksError::Store(StoreError::Unknown(_))) => self.flush_visits().await,
                flushed => flushed,
            },
        };
        self.shared.store.close().await;
        flushed
    }

    /// Writes the visits in memory.
    ///
    /// # Errors
    /// If the store fails; the visits stay in memory for the next write.
    pub async fn flush_visits(&self) -> Result<(), LinksError> {
        let Shared { visits, dimensions, store, .. } = &*self.shared;
        // Both, whatever becomes of the first.
        let flushed = (visits.flush(store).await, dimensions.flush(store).await);
        Ok(flushed.0.and(flushed.1)?)
    }

    /// The service's statistics.
    pub fn stats(&self) -> LinksStats {
        self.shared.counters.snapshot(self.shared.visits.stats())
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The cache of targets, for monitoring.
    pub fn cache(&self) -> &Cache {
        self.shared.targets.cache()
    }

    /// What the cache of targets has under a slug, for monitoring; `None` if the text cannot be a slug. Reads only.
    pub fn inspect(&self, slug: &str) -> Option<Inspection> {
        crate::model::slug::can_be_slug(slug).then(|| self.shared.targets.inspect(slug))
    }

    /// What the database says of a slug, for monitoring: what a request gets that finds nothing else in a cache. Like a HEAD,
    /// it is no visit.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn slug_state(&self, slug: &str) -> Result<SlugState, StoreError> {
        let Shared { store, visits, .. } = &*self.shared;
        let redirect = match store.find_route(slug).await?.map(Target::from) {
            Some(Target::Redirect(redirect)) if redirect.location(None).is_some() => redirect,
            Some(Target::Deleted) => return Ok(SlugState::Deleted),
            _ => return Ok(SlugState::Unknown),
        };
        match redirect.limits.as_deref() {
            Some(limits) if limits.has_expired(now_ms()) => Ok(SlugState::Expired),
            Some(&Limits { max_visits: Some(max), .. }) => {
                let admitted = visits.admit(redirect.link_id, max, false, store).await?;
                Ok(if admitted { SlugState::Redirects } else { SlugState::UsedUp })
            }
            _ => Ok(SlugState::Redirects),
        }
    }

    /// The status of the redirects, for monitoring.
    pub fn redirect_status(&self) -> StatusCode {
        StatusCode::from_u16(self.shared.config.redirect_status).unwrap_or(StatusCode::FOUND)
    }

    /// The response cache of the API, for monitoring and purging.
    pub fn responses(&self) -> &HttpCache {
        self.shared.responses.cache()
    }

    /// Whether a service that listens on `address` serves its API without a token: on loopback, if no option says that
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

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    /// What visitors get for links that do not redirect.
    pub(crate) fn pages(&self) -> &Pages {
        &self.shared.pages
    }

    /// Whether crawlers may follow all links.
    pub(crate) fn are_crawlable(&self) -> bool {
        self.shared.config.crawlable
    }

    pub(crate) fn access(&self) -> &Access {
        &self.shared.access
    }

    pub(crate) fn events(&self) -> &Events {
        &self.shared.events
    }

    /// A permit for an event stream; `None` if there are 64.
    pub(crate) fn stream_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.stream_permits.clone().try_acquire_owned().ok()
    }

    /// A permit to read a batch; 503 if none is free within five seconds.
    pub(crate) async fn batch_permit(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let permit = timeout(BATCH_TIMEOUT, self.shared.batch_permits.acquire()).await;
        let busy = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many batches at a time");
        permit.ok().and_then(Result::ok).ok_or_else(busy)
    }

    /// Runs CPU-bound work of milliseconds on a thread that serves no redirects.
    pub(crate) async fn parse_batch<T: Send + 'static>(
        &self,
        parse: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = self.shared.batch_parser.clone().acquire_owned().await;
        let parsed = tokio::task::spawn_blocking(move || {
            // The work owns the permit, because it continues if the client disconnects.
            let _permit = permit;
            parse()
        });
        parsed.await.unwrap_or_else(|_| Err(ApiError::internal()))
    }

    pub(crate) fn hosts(&self) -> &OwnHosts {
        &self.shared.hosts
    }

    pub(crate) fn stored_responses(&self) -> &Responses {
        &self.shared.responses
    }

    /// What is known of the other end of a connection before its requests.
    pub(crate) fn peer(&self, address: IpAddr) -> Peer {
        let Shared { config, countries, access, .. } = &*self.shared;
        // Behind a trusted proxy each request has its own client.
        let countries = countries.as_ref().filter(|_| config.visit_details != VisitDetails::None);
        let client = access.client_of_direct(address);
        let country = countries.zip(client).map(|(countries, client)| countries.find(client.address()));
        Peer { address: Some(address), country }
    }

    /// What is counted of the client of a request.
    pub(crate) fn visitor<'r>(&self, headers: &'r HeaderMap, peer: Peer) -> Visitor<'r> {
        let Shared { config, countries, access, agents, .. } = &*self.shared;
        let find = || Some(countries.as_ref()?.find(access.client(peer.address, headers).address()));
        Visitor::new(config.visit_details, headers, agents, || peer.country.or_else(find))
    }

    /// Fetches the target of a slug, for a request with this query. A redirect counts as a visit of `visitor`, unless that is a
    /// bot or a browser that prefetches.
    pub(crate) async fn follow(
        &self,
        slug: &str,
        query: Option<&str>,
        visitor: Option<&Visitor<'_>>,
    ) -> Result<Followed, FollowError> {
        let started = Instant::now();
        let followed = self.try_follow(slug, query, visitor).await;
        let outcome = match &followed {
            Ok(Followed::Redirect { .. }) => {
                self.shared.counters.slugs.record(slug.as_bytes());
                Outcome::Found
            }
            Ok(Followed::Unknown) => Outcome::NotFound,
            Ok(Followed::Expired | Followed::Deleted) => Outcome::Gone,
            Err(_) => Outcome::Error,
        };
        self.shared.counters.record_redirect(outcome, started.elapsed());
        followed
    }

    async fn try_follow(
        &self,
        slug: &str,
        query: Option<&str>,
        visitor: Option<&Visitor<'_>>,
    ) -> Result<Followed, FollowError> {
        let Shared { targets, store, visits, dimensions, .. } = &*self.shared;
        let target = targets.resolve(slug, store).await?;
        let redirect = match &*target {
            Some(Target::Redirect(redirect)) => redirect,
            Some(Target::Deleted) => return Ok(Followed::Deleted),
            None => return Ok(Followed::Unknown),
        };
        let Some(location) = redirect.location(query) else { return Ok(Followed::Unknown) };
        let now = now_ms();
        let is_visit = visitor.is_some_and(Visitor::is_visit);
        match redirect.limits.as_deref() {
            Some(limits) if limits.has_expired(now) => return Ok(Followed::Expired),
            Some(&Limits { max_visits: Some(max), .. }) => {
                // Boxed, because each connection has room for the future of a redirect, and few links have a limit.
                let admission = Box::pin(visits.admit(redirect.link_id, max, is_visit, store));
                if !admission.await? {
                    return Ok(Followed::Expired);
                }
            }
            _ if is_visit => visits.record(redirect.link_id, quarter_of(now)),
            _ => {}
        }
        if let Some(visitor) = visitor {
            dimensions.record(redirect.link_id, day_of(now), visitor);
        }
        Ok(Followed::Redirect { location, is_crawlable: redirect.crawlable })
    }

    /// Counts a request for a path that cannot be a slug.
    pub(crate) fn record_invalid_slug(&self) {
        self.shared.counters.record_redirect(Outcome::NotFound, Duration::ZERO);
    }
}

/// What the database says of a slug; see [`Links::slug_state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlugState {
    /// Its link redirects.
    Redirects,
    /// There is no link.
    Unknown,
    /// Its link was deleted, and can be restored.
    Deleted,
    /// Its link has reached its date.
    Expired,
    /// Its link has reached its limit of visits.
    UsedUp,
}

/// Where a slug leads.
#[derive(Debug)]
pub(crate) enum Followed {
    /// To this location.
    Redirect {
        /// In the form of a `Location` header.
        location: HeaderValue,
        /// Whether crawlers may follow it, also if the service refuses them.
        is_crawlable: bool,
    },
    /// There is no link.
    Unknown,
    /// The link has reached its date, or its limit of visits.
    Expired,
    /// The link was deleted.
    Deleted,
}

/// Why a slug could not be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error(transparent)]
    Fetch(#[from] FetchError<StoreError>),
    #[error(transparent)]
    Visits(#[from] StoreError),
}
