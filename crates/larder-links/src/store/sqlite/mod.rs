//! The store on SQLite: a write-ahead log, one writing connection on its own thread, a few reading connections.
//!
//! `synchronous` is NORMAL: an acknowledged commit is in the log file and survives the end of the process (`kill -9` too).
//! Only a crash of the operating system or a power failure can lose the commits since the last sync of the log; the
//! database stays consistent in any case.

mod backup;
mod credentials;
mod dimensions;
mod migrate;
mod search;
mod statements;
#[cfg(feature = "postgres")]
mod unused;
mod visits;
mod writer;

use crate::model::slug::SlugCodec;
use crate::model::tag::MAX_TAGS;
use crate::model::token::{Scope, SecretHash, Token};
use crate::store::health::{StoreHealth, WriterHealth};
use crate::store::{
    CreateOutcome, Credential, DatabaseAddress, Day, DimensionBatch, DimensionCounts, Duplicates, Link,
    LinkTotal, LinkUpdate, ListQuery, NewLink, Page, Quarter, Route, StoreConfig, StoreError, TotalsOf,
    VisitBatch, VisitHistory, WrittenVisits, identity, now_ms,
};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
#[cfg(feature = "postgres")]
pub(super) use unused::Unused;
use writer::{Job, WriteContext, WriteJob};

/// An open database. Clones share it; the drop of the last one closes it.
#[derive(Clone)]
pub(super) struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    /// `None` after `close`. Dropping it ends the writer.
    queue: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    writer_health: Arc<WriterHealth>,
    readers: Arc<Readers>,
    queue_timeout: Duration,
    codec: SlugCodec,
    identity: String,
    path: PathBuf,
}

/// Idle reading connections, and as many permits as there are connections.
struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    count: u32,
}

impl SqliteStore {
    pub(in crate::store) fn identity(&self) -> &str {
        &self.shared.identity
    }

    pub(in crate::store) fn open(path: &Path, config: &StoreConfig) -> Result<SqliteStore, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| open_error(path, error))?;
        }
        make_private_file(path)?;
        let writing = open_writer(path, config)?;
        let slug_key = statements::slug_key(&writing)?;
        let (codec, identity) = (SlugCodec::new(slug_key), identity(&slug_key));
        let count = config.readers.max(1);
        let idle = (0..count).map(|_| open_reader(path, config)).collect::<Result<Vec<_>, _>>()?;
        let permits = Arc::new(Semaphore::new(count as usize));
        let readers = Readers { idle: Mutex::new(idle), permits, count };

        let (queue, jobs) = mpsc::channel(config.queue.max(1));
        let writer_health = Arc::new(WriterHealth::default());
        let (writer_path, writer_config) = (path.to_owned(), config.clone());
        let (writer_codec, health) = (codec.clone(), writer_health.clone());
        let run_writer = move || {
            let reopen = || open_writer(&writer_path, &writer_config);
            writer::supervise(writing, reopen, &writer_codec, jobs, writer_config.group.max(1), &health);
        };
        let writer = std::thread::Builder::new()
            .name("links-writer".into())
            .spawn(run_writer)
            .map_err(|error| open_error(path, error))?;
        Ok(SqliteStore {
            shared: Arc::new(Shared {
                queue: Mutex::new(Some(queue)),
                writer: Mutex::new(Some(writer)),
                writer_health,
                readers: Arc::new(readers),
                queue_timeout: config.queue_timeout,
                codec,
                identity,
                path: path.to_owned(),
            }),
        })
    }

    pub(in crate::store) async fn create(
        &self,
        links: Vec<NewLink>,
        repeats: Duplicates,
    ) -> Result<Vec<CreateOutcome>, StoreError> {
        let tags: usize = links.iter().map(|link| link.options.tags.len()).sum();
        self.write(3 * links.len() + tags, move |context| {
            let now_ms = now_ms();
            links
                .iter()
                .map(|link| {
                    let WriteContext { connection, codec, next_id } = context;
                    statements::create(connection, codec, next_id, link, repeats, now_ms)
                })
                .collect()
        })
        .await
    }

    pub(in crate::store) async fn update(
        &self,
        slug: &str,
        change: LinkUpdate,
    ) -> Result<Option<Link>, StoreError> {
        let slug = slug.to_owned();
        let work =
            move |context: &mut WriteContext<'_>| Ok(statements::update(context.connection, &slug, &change)?);
        self.write(4 + MAX_TAGS, work).await
    }

    pub(in crate::store) async fn delete(&self, slug: &str) -> Result<bool, StoreError> {
        let slug = slug.to_owned();
        self.write(1, move |context| Ok(statements::delete(context.connection, &slug, now_ms())?)).await
    }

    pub(in crate::store) async fn restore(&self, slug: &str, since: i64) -> Result<Option<Link>, StoreError> {
        let slug = slug.to_owned();
        self.write(2, move |context| Ok(statements::restore(context.connection, &slug, since)?)).await
    }

    pub(in crate::store) async fn drop_visits_of_deleted(&self, until_ms: i64) -> Result<usize, StoreError> {
        const STEP: usize = 1_000;
        self.write(3 * STEP, move |context| {
            let visits = visits::drop_of_deleted(context.connection, until_ms, STEP)?;
            Ok(visits + dimensions::drop_of_deleted(context.connection, until_ms, STEP)?)
        })
        .await
    }

    pub(in crate::store) async fn drop_deleted(&self, until_ms: i64) -> Result<Vec<String>, StoreError> {
        const STEP: usize = 500;
        let work = move |context: &mut WriteContext<'_>| {
            Ok(statements::drop_deleted(context.connection, until_ms, STEP)?)
        };
        self.write(2 * STEP, work).await
    }

    pub(in crate::store) async fn write_batch(
        &self,
        batch: &VisitBatch,
        totals: TotalsOf,
    ) -> Result<WrittenVisits, StoreError> {
        // The number is of no use: whether a commit of SQLite is stored is always known.
        let rows = batch.rows.clone();
        self.write(3 * rows.len(), move |context| {
            let mut written = WrittenVisits::default();
            let mut additions = visits::Additions::prepare(context.connection)?;
            for &(key, count) in &rows {
                if !additions.add(key, count)? {
                    continue;
                }
                written.visits += count;
                if totals.include(key.link_id)
                    && let Some((slug, visits)) = visits::slug_and_total(context.connection, key.link_id)?
                {
                    written.totals.push(LinkTotal { link_id: key.link_id, slug, visits });
                }
            }
            Ok(written)
        })
        .await
    }

    pub(in crate::store) async fn write_dimensions(&self, batch: &DimensionBatch) -> Result<(), StoreError> {
        let rows = batch.rows.clone();
        self.write(2 * rows.len(), move |context| {
            let mut additions = dimensions::Additions::prepare(context.connection)?;
            Ok(rows.iter().try_for_each(|(key, count)| additions.add(key, *count))?)
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
        // The outer result is `Ok` even if the inner one is not: an error would roll back the other writes of the group.
        let made = self.write(2, move |context| {
            Ok(credentials::add_token(context.connection, hash, &name, scope, now_ms()))
        });
        made.await?
    }

    pub(in crate::store) async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(credentials::tokens).await
    }

    pub(in crate::store) async fn remove_token(&self, id: u64) -> Result<bool, StoreError> {
        self.write(1, move |context| Ok(credentials::remove_token(context.connection, id)?)).await
    }

    pub(in crate::store) async fn credentials(&self) -> Result<Vec<Credential>, StoreError> {
        self.read(|connection| credentials::credentials(connection, now_ms())).await
    }

    pub(in crate::store) async fn add_session(
        &self,
        hash: SecretHash,
        token_id: u64,
        expires_at: i64,
    ) -> Result<bool, StoreError> {
        self.write(3, move |context| {
            Ok(credentials::add_session(context.connection, hash, token_id, expires_at, now_ms())?)
        })
        .await
    }

    pub(in crate::store) async fn remove_session(&self, hash: SecretHash) -> Result<(), StoreError> {
        self.write(1, move |context| Ok(credentials::remove_session(context.connection, hash)?)).await
    }

    pub(in crate::store) async fn find(&self, slug: &str) -> Result<Option<Link>, StoreError> {
        let slug = slug.to_owned();
        self.read(move |connection| statements::find(connection, &slug)).await
    }

    pub(in crate::store) async fn find_route(&self, slug: &str) -> Result<Option<Route>, StoreError> {
        let slug = slug.to_owned();
        self.read(move |connection| statements::find_route(connection, &slug)).await
    }

    pub(in crate::store) async fn visits(&self, link_id: u64) -> Result<Option<u64>, StoreError> {
        self.read(move |connection| visits::total(connection, link_id)).await
    }

    pub(in crate::store) async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        self.read(move |connection| search::list(connection, &query)).await
    }

    pub(in crate::store) async fn links_after(&self, id: u64) -> Result<Vec<Link>, StoreError> {
        self.read(move |connection| search::links_after(connection, id)).await
    }

    pub(in crate::store) async fn backup(&self, to: PathBuf) -> Result<(), StoreError> {
        let from = self.shared.path.clone();
        let copied = tokio::task::spawn_blocking(move || backup::copy(&from, &to));
        copied.await.map_err(|_| StoreError::Closed)?
    }

    pub(in crate::store) async fn history(
        &self,
        link_id: u64,
        since: Quarter,
    ) -> Result<VisitHistory, StoreError> {
        self.read(move |connection| visits::history(connection, link_id, since)).await
    }

    pub(in crate::store) async fn dimensions(
        &self,
        link_id: u64,
        since: Day,
    ) -> Result<DimensionCounts, StoreError> {
        self.read(move |connection| dimensions::counts(connection, link_id, since)).await
    }

    pub(in crate::store) async fn fold_visits(&self, before: Day) -> Result<usize, StoreError> {
        const STEP: usize = 1_000;
        self.write(2 * STEP, move |context| Ok(visits::fold(context.connection, before, STEP)?)).await
    }

    pub(in crate::store) async fn drop_visits(&self, before: Day) -> Result<usize, StoreError> {
        const STEP: usize = 1_000;
        self.write(2 * STEP, move |context| Ok(visits::drop_before(context.connection, before, STEP)?)).await
    }

    pub(in crate::store) async fn drop_dimensions(&self, before: Day) -> Result<usize, StoreError> {
        const STEP: usize = 1_000;
        self.write(STEP, move |context| Ok(dimensions::drop_before(context.connection, before, STEP)?)).await
    }

    pub(in crate::store) async fn forget_visits(&self, link_id: u64) -> Result<bool, StoreError> {
        self.write(4, move |context| {
            dimensions::forget(context.connection, link_id)?;
            Ok(visits::forget(context.connection, link_id)?)
        })
        .await
    }

    pub(in crate::store) async fn crawlable_slugs(&self, most: usize) -> Result<Vec<String>, StoreError> {
        self.read(move |connection| statements::crawlable_slugs(connection, most)).await
    }

    pub(in crate::store) fn slugs(&self) -> &SlugCodec {
        &self.shared.codec
    }

    pub(in crate::store) fn is_closed(&self) -> bool {
        self.shared.queue.lock().is_none()
    }

    pub(in crate::store) fn health(&self) -> StoreHealth {
        if self.is_closed() { StoreHealth::Closed } else { self.shared.writer_health.get() }
    }

    pub(in crate::store) async fn close(&self) {
        let queue = self.shared.queue.lock().take();
        // Readers close first: the last connection merges the log, and only the writer may write.
        let Readers { idle, permits, count } = &*self.shared.readers;
        let _all_idle = timeout(self.shared.queue_timeout, permits.acquire_many(*count)).await;
        permits.close();
        idle.lock().clear();
        drop(queue);
        let writer = self.shared.writer.lock().take();
        if let Some(writer) = writer {
            let joined = tokio::task::spawn_blocking(move || writer.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the database's writer panicked");
            }
        }
    }

    async fn write<T, F>(&self, statements: usize, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut WriteContext<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let queue = self.shared.queue.lock().clone().ok_or(StoreError::Closed)?;
        let permit = timeout(self.shared.queue_timeout, queue.reserve()).await;
        let permit =
            permit.map_err(|_| StoreError::Busy("the write queue"))?.map_err(|_| StoreError::Closed)?;
        let (job, result) = WriteJob::job(statements, work);
        permit.send(job);
        // A job is dropped without a result if its group panics.
        result.await.unwrap_or(Err(StoreError::WriterFailed))
    }

    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let readers = self.shared.readers.clone();
        let permit = timeout(self.shared.queue_timeout, readers.permits.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| StoreError::Busy("a reader"))?.map_err(|_| StoreError::Closed)?;
        let result = tokio::task::spawn_blocking(move || {
            // The closure owns the permit, so that a cancelled caller does not release it while the connection is in use.
            let _permit = permit;
            let connection = ReaderGuard { connection: readers.idle.lock().pop(), readers: &readers };
            let connection = connection.connection.as_ref().ok_or(StoreError::Closed)?;
            Ok(work(connection)?)
        });
        result.await.map_err(|_| StoreError::Closed)?
    }
}

/// A reading connection in use; it returns to the pool even if the work panics.
struct ReaderGuard<'a> {
    connection: Option<Connection>,
    readers: &'a Readers,
}

impl Drop for ReaderGuard<'_> {
    fn drop(&mut self) {
        // After `close` the pool is gone.
        if !self.readers.permits.is_closed() {
            self.readers.idle.lock().extend(self.connection.take());
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, ReadOnly};
        match error.sqlite_error_code() {
            Some(DiskFull) => StoreError::Full(Arc::new(error)),
            Some(ReadOnly) => StoreError::ReadOnly(Arc::new(error)),
            Some(DatabaseBusy | DatabaseLocked) => StoreError::Locked(Arc::new(error)),
            _ => StoreError::Failed(Arc::new(error)),
        }
    }
}

/// Creates the database file, for its owner alone, if it does not exist. SQLite creates its log files with the same mode.
fn make_private_file(path: &Path) -> Result<(), StoreError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(_) if path.is_dir() => {
            let error = std::io::Error::new(ErrorKind::IsADirectory, "it is a folder, expected a file");
            Err(open_error(path, error))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            warn_if_readable(path);
            Ok(())
        }
        made => made.map(drop).map_err(|error| open_error(path, error)),
    }
}

/// Other users may be able to read a database of an older version, perhaps on purpose, so its mode stays.
#[cfg(unix)]
fn warn_if_readable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        let mode = format!("{mode:o}");
        tracing::warn!(path = %path.display(), mode, "other users can read the database; chmod 600 makes it private");
    }
}

#[cfg(not(unix))]
fn warn_if_readable(_: &Path) {}

fn open_writer(path: &Path, config: &StoreConfig) -> Result<Connection, StoreError> {
    // Without CREATE: an empty file must not replace a database that was moved while it was open.
    let mut connection = open(path, config, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // 32 MiB of pages: slugs are random, so a bulk import touches all pages of their index.
    connection.pragma_update(None, "cache_size", -32_768)?;
    migrate::migrate(&mut connection, path)?;
    if let Some(max_bytes) = config.max_bytes {
        let page_bytes: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = (max_bytes / page_bytes as u64).clamp(1, u64::from(u32::MAX - 1));
        connection.pragma_update(None, "max_page_count", pages as i64)?;
    }
    Ok(connection)
}

fn open_reader(path: &Path, config: &StoreConfig) -> Result<Connection, StoreError> {
    open(path, config, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn open(path: &Path, config: &StoreConfig, flags: OpenFlags) -> Result<Connection, StoreError> {
    // One thread at a time uses a connection, so SQLite's own locking would be useless work.
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| open_error(path, error))?;
    connection.busy_timeout(config.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

fn open_error(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Open { database: DatabaseAddress::Sqlite(path.to_owned()), source: Arc::new(error) }
}

#[cfg(test)]
mod tests;
