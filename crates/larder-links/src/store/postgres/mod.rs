//! The store on PostgreSQL: a pool of connections, and one transaction for each write.
//!
//! ```text
//! reads  ──► pool ──► query
//! writes ──► task ──► pool ──► [ BEGIN │ synchronous_commit = on │ statements │ COMMIT ]
//! ```
//!
//! Several instances share one database: what SQLite's single writer makes exact, locks of rows and advisory locks make
//! exact here. A commit is acknowledged when it is on the server's disk.
//!
//! If the connection breaks during a COMMIT, nobody can tell whether it is stored: [`StoreError::Unknown`]. Each batch of
//! visits, and of where they come from, has a number that is stored with it, so that it can be written again and counts once.

mod copy;
mod credentials;
mod dimensions;
mod error;
mod links;
mod migrate;
mod search;
mod server;
mod tls;
mod visits;

use crate::model::random;
use crate::model::slug::SlugCodec;
use crate::model::token::{Scope, SecretHash, Token};
use crate::store::health::{StoreHealth, WriterHealth};
use crate::store::{
    CreateOutcome, Credential, DatabaseAddress, Day, DimensionBatch, DimensionCounts, Duplicates, Link,
    LinkUpdate, ListQuery, NewLink, Page, Quarter, Route, StoreConfig, StoreError, TotalsOf, VisitBatch,
    VisitHistory, WrittenVisits, identity, now_ms,
};
pub use copy::{Copied, copy};
use deadpool_postgres::{
    Client, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Transaction,
};
use server::Server;
pub(crate) use server::check_url;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::RwLock;
use tokio::time::{sleep, timeout};

/// Connections of an instance.
const CONNECTIONS: usize = 8;

/// How long a connection may take to open, if the URL does not say.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long a query or a transaction may take. A server that answers no more is as good as gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a server that cannot be reached is tried.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a server is asked whether it is there, and how long it may take to say so.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
const WATCH_PATIENCE: Duration = Duration::from_secs(5);

/// Work on a connection that it borrows.
type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'c>>;

/// An open database. Clones share it.
#[derive(Clone)]
pub(super) struct PostgresStore {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Pool,
    /// The first statements of each writing transaction.
    settings: String,
    /// Reading: a write that runs. Writing: all have ended.
    writes: RwLock<()>,
    health: WriterHealth,
    codec: SlugCodec,
    identity: String,
    has_trigrams: bool,
    /// Whose batches of visits these are, and whose of dimensions: the numbers of each begin anew.
    visit_writer: [u8; 16],
    dimension_writer: [u8; 16],
}

fn open_error(address: &DatabaseAddress, reason: &str) -> StoreError {
    let source: Box<dyn std::error::Error + Send + Sync> = reason.into();
    StoreError::Open { database: address.clone(), source: source.into() }
}

impl PostgresStore {
    pub(in crate::store) fn open(url: &str, config: &StoreConfig) -> Result<PostgresStore, StoreError> {
        let address = &config.database;
        let mut server = Server::of(url, address)?;
        if server.config.get_connect_timeout().is_none() {
            server.config.connect_timeout(config.queue_timeout);
        }
        let prepared = prepare(&server, address)?;
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let wait = Some(config.queue_timeout);
        let pool = Pool::builder(Manager::from_config(server.config, server.tls, manager))
            .max_size(CONNECTIONS)
            .wait_timeout(wait)
            .create_timeout(wait)
            .recycle_timeout(wait)
            .runtime(Runtime::Tokio1)
            .build()
            .expect("a runtime is set");
        let lock_ms = config.busy_timeout.as_millis().max(1);
        Ok(PostgresStore {
            shared: Arc::new(Shared {
                pool,
                settings: format!("SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {lock_ms}"),
                writes: RwLock::default(),
                health: WriterHealth::default(),
                codec: SlugCodec::new(prepared.slug_key),
                identity: identity(&prepared.slug_key),
                has_trigrams: prepared.has_trigrams,
                visit_writer: random::bytes(),
                dimension_writer: random::bytes(),
            }),
        })
    }

    pub(in crate::store) fn identity(&self) -> &str {
        &self.shared.identity
    }

    pub(in crate::store) fn slugs(&self) -> &SlugCodec {
        &self.shared.codec
    }

    pub(in crate::store) async fn create(
        &self,
        new: Vec<NewLink>,
        repeats: Duplicates,
    ) -> Result<Vec<CreateOutcome>, StoreError> {
        let codec = self.shared.codec.clone();
        self.write(move |t| Box::pin(async move { links::create(t, &codec, &new, repeats, now_ms()).await }))
            .await
    }

    pub(in crate::store) async fn update(
        &self,
        slug: &str,
        change: LinkUpdate,
    ) -> Result<Option<Link>, StoreError> {
        let slug = slug.to_owned();
        self.write(move |t| Box::pin(async move { Ok(links::update(t, &slug, &change).await?) })).await
    }

    pub(in crate::store) async fn delete(&self, slug: &str) -> Result<bool, StoreError> {
        let slug = slug.to_owned();
        self.write(move |t| Box::pin(async move { Ok(links::delete(t, &slug, now_ms()).await?) })).await
    }

    pub(in crate::store) async fn restore(&self, slug: &str, since: i64) -> Result<Option<Link>, StoreError> {
        let slug = slug.to_owned();
        self.write(move |t| Box::pin(async move { Ok(links::restore(t, &slug, since).await?) })).await
    }

    pub(in crate::store) async fn drop_visits_of_deleted(&self, until_ms: i64) -> Result<usize, StoreError> {
        const STEP: usize = 1_000;
        self.write(move |t| {
            Box::pin(async move {
                let visits = visits::drop_of_deleted(t, until_ms, STEP).await?;
                Ok(visits + dimensions::drop_of_deleted(t, until_ms, STEP).await?)
            })
        })
        .await
    }

    pub(in crate::store) async fn drop_deleted(&self, until_ms: i64) -> Result<Vec<String>, StoreError> {
        const STEP: usize = 500;
        self.write(move |t| Box::pin(async move { Ok(links::drop_deleted(t, until_ms, STEP).await?) })).await
    }

    pub(in crate::store) async fn write_batch(
        &self,
        batch: &VisitBatch,
        totals: TotalsOf,
    ) -> Result<WrittenVisits, StoreError> {
        let (batch, writer) = (batch.clone(), self.shared.visit_writer);
        self.write(move |t| {
            Box::pin(async move {
                let written = match visits::claim_batch(t, &writer, batch.number, now_ms()).await? {
                    true => visits::add(t, &batch, &totals).await,
                    false => visits::already_written(t, &batch, &totals).await,
                };
                Ok(written?)
            })
        })
        .await
    }

    pub(in crate::store) async fn write_dimensions(&self, batch: &DimensionBatch) -> Result<(), StoreError> {
        let (batch, writer) = (batch.clone(), self.shared.dimension_writer);
        self.write(move |t| {
            Box::pin(async move {
                if visits::claim_batch(t, &writer, batch.number, now_ms()).await? {
                    dimensions::add(t, &batch.rows).await?;
                }
                Ok(())
            })
        })
        .await
    }

    pub(in crate::store) async fn add_token(
        &self,
        hash: SecretHash,
        name: &str,
        scope: Scope,
    ) -> Result<Token, StoreError> {
        let name = name.to_owned();
        self.write(move |t| {
            Box::pin(async move { credentials::add_token(t, hash, &name, scope, now_ms()).await })
        })
        .await
    }

    pub(in crate::store) async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(|client| Box::pin(async move { Ok(credentials::tokens(client).await?) })).await
    }

    pub(in crate::store) async fn remove_token(&self, id: u64) -> Result<bool, StoreError> {
        self.write(move |t| Box::pin(async move { Ok(credentials::remove_token(t, id).await?) })).await
    }

    pub(in crate::store) async fn credentials(&self) -> Result<Vec<Credential>, StoreError> {
        self.read(|client| Box::pin(async move { Ok(credentials::credentials(client, now_ms()).await?) }))
            .await
    }

    pub(in crate::store) async fn add_session(
        &self,
        hash: SecretHash,
        token_id: u64,
        expires_at: i64,
    ) -> Result<bool, StoreError> {
        self.write(move |t| {
            Box::pin(
                async move { Ok(credentials::add_session(t, hash, token_id, expires_at, now_ms()).await?) },
            )
        })
        .await
    }

    pub(in crate::store) async fn remove_session(&self, hash: SecretHash) -> Result<(), StoreError> {
        self.write(move |t| Box::pin(async move { Ok(credentials::remove_session(t, hash).await?) })).await
    }

    pub(in crate::store) async fn find(&self, slug: &str) -> Result<Option<Link>, StoreError> {
        let slug = slug.to_owned();
        self.read(move |client| Box::pin(async move { Ok(links::find(client, &slug).await?) })).await
    }

    pub(in crate::store) async fn find_route(&self, slug: &str) -> Result<Option<Route>, StoreError> {
        let slug = slug.to_owned();
        self.read(move |client| Box::pin(async move { Ok(links::find_route(client, &slug).await?) })).await
    }

    pub(in crate::store) async fn visits(&self, link_id: u64) -> Result<Option<u64>, StoreError> {
        self.read(move |client| Box::pin(async move { Ok(visits::total(client, link_id).await?) })).await
    }

    pub(in crate::store) async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        let has_trigrams = self.shared.has_trigrams;
        self.read(move |client| {
            Box::pin(async move { Ok(search::list(client, &query, has_trigrams).await?) })
        })
        .await
    }

    pub(in crate::store) async fn links_after(&self, id: u64) -> Result<Vec<Link>, StoreError> {
        self.read(move |client| Box::pin(async move { Ok(links::links_after(client, id).await?) })).await
    }

    pub(in crate::store) async fn history(
        &self,
        link_id: u64,
        since: Quarter,
    ) -> Result<VisitHistory, StoreError> {
        self.read(move |client| Box::pin(async move { Ok(visits::history(client, link_id, since).await?) }))
            .await
    }

    pub(in crate::store) async fn dimensions(
        &self,
        link_id: u64,
        since: Day,
    ) -> Result<DimensionCounts, StoreError> {
        self.read(move |client| {
            Box::pin(async move { Ok(dimensions::counts(client, link_id, since).await?) })
        })
        .await
    }

    pub(in crate::store) async fn fold_visits(&self, before: Day) -> Result<usize, StoreError> {
        const STEP: usize = 1_000;
        self.write(move |t| Box::pin(async move { Ok(visits::fold(t, before, STEP).await?) })).await
    }

    pub(in crate::store) async fn drop_visits(&self, before: Day) -> Result<usize, StoreError> {
        const STEP: usize = 1_000;
        self.write(move |t| {
            Box::pin(async move {
                visits::drop_batches(t, now_ms()).await?;
                Ok(visits::drop_before(t, before, STEP).await?)
            })
        })
        .await
    }

    pub(in crate::store) async fn drop_dimensions(&self, before: Day) -> Result<usize, StoreError> {
        const STEP: usize = 1_000;
        self.write(move |t| Box::pin(async move { Ok(dimensions::drop_before(t, before, STEP).await?) }))
            .await
    }

    pub(in crate::store) async fn forget_visits(&self, link_id: u64) -> Result<bool, StoreError> {
        self.write(move |t| {
            Box::pin(async move {
                let exists = visits::forget(t, link_id).await?;
                dimensions::forget(t, link_id).await?;
                Ok(exists)
            })
        })
        .await
    }

    pub(in crate::store) async fn crawlable_slugs(&self, most: usize) -> Result<Vec<String>, StoreError> {
        self.read(move |client| Box::pin(async move { Ok(links::crawlable_slugs(client, most).await?) }))
            .await
    }

    /// Asks the server from time to time whether it is there, until the store is closed: a service without requests would not
    /// notice otherwise.
    pub(in crate::store) fn watch(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::downgrade(&self.shared);
        async move {
            loop {
                sleep(WATCH_INTERVAL).await;
                let Some(shared) = shared.upgrade().filter(|shared| !shared.pool.is_closed()) else { return };
                let asked = shared.ask().await;
                if let Err(StoreError::Unreachable(_)) = asked {
                    shared.record(&asked);
                }
            }
        }
    }

    pub(in crate::store) fn is_closed(&self) -> bool {
        self.shared.pool.is_closed()
    }

    pub(in crate::store) fn health(&self) -> StoreHealth {
        if self.is_closed() { StoreHealth::Closed } else { self.shared.health.get() }
    }

    pub(in crate::store) async fn close(&self) {
        self.shared.pool.close();
        // Those that have a connection end; further ones find no pool.
        drop(self.shared.writes.write().await);
    }

    /// Runs a transaction, in a task of its own: it ends whatever becomes of its caller.
    async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: for<'t> FnOnce(&'t Transaction<'t>) -> Work<'t, T> + Send + 'static,
        T: Send + 'static,
    {
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            let _running = shared.writes.read().await;
            let result = shared.transact(work).await;
            shared.record(&result);
            result
        });
        match task.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => Err(StoreError::WriterFailed),
            Err(_) => Err(StoreError::Closed),
        }
    }

    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: for<'c> FnOnce(&'c Client) -> Work<'c, T> + Send,
    {
        let result = async {
            let client = self.shared.pool.get().await?;
            match timeout(PATIENCE, work(&client)).await {
                Ok(result) => result,
                Err(late) => {
                    drop(Object::take(client));
                    Err(StoreError::Unreachable(Arc::new(late)))
                }
            }
        };
        let result = result.await;
        if let Err(StoreError::Unreachable(_)) = result {
            self.shared.record(&result);
        }
        result
    }
}

impl Shared {
    async fn transact<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: for<'t> FnOnce(&'t Transaction<'t>) -> Work<'t, T>,
    {
        let mut client = self.pool.get().await?;
        let run = async {
            let transaction = client.transaction().await?;
            transaction.batch_execute(&self.settings).await?;
            let value = work(&transaction).await?;
            transaction.commit().await.map_err(error::of_commit)?;
            Ok(value)
        };
        match timeout(PATIENCE, run).await {
            Ok(result) => result,
            Err(late) => {
                // What is still on its way must not meet the next user of the connection.
                drop(Object::take(client));
                Err(StoreError::Unknown(Arc::new(late)))
            }
        }
    }

    /// Notes what an operation says of the server. One that cannot be reached is tried until it can: a service that gets no
    /// requests while it is unhealthy would never notice otherwise.
    fn record<T>(self: &Arc<Self>, result: &Result<T, StoreError>) {
        match result {
            Ok(_) => self.health.record(&Ok(())),
            Err(error @ (StoreError::Unreachable(_) | StoreError::Unknown(_))) => {
                if matches!(self.health.get(), StoreHealth::WriterDown { .. }) {
                    return;
                }
                tracing::error!(%error, "the database does not answer");
                self.health.set_down();
                let shared = Arc::downgrade(self);
                tokio::spawn(async move {
                    loop {
                        sleep(PAUSE).await;
                        let Some(shared) = shared.upgrade().filter(|shared| !shared.pool.is_closed()) else {
                            return;
                        };
                        if shared.ask().await.is_ok() {
                            return shared.health.set_up();
                        }
                    }
                });
            }
            Err(error) => self.health.record(&Err(error.clone())),
        }
    }

    /// Asks whether the server is there. All connections may be in use; that says nothing of it.
    async fn ask(&self) -> Result<(), StoreError> {
        let client = self.pool.get().await?;
        match timeout(WATCH_PATIENCE, client.batch_execute("SELECT 1")).await {
            Ok(answer) => Ok(answer?),
            Err(late) => {
                drop(Object::take(client));
                Err(StoreError::Unreachable(Arc::new(late)))
            }
        }
    }
}

/// What a store knows of its database from the start.
struct Prepared {
    slug_key: [u8; 16],
    has_trigrams: bool,
}

/// Migrates the database. `Store::open` blocks, for SQLite, and callers open a store inside of a runtime and outside of one.
/// So this connection has a thread and a runtime of its own; those of the pool are opened by the runtime that uses them.
fn prepare(server: &Server, address: &DatabaseAddress) -> Result<Prepared, StoreError> {
    let failed =
        |error: std::io::Error| StoreError::Open { database: address.clone(), source: Arc::new(error) };
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime.block_on(prepare_with(server, address))
    };
    let prepared = std::thread::scope(|scope| scope.spawn(work).join());
    prepared.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

async fn prepare_with(server: &Server, address: &DatabaseAddress) -> Result<Prepared, StoreError> {
    let failed = |error| migrate::cannot_open(address, error);
    // That of the client library ends where whatever listens there has accepted the connection.
    let wait = server.config.get_connect_timeout().copied().unwrap_or(CONNECT_PATIENCE);
    let wait = wait * server.config.get_hosts().len().max(1) as u32;
    let silent =
        |_| open_error(address, &format!("what listens there says nothing for {} s", wait.as_secs()));
    let connected = timeout(wait, server.config.connect(server.tls.clone())).await;
    let (mut client, connection) = connected.map_err(silent)?.map_err(failed)?;
    // It ends with the runtime.
    tokio::spawn(connection);
    migrate::migrate(&mut client, address, &migrate::MIGRATIONS).await?;
    let has_trigrams = search::prepare(&client).await.map_err(failed)?;
    let select = "SELECT value FROM larder_meta WHERE name = 'slug_key'";
    let value: Vec<u8> = client.query_one(select, &[]).await.map_err(failed)?.get(0);
    let slug_key =
        value.try_into().map_err(|_| open_error(address, "the key of its slugs has not 16 bytes"))?;
    Ok(Prepared { slug_key, has_trigrams })
}
