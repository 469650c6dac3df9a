//! The service without HTTP: how creating, changing, deleting and following a link affect store, caches and counters.
//!
//! Every change takes the same steps, in a task of its own, so that a client that disconnects cannot stop it half-way:
//!
//! ```text
//! commit in the store ──► cache entry of the slug invalidated ──► stored responses purged ──► response
//! ```
//!
//! The cache rejects the result of a load that started before the change. After the response no client sees the old state;
//! before it, any client may.

use crate::access::Access;
use crate::cache::{self, Limits, Target, Targets};
use crate::config::{Config, VisitDetails};
use crate::dimensions::{Countries, Country, Dimensions, Visitor};
use crate::error::LinksError;
use crate::events::{Event, Events};
use crate::hosts::OwnHosts;
use crate::reply::ApiError;
use crate::responses::{self, Responses};
use crate::stats::{Counters, LinksStats, Outcome};
use crate::store::{
    CreateOutcome, Duplicates, Link, LinkUpdate, NewLink, QUARTERS_KEPT_DAYS, RESTORE_PERIOD, Store,
    StoreError, day_of, now_ms, quarter_of, today,
};
use crate::visits::Visits;
use crate::{front::Front, router, serve};
use axum::Router;
use http::{HeaderMap, HeaderValue, StatusCode};
use larder::{Cache, FetchError, Inspection};
use larder_http::HttpCache;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
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
        Ok(Deps {
            store: Store::open(&config.store_config()?)?,
            cache: cache::build(config)?,
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
    /// [`LinksError::Config`] if an option is out of range.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(config: Config, deps: Deps) -> Result<Links, LinksError> {
        config.validate()?;
        let hosts = OwnHosts::new(config.public_base()?, config.allowed_hosts()?);
        let access = Access::new(&config, deps.store.clone())?;
        let targets = Targets::new(deps.cache, &config);
        let events = Arc::new(Events::new());
        let visits = Arc::new(Visits::new(config.visit_batch, config.visit_queue, events.clone()));
        let dimensions = Arc::new(Dimensions::new(config.visit_queue));
        let countries = config.country_database.as_deref().map(Countries::open).transpose()?;
        let (stop_flusher, stopped) = watch::channel(false);
        let every = Duration::from_millis(config.visit_flush_ms);
        let (flushed, store) = (visits.clone(), deps.store.clone());
        tokio::spawn(dimensions.clone().run(store.clone(), every, stopped.clone()));
        tokio::spawn(async move { flushed.run(&store, every, stopped).await });
        let links = Links {
            shared: Arc::new(Shared {
                hosts,
                access,
                batch_permits: Semaphore::new(MAX_BATCHES),
                batch_parser: Arc::new(Semaphore::new(1)),
                targets,
                config,
                store: deps.store,
                responses: Responses::new(deps.responses),
                visits,
                dimensions,
                countries,
                events,
                stream_permits: Arc::new(Semaphore::new(MAX_STREAMS)),
                counters: Counters::default(),
                stop_flusher,
            }),
        };
        tokio::spawn(tidy_hourly(Arc::downgrade(&links.shared)));
        Ok(links)
    }

    /// The routes of the service, for [`serve`](Links::serve) or another application.
    ///
    /// Without `ConnectInfo<SocketAddr>` in a request its client is unknown, and the API needs a token.
    pub fn router(&self) -> Router {
        router::build(self.clone())
    }

    /// Serves connections until `shutdown` completes, gives running requests the drain timeout to finish, and then
    /// [stops](Links::stop).
    ///
    /// # Errors
    /// [`LinksError::Stopped`] after [`stop`](Links::stop), [`LinksError::Io`] if the listener has no address.
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
        let shutdown = async {
            shutdown.await;
            self.shared.events.close();
        };
        let front = Front::new(self.clone());
        let service_of = |peer| front.clone().service_of(peer);
        serve::serve_each(listener, service_of, self.shared.config.serve_options(), shutdown).await;
        self.stop().await
    }

    /// Writes the visits that are still in memory and closes the database.
    ///
    /// # Errors
    /// If the visits cannot be written; the database is closed anyway.
    pub async fn stop(&self) -> Result<(), LinksError> {
        self.shared.stop_flusher.send_replace(true);
        let flushed = match self.shared.store.is_closed() {
            true => Ok(()),
            false => self.flush_visits().await,
        };
        self.shared.store.close().await;
        let pending = self.shared.targets.cache().close(CLOSE_TIMEOUT).await;
        if pending > 0 {
            tracing::warn!(
                pending,
                "redis has not confirmed some changes: other instances may serve older links"
            );
        }
        flushed
    }

    /// Writes the visits in memory.
    ///
    /// # Errors
    /// If the store fails; the visits stay in memory for the next write.
    pub async fn flush_visits(&self) -> Result<(), LinksError> {
        let Shared { visits, dimensions, store, .. } = &*self.shared;
        visits.flush(store).await?;
        Ok(dimensions.flush(store).await?)
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
        crate::slug::can_be_slug(slug).then(|| self.shared.targets.inspect(slug))
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

    pub(crate) fn redirect_status(&self) -> StatusCode {
        StatusCode::from_u16(self.shared.config.redirect_status).unwrap_or(StatusCode::FOUND)
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
        let Shared { config, countries, access, .. } = &*self.shared;
        let find = || Some(countries.as_ref()?.find(access.client(peer.address, headers).address()));
        Visitor::new(config.visit_details, headers, || peer.country.or_else(find))
    }

    /// Fetches the target of a slug, for a request with this query. A redirect counts as a visit of `visitor`.
    pub(crate) async fn follow(
        &self,
        slug: &str,
        query: Option<&str>,
        visitor: Option<&Visitor<'_>>,
    ) -> Result<Followed, FollowError> {
        let started = Instant::now();
        let followed = self.try_follow(slug, query, visitor).await;
        let outcome = match &followed {
            Ok(Followed::Redirect(_)) => {
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
        match redirect.limits.as_deref() {
            Some(limits) if limits.has_expired(now) => return Ok(Followed::Expired),
            Some(&Limits { max_visits: Some(max), .. }) => {
                // Boxed, because each connection has room for the future of a redirect, and few links have a limit.
                let admission = Box::pin(visits.admit(redirect.link_id, max, visitor.is_some(), store));
                if !admission.await? {
                    return Ok(Followed::Expired);
                }
            }
            _ if visitor.is_some() => visits.record(redirect.link_id, quarter_of(now)),
            _ => {}
        }
        if let Some(visitor) = visitor {
            dimensions.record(redirect.link_id, day_of(now), visitor);
        }
        Ok(Followed::Redirect(location))
    }

    /// Counts a request for a path that cannot be a slug.
    pub(crate) fn record_invalid_slug(&self) {
        self.shared.counters.record_redirect(Outcome::NotFound, Duration::ZERO);
    }

    pub(crate) async fn create(
        &self,
        links: Vec<NewLink>,
        repeats: Duplicates,
    ) -> Result<Vec<CreateOutcome>, ApiError> {
        let this = self.clone();
        run_to_completion(async move {
            let outcomes = this.shared.store.create(links, repeats).await?;
            let new: Vec<String> = outcomes
                .iter()
                .filter_map(|creation| match creation {
                    CreateOutcome::Created(link) => Some(link.slug.clone()),
                    CreateOutcome::Existing(_) | CreateOutcome::SlugTaken => None,
                })
                .collect();
            if new.is_empty() {
                return Ok(outcomes);
            }
            this.shared.counters.created.add(new.len() as u64);
            this.shared.targets.invalidate(new).await;
            this.shared.responses.purge_list();
            this.shared.events.send(Event::Changed);
            Ok(outcomes)
        })
        .await
    }

    pub(crate) async fn update(&self, slug: &str, change: LinkUpdate) -> Result<Option<Link>, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        run_to_completion(async move {
            let changed = this.shared.store.update(&slug, change).await?;
            if changed.is_some() {
                this.shared.targets.invalidate([slug.clone()]).await;
                this.shared.responses.purge_link(&slug);
                this.shared.events.send(Event::Changed);
            }
            Ok(changed)
        })
        .await
    }

    pub(crate) async fn delete(&self, slug: &str) -> Result<bool, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        run_to_completion(async move {
            let deleted = this.shared.store.delete(&slug).await?;
            if deleted {
                this.shared.counters.deleted.add(1);
                this.shared.targets.invalidate([slug.clone()]).await;
                this.shared.responses.purge_link(&slug);
                this.shared.events.send(Event::Changed);
            }
            Ok(deleted)
        })
        .await
    }

    pub(crate) async fn restore(&self, slug: &str) -> Result<Option<Link>, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        run_to_completion(async move {
            let restored = this.shared.store.restore(&slug).await?;
            if restored.is_some() {
                this.shared.counters.restored.add(1);
                this.shared.targets.invalidate([slug.clone()]).await;
                this.shared.responses.purge_link(&slug);
                this.shared.events.send(Event::Changed);
            }
            Ok(restored)
        })
        .await
    }

    pub(crate) async fn forget_visits(&self, slug: &str) -> Result<bool, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        run_to_completion(async move {
            let Shared { store, visits, dimensions, targets, responses, .. } = &*this.shared;
            let Some(link) = store.find(&slug).await? else { return Ok(false) };
            dimensions.forget(link.id).await;
            let forgotten = visits.forget(link.id, store).await?;
            targets.invalidate([slug.clone()]).await;
            responses.purge_link(&slug);
            this.shared.events.send(Event::Changed);
            Ok(forgotten)
        })
        .await
    }

    /// Sums visits that are older than 90 days into days, and drops those that are older than the retention.
    ///
    /// # Errors
    /// If the store fails; the next call does the rest.
    pub async fn fold_visits(&self) -> Result<(), LinksError> {
        let Shared { store, config, .. } = &*self.shared;
        while store.drop_visits(today() - i64::from(config.visit_retention_days)).await? > 0 {}
        while store.fold_visits(today() - QUARTERS_KEPT_DAYS).await? > 0 {}
        Ok(())
    }

    /// Drops the links whose time to be restored is over. Their slugs are unknown from then on.
    ///
    /// # Errors
    /// If the store fails; the next call drops them.
    pub async fn drop_deleted(&self) -> Result<u64, LinksError> {
        let until = now_ms() - RESTORE_PERIOD.as_millis() as i64;
        let mut count = 0;
        loop {
            let slugs = self.shared.store.drop_deleted(until).await?;
            if slugs.is_empty() {
                return Ok(count);
            }
            count += slugs.len() as u64;
            self.shared.targets.invalidate(slugs).await;
        }
    }
}

/// Until the service is dropped or stopped. The first time is a minute after the start, so that a start writes nothing.
async fn tidy_hourly(service: Weak<Shared>) {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let mut wait = Duration::from_secs(60);
    loop {
        tokio::time::sleep(wait).await;
        wait = HOUR;
        let Some(shared) = service.upgrade() else { return };
        let links = Links { shared };
        let tidied = async { links.drop_deleted().await.map(drop).and(links.fold_visits().await) };
        match tidied.await {
            Err(LinksError::Store(StoreError::Closed)) => return,
            Err(error) => tracing::warn!(%error, "cannot drop old links and visits"),
            Ok(()) => {}
        }
    }
}

/// Where a slug leads.
#[derive(Debug)]
pub(crate) enum Followed {
    /// To this location.
    Redirect(HeaderValue),
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

async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::spawn(work).await {
        Ok(result) => Ok(result?),
        Err(error) => {
            tracing::error!(%error, "a change panicked");
            Err(ApiError::internal())
        }
    }
}
