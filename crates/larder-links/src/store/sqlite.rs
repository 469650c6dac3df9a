//! The store on SQLite: a write-ahead log, one writing connection on its own thread, a few reading ones.
//!
//! `synchronous` is NORMAL: an acknowledged commit is in the log file, which survives the death of the process
//! (`kill -9` too). Only a crash of the operating system or a loss of power can take the last commits with it, those
//! since the log was last synced; the database stays consistent in any case.

use super::credentials::{self, Credential};
use super::writer::{self, Job, Session, Write};
use super::{
    Creation, Day, DayCount, Link, LinkChange, ListQuery, MAX_BATCH_LINKS, NewLink, Page, Repeats,
    StoreError, VisitKey, migrate, now_ms, statements,
};
use crate::access::{Scope, Secret, SecretHash, Token};
use crate::slug::SlugCodec;
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// The most rows in one [`Store::add_visits`], so that no transaction grows with the number of links.
pub const MAX_VISIT_ROWS: usize = 2_000;

/// How a [`Store`] is opened.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The database file. It and its folder are made if they do not exist.
    pub path: PathBuf,
    /// Reading connections. Default 4, at least 1.
    pub readers: u32,
    /// Writes that may wait for the writer. Default 1,024.
    pub queue: usize,
    /// Writes that share one commit. Default 256.
    pub group: usize,
    /// How long to wait for a lock that another program holds. Default 5 s.
    pub busy_timeout: Duration,
    /// How long a call waits for a place in the queue or for a reader. Default 5 s.
    pub queue_timeout: Duration,
    /// The largest size of the database file, in bytes; writes beyond it fail with [`StoreError::Full`]. Default none.
    pub max_bytes: Option<u64>,
}

impl StoreConfig {
    /// The defaults for a database file.
    pub fn new(path: impl Into<PathBuf>) -> StoreConfig {
        StoreConfig {
            path: path.into(),
            readers: 4,
            queue: 1_024,
            group: 256,
            busy_timeout: Duration::from_secs(5),
            queue_timeout: Duration::from_secs(5),
            max_bytes: None,
        }
    }
}

/// An open database of links. Clones share it; the last one to go closes it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    /// None once closed. Its end ends the writer.
    queue: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Whether the writer has failed and is not started again yet.
    is_writer_down: Arc<AtomicBool>,
    readers: Arc<Readers>,
    queue_timeout: Duration,
    codec: SlugCodec,
}

/// Idle reading connections, and as many permits as there are connections.
struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    count: u32,
}

impl Store {
    /// Opens the database, makes it if it does not exist, and brings it to the present version.
    ///
    /// Blocks on the disk; call it before serving, or from a blocking task.
    ///
    /// # Errors
    /// [`StoreError::Open`] if file or folder cannot be made or opened, [`StoreError::Newer`] if a newer program made
    /// the database, or what SQLite says about it.
    pub fn open(config: &StoreConfig) -> Result<Store, StoreError> {
        let path = config.path.as_path();
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| open_error(path, error))?;
        }
        make_private_file(path)?;
        let writing = open_writer(config)?;
        let codec = statements::slug_codec(&writing)?;
        let count = config.readers.max(1);
        let idle = (0..count).map(|_| open_reader(config)).collect::<Result<Vec<_>, _>>()?;
        let permits = Arc::new(Semaphore::new(count as usize));
        let readers = Readers { idle: Mutex::new(idle), permits, count };

        let (queue, jobs) = mpsc::channel(config.queue.max(1));
        let is_writer_down = Arc::new(AtomicBool::new(false));
        let (writer_config, writer_codec, is_down) = (config.clone(), codec.clone(), is_writer_down.clone());
        let run_writer = move || {
            let reopen = || open_writer(&writer_config);
            writer::supervise(writing, reopen, &writer_codec, jobs, writer_config.group.max(1), &is_down);
        };
        let writer = std::thread::Builder::new()
            .name("links-writer".into())
            .spawn(run_writer)
            .map_err(|error| open_error(path, error))?;
        Ok(Store {
            shared: Arc::new(Shared {
                queue: Mutex::new(Some(queue)),
                writer: Mutex::new(Some(writer)),
                is_writer_down,
                readers: Arc::new(readers),
                queue_timeout: config.queue_timeout,
                codec,
            }),
        })
    }

    /// Makes up to [`MAX_BATCH_LINKS`] links in one step: all of them are in the database, or an error is returned and
    /// none is. The answers are in the order of the requests.
    ///
    /// # Cancel safety
    /// Once queued, the links are made even if the caller is dropped. So it is with every write.
    ///
    /// # Panics
    /// If there are more links than that.
    pub async fn create(&self, links: Vec<NewLink>, repeats: Repeats) -> Result<Vec<Creation>, StoreError> {
        assert!(links.len() <= MAX_BATCH_LINKS, "{} links in one batch", links.len());
        self.write(2 * links.len(), move |session| {
            let now_ms = now_ms();
            links
                .iter()
                .map(|link| {
                    let Session { connection, codec, next_id } = session;
                    statements::create(connection, codec, next_id, link, repeats, now_ms)
                })
                .collect()
        })
        .await
    }

    /// Changes a link and gives its new form, or `None` if there is none of that slug.
    pub async fn update(&self, slug: &str, change: LinkChange) -> Result<Option<Link>, StoreError> {
        let slug = slug.to_owned();
        self.write(2, move |session| Ok(statements::update(session.connection, &slug, &change)?)).await
    }

    /// Deletes a link with its visits; false if there was none. Its derived slug is not given again.
    pub async fn delete(&self, slug: &str) -> Result<bool, StoreError> {
        let slug = slug.to_owned();
        self.write(1, move |session| Ok(statements::delete(session.connection, &slug)?)).await
    }

    /// Adds counted visits, in one step, and says how many found their link; those of deleted links are let go.
    ///
    /// # Panics
    /// If there are more than [`MAX_VISIT_ROWS`].
    pub async fn add_visits(&self, visits: Vec<(VisitKey, u64)>) -> Result<u64, StoreError> {
        assert!(visits.len() <= MAX_VISIT_ROWS, "{} rows of visits in one step", visits.len());
        self.write(2 * visits.len(), move |session| {
            visits.iter().try_fold(0, |written, &(key, count)| {
                let found = statements::add_visits(session.connection, key, count)?;
                Ok(if found { written + count } else { written })
            })
        })
        .await
    }

    /// Makes an API token; the secret is given here and nowhere else.
    ///
    /// # Errors
    /// [`StoreError::TooManyTokens`] if there are 256 already.
    pub async fn add_token(&self, name: &str, scope: Scope) -> Result<(Token, Secret), StoreError> {
        let (name, secret) = (name.to_owned(), Secret::new_token());
        let kept = secret.clone();
        // A refusal is a value here: as an error it would roll the other writes of the group back.
        let made = self.write(2, move |session| {
            Ok(credentials::add_token(session.connection, &kept, &name, scope, now_ms()))
        });
        Ok((made.await??, secret))
    }

    /// All tokens, oldest first.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(credentials::tokens).await
    }

    /// Removes a token with its sessions; false if there was none. A process that serves notices it within a second.
    pub async fn remove_token(&self, id: u64) -> Result<bool, StoreError> {
        self.write(1, move |session| Ok(credentials::remove_token(session.connection, id)?)).await
    }

    /// Every hash that opens the API.
    pub(crate) async fn credentials(&self) -> Result<Vec<Credential>, StoreError> {
        self.read(|connection| credentials::credentials(connection, now_ms())).await
    }

    /// Adds a session; false if its token is gone.
    pub(crate) async fn add_session(
        &self,
        hash: SecretHash,
        token_id: u64,
        expires_at: i64,
    ) -> Result<bool, StoreError> {
        self.write(3, move |session| {
            Ok(credentials::add_session(session.connection, hash, token_id, expires_at, now_ms())?)
        })
        .await
    }

    pub(crate) async fn remove_session(&self, hash: SecretHash) -> Result<(), StoreError> {
        self.write(1, move |session| Ok(credentials::remove_session(session.connection, hash)?)).await
    }

    /// The link of a slug.
    pub async fn find(&self, slug: &str) -> Result<Option<Link>, StoreError> {
        let slug = slug.to_owned();
        self.read(move |connection| statements::find(connection, &slug)).await
    }

    /// One page of links, newest first.
    ///
    /// Cost: without a search text a walk over the rows it returns, with one over at most 50,000 rows.
    pub async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        self.read(move |connection| statements::list(connection, &query)).await
    }

    /// The days since `since` on which a link was visited, oldest first.
    pub async fn days(&self, link_id: u64, since: Day) -> Result<Vec<DayCount>, StoreError> {
        self.read(move |connection| statements::days(connection, link_id, since)).await
    }

    /// The permutation between this database's row ids and slugs.
    pub fn slugs(&self) -> &SlugCodec {
        &self.shared.codec
    }

    /// Whether [`close`](Store::close) was called.
    pub fn is_closed(&self) -> bool {
        self.shared.queue.lock().is_none()
    }

    /// Whether writes can be made: false after [`close`](Store::close), and while a writer that failed is not started
    /// again yet.
    pub fn can_write(&self) -> bool {
        !self.is_closed() && !self.shared.is_writer_down.load(Relaxed)
    }

    /// Finishes what is queued, folds the log into the database and closes it. Later calls return
    /// [`StoreError::Closed`].
    pub async fn close(&self) {
        let queue = self.shared.queue.lock().take();
        // Readers go first: the connection that closes last folds the log in, and only the writer may do that.
        let Readers { idle, permits, count } = &*self.shared.readers;
        let _all_idle = timeout(self.shared.queue_timeout, permits.acquire_many(*count)).await;
        permits.close();
        idle.lock().clear();
        drop(queue);
        let writer = self.shared.writer.lock().take();
        if let Some(writer) = writer {
            let joined = tokio::task::spawn_blocking(move || writer.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the database's writer ended in a panic");
            }
        }
    }

    async fn write<T, F>(&self, statements: usize, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Session<'_>) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let queue = self.shared.queue.lock().clone().ok_or(StoreError::Closed)?;
        let place = timeout(self.shared.queue_timeout, queue.reserve()).await;
        let place =
            place.map_err(|_| StoreError::Busy("the write queue"))?.map_err(|_| StoreError::Closed)?;
        let (job, answer) = Write::job(statements, work);
        place.send(job);
        // A job that was dropped unanswered was part of a group that panicked.
        answer.await.unwrap_or(Err(StoreError::WriterFailed))
    }

    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let readers = self.shared.readers.clone();
        let permit = timeout(self.shared.queue_timeout, readers.permits.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| StoreError::Busy("a reader"))?.map_err(|_| StoreError::Closed)?;
        let answer = tokio::task::spawn_blocking(move || {
            // Bound to the closure, so that a caller who gives up does not free a place that is still in use.
            let _permit = permit;
            let connection = Lent { connection: readers.idle.lock().pop(), readers: &readers };
            let connection = connection.connection.as_ref().ok_or(StoreError::Closed)?;
            Ok(work(connection)?)
        });
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// A reading connection on loan; it goes back even if the work panics.
struct Lent<'a> {
    connection: Option<Connection>,
    readers: &'a Readers,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // After a close there is nothing to go back to.
        if !self.readers.permits.is_closed() {
            self.readers.idle.lock().extend(self.connection.take());
        }
    }
}

/// Creates the database file, for its owner alone, if it does not exist. SQLite gives its companions the same mode.
fn make_private_file(path: &Path) -> Result<(), StoreError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            warn_if_readable(path);
            Ok(())
        }
        made => made.map(drop).map_err(|error| open_error(path, error)),
    }
}

/// A database of an older version may be readable by everyone. It may be so on purpose, so its mode stays.
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

fn open_writer(config: &StoreConfig) -> Result<Connection, StoreError> {
    // Never created here: a file that was moved away while it was open must not be replaced by an empty one.
    let mut connection = open(config, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // 32 MiB of pages: slugs fall into the index at random, and so a bulk import touches all of it.
    connection.pragma_update(None, "cache_size", -32_768)?;
    migrate::migrate(&mut connection, &config.path)?;
    if let Some(max_bytes) = config.max_bytes {
        let page_bytes: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = (max_bytes / page_bytes as u64).clamp(1, u64::from(u32::MAX - 1));
        connection.pragma_update(None, "max_page_count", pages as i64)?;
    }
    Ok(connection)
}

fn open_reader(config: &StoreConfig) -> Result<Connection, StoreError> {
    open(config, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn open(config: &StoreConfig, flags: OpenFlags) -> Result<Connection, StoreError> {
    // A connection is used by one thread at a time, so SQLite's own locking would be paid for nothing.
    let connection = Connection::open_with_flags(&config.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| open_error(&config.path, error))?;
    connection.busy_timeout(config.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

fn open_error(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Open { path: path.to_owned(), source: Arc::new(error) }
}

#[cfg(test)]
mod tests;
