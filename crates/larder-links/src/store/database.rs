//! [`Store`]: one interface over the databases, each of which has its own SQL in a folder of its own.
//!
//! Nothing is shared below this file but types: the two differ in locks, in transactions and in what an index can do, so a
//! statement for both would be right for neither.

use super::address::{DatabaseAddress, StoreConfig};
use super::credential::Credential;
#[cfg(feature = "postgres")]
use super::postgres::PostgresStore;
use super::sqlite::SqliteStore;
use super::{
    CreateOutcome, Day, DimensionBatch, DimensionCounts, DimensionKey, Duplicates, Link, LinkUpdate,
    ListQuery, MAX_BATCH_LINKS, NewFile, NewLink, Page, Quarter, RESTORE_PERIOD, Route, StoreError,
    StoreHealth, TotalsOf, VisitBatch, VisitHistory, VisitKey, WrittenVisits, now_ms,
};
use crate::model::slug::SlugCodec;
use crate::model::token::{Scope, Secret, SecretHash, Token, hash_of_token};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open database of links. Clones share it; the drop of the last one closes it.
#[derive(Clone)]
pub struct Store {
    /// Shared, because each redirect clones the store.
    pub(super) address: Arc<DatabaseAddress>,
    pub(super) database: Database,
}

/// One of the databases.
#[derive(Clone)]
pub(super) enum Database {
    Sqlite(SqliteStore),
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

/// Calls a method of the database.
macro_rules! call {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match &$self.database {
            Database::Sqlite(store) => store.$method($($argument),*),
            #[cfg(feature = "postgres")]
            Database::Postgres(store) => store.$method($($argument),*),
        }
    };
    ($self:ident.$method:ident($($argument:expr),*).await) => {
        match &$self.database {
            Database::Sqlite(store) => store.$method($($argument),*).await,
            #[cfg(feature = "postgres")]
            Database::Postgres(store) => store.$method($($argument),*).await,
        }
    };
}

impl Store {
    /// Opens the database, creates it if it does not exist, and migrates it to the current version.
    ///
    /// Blocks on the disk or the server; call it before serving, or from a blocking task.
    ///
    /// # Errors
    /// [`StoreError::Open`] if file or folder cannot be created or opened, [`StoreError::Newer`] if a newer program created
    /// the database, [`StoreError::Older`] if an older one did and this user may not migrate it, or the error of the
    /// database.
    pub fn open(config: &StoreConfig) -> Result<Store, StoreError> {
        let database = match &config.database {
            DatabaseAddress::Sqlite(path) => Database::Sqlite(SqliteStore::open(path, config)?),
            #[cfg(feature = "postgres")]
            DatabaseAddress::Postgres(url) => Database::Postgres(PostgresStore::open(url, config)?),
        };
        Ok(Store { address: Arc::new(config.database.clone()), database })
    }

    /// Where the database is.
    pub fn address(&self) -> &DatabaseAddress {
        &self.address
    }

    /// Eight characters that all processes of the database have, and no other database but a copy of it.
    pub(crate) fn identity(&self) -> &str {
        call!(self.identity())
    }

    /// The permutation between this database's row ids and slugs.
    pub fn slugs(&self) -> &SlugCodec {
        call!(self.slugs())
    }

    /// Creates up to [`MAX_BATCH_LINKS`] links atomically: all of them, or none and an error. The outcomes are in the order of
    /// the links.
    ///
    /// # Cancel safety
    /// A queued write runs even if the caller is dropped. This holds for every write.
    ///
    /// # Panics
    /// If there are more links than that.
    pub async fn create(
        &self,
        links: Vec<NewLink>,
        repeats: Duplicates,
    ) -> Result<Vec<CreateOutcome>, StoreError> {
        assert!(links.len() <= MAX_BATCH_LINKS, "{} links in one batch", links.len());
        call!(self.create(links, repeats).await)
    }

    /// Updates a link and returns it, or `None` if no link has that slug.
    pub async fn update(&self, slug: &str, change: LinkUpdate) -> Result<Option<Link>, StoreError> {
        call!(self.update(slug, change).await)
    }

    /// Deletes a link; false if there is none. For [`RESTORE_PERIOD`] it can be [restored](Store::restore), and its slug
    /// belongs to it.
    pub async fn delete(&self, slug: &str) -> Result<bool, StoreError> {
        call!(self.delete(slug).await)
    }

    /// Restores a deleted link with its slug, tags and visits, and returns it; `None` if there is no deleted link of that
    /// slug.
    pub async fn restore(&self, slug: &str) -> Result<Option<Link>, StoreError> {
        let since = now_ms() - RESTORE_PERIOD.as_millis() as i64;
        call!(self.restore(slug, since).await)
    }

    /// Drops the visits of links that were deleted at `until_ms`, in milliseconds since 1970, or before: up to 1,000 rows of
    /// each table. Returns how many there were.
    pub async fn drop_visits_of_deleted(&self, until_ms: i64) -> Result<usize, StoreError> {
        call!(self.drop_visits_of_deleted(until_ms).await)
    }

    /// Drops links that were deleted at `until_ms`, in milliseconds since 1970, or before: up to 500 of them, whose slugs it
    /// returns. They are free from then on. Their visits go too; many of them should be
    /// [dropped before](Store::drop_visits_of_deleted), in steps.
    pub async fn drop_deleted(&self, until_ms: i64) -> Result<Vec<String>, StoreError> {
        call!(self.drop_deleted(until_ms).await)
    }

    /// Adds visits in one transaction; those of links that no longer exist are dropped. `totals` asks for the visits of links
    /// afterwards.
    ///
    /// # Panics
    /// If there are more than [`MAX_VISIT_ROWS`](super::MAX_VISIT_ROWS).
    pub async fn add_visits(
        &self,
        rows: Vec<(VisitKey, u64)>,
        totals: TotalsOf,
    ) -> Result<WrittenVisits, StoreError> {
        self.write_batch(&VisitBatch::new(rows), totals).await
    }

    /// The same for a batch. If one fails with [`StoreError::Unknown`], it is to be written again until it succeeds, and no
    /// other batch before that.
    pub async fn write_batch(
        &self,
        batch: &VisitBatch,
        totals: TotalsOf,
    ) -> Result<WrittenVisits, StoreError> {
        call!(self.write_batch(batch, totals).await)
    }

    /// Adds counts of where visits come from; those of links that no longer exist are dropped.
    ///
    /// # Panics
    /// If there are more than [`MAX_DIMENSION_ROWS`](super::MAX_DIMENSION_ROWS).
    pub async fn add_dimensions(&self, rows: Vec<(DimensionKey, u64)>) -> Result<(), StoreError> {
        self.write_dimensions(&DimensionBatch::new(rows)).await
    }

    /// The same for a batch. If one fails with [`StoreError::Unknown`], it is to be written again until it succeeds, and no
    /// other batch of dimensions before that.
    pub async fn write_dimensions(&self, batch: &DimensionBatch) -> Result<(), StoreError> {
        call!(self.write_dimensions(batch).await)
    }

    /// Creates an API token. Only this call returns the secret.
    ///
    /// # Errors
    /// [`StoreError::TooManyTokens`] if there are 256 already.
    pub async fn add_token(&self, name: &str, scope: Scope) -> Result<(Token, Secret), StoreError> {
        let secret = Secret::new_token();
        let token = call!(self.add_token(secret.hash(), name, scope).await)?;
        Ok((token, secret))
    }

    /// All tokens, oldest first.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        call!(self.tokens().await)
    }

    /// Removes a token with its sessions; false if there is none. Running services reject the token within a second.
    pub async fn remove_token(&self, id: u64) -> Result<bool, StoreError> {
        call!(self.remove_token(id).await)
    }

    /// Whether a text is the secret of a token.
    pub async fn has_token(&self, text: &str) -> Result<bool, StoreError> {
        let Some(hash) = hash_of_token(text) else { return Ok(false) };
        let credentials = self.credentials().await?;
        Ok(credentials.iter().any(|credential| credential.expires_at.is_none() && credential.hash == hash))
    }

    /// The hashes of all tokens and valid sessions.
    pub(crate) async fn credentials(&self) -> Result<Vec<Credential>, StoreError> {
        call!(self.credentials().await)
    }

    /// Adds a session; false if its token was removed.
    pub(crate) async fn add_session(
        &self,
        hash: SecretHash,
        token_id: u64,
        expires_at: i64,
    ) -> Result<bool, StoreError> {
        call!(self.add_session(hash, token_id, expires_at).await)
    }

    pub(crate) async fn remove_session(&self, hash: SecretHash) -> Result<(), StoreError> {
        call!(self.remove_session(hash).await)
    }

    /// The link of a slug.
    pub async fn find(&self, slug: &str) -> Result<Option<Link>, StoreError> {
        call!(self.find(slug).await)
    }

    /// What a redirect needs of the link of a slug, deleted or not.
    pub async fn find_route(&self, slug: &str) -> Result<Option<Route>, StoreError> {
        call!(self.find_route(slug).await)
    }

    /// The visits of a link in the database; `None` if it does not exist.
    pub async fn visits(&self, link_id: u64) -> Result<Option<u64>, StoreError> {
        call!(self.visits(link_id).await)
    }

    /// One page of links.
    ///
    /// Cost: reads the rows that it returns, and deleted ones between them. A search text of one or two characters reads up
    /// to 50,000 rows, a longer one the index of up to 500,000. By visits a text or a tag also sorts the newest 50,000 links
    /// that match.
    pub async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        call!(self.list(query).await)
    }

    /// The links with a greater id than this, oldest first: [`super::MAX_EXPORT_LINKS`] of them, or all if they are fewer.
    pub async fn links_after(&self, id: u64) -> Result<Vec<Link>, StoreError> {
        call!(self.links_after(id).await)
    }

    /// Copies the database into a file that only its owner can read, while other programs use it. An existing file is
    /// replaced when the copy is complete.
    ///
    /// # Errors
    /// [`StoreError::NoBackup`] for PostgreSQL. [`StoreError::Backup`], also if the file is the database itself; what is left of the copy is removed.
    pub async fn backup(&self, to: PathBuf) -> Result<(), StoreError> {
        match &self.database {
            Database::Sqlite(store) => store.backup(to).await,
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => Err(StoreError::NoBackup { database: (*self.address).clone() }),
        }
    }

    /// A file that replaces `to` when it is complete.
    pub(crate) fn new_file(&self, to: &Path) -> std::io::Result<NewFile> {
        NewFile::create(to, self.address.file())
    }

    /// The visits of a link since a quarter hour.
    pub async fn history(&self, link_id: u64, since: Quarter) -> Result<VisitHistory, StoreError> {
        call!(self.history(link_id, since).await)
    }

    /// Where the visits of a link since a day of UTC come from.
    pub async fn dimensions(&self, link_id: u64, since: Day) -> Result<DimensionCounts, StoreError> {
        call!(self.dimensions(link_id, since).await)
    }

    /// Sums visits of quarter hours before a day into days of UTC: up to 1,000 rows. Returns how many rows there were.
    pub async fn fold_visits(&self, before: Day) -> Result<usize, StoreError> {
        call!(self.fold_visits(before).await)
    }

    /// Drops visits before a day, up to 1,000 rows of each table, and returns how many there were. The totals of links stay.
    pub async fn drop_visits(&self, before: Day) -> Result<usize, StoreError> {
        call!(self.drop_visits(before).await)
    }

    /// Drops where visits before a day came from, up to 1,000 rows, and returns how many there were.
    pub async fn drop_dimensions(&self, before: Day) -> Result<usize, StoreError> {
        call!(self.drop_dimensions(before).await)
    }

    /// Forgets the visits of a link, its total included; false if there is no such link.
    pub async fn forget_visits(&self, link_id: u64) -> Result<bool, StoreError> {
        call!(self.forget_visits(link_id).await)
    }

    /// The slugs of the newest links that crawlers may follow, so many at most.
    pub(crate) async fn crawlable_slugs(&self, most: usize) -> Result<Vec<String>, StoreError> {
        call!(self.crawlable_slugs(most).await)
    }

    /// Keeps [`health`](Store::health) up to date where nobody reads or writes, until the store is closed.
    pub(crate) fn watch(&self) -> impl Future<Output = ()> + Send + use<> {
        #[cfg(feature = "postgres")]
        let watch = match &self.database {
            Database::Postgres(store) => Some(store.watch()),
            // The writer of a file notices what becomes of it.
            Database::Sqlite(_) => None,
        };
        async move {
            #[cfg(feature = "postgres")]
            if let Some(watch) = watch {
                watch.await;
            }
        }
    }

    /// Whether the store is closed.
    pub fn is_closed(&self) -> bool {
        call!(self.is_closed())
    }

    /// Whether the database takes writes now.
    pub fn health(&self) -> StoreHealth {
        call!(self.health())
    }

    /// Finishes the queued writes, merges the log into the database and closes it. Later calls return
    /// [`StoreError::Closed`].
    pub async fn close(&self) {
        call!(self.close().await);
    }
}
