//! Where links truly live: the types that go in and out of the store, and its errors.
//!
//! [`Store`] is SQLite today. Another database would stand beside `sqlite.rs` and take and give the same types.

mod credentials;
mod migrate;
mod sqlite;
mod statements;
mod writer;

use crate::address::Address;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use xxhash_rust::xxh3::Xxh3;

pub(crate) use credentials::Credential;
pub use sqlite::{MAX_VISIT_ROWS, Store, StoreConfig};

/// The longest title, in bytes.
pub const MAX_TITLE_BYTES: usize = 512;

/// The most links in one [`Store::create`].
pub const MAX_BATCH_LINKS: usize = 1_000;

/// The most links on one [`Page`].
pub const MAX_PAGE_LINKS: usize = 200;

/// A link as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The row's id: given once, never given again.
    pub id: u64,
    /// The path under which visitors find the link.
    pub slug: String,
    /// Where the link leads.
    pub url: String,
    /// What the owner calls it; may be empty.
    pub title: String,
    /// When it was made, in milliseconds since 1970.
    pub created_at: i64,
    /// Visits written so far. Those still in memory are not in it.
    pub visits: u64,
}

/// A link to be made. Slug and title must have passed their checks.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// Where the link shall lead.
    pub url: Address,
    /// The slug that the user chose, or none to have one derived.
    pub slug: Option<String>,
    /// What the owner calls it; may be empty.
    pub title: String,
}

impl NewLink {
    /// A hash of what makes two imported rows the same link. Equality is checked on the columns themselves.
    fn fingerprint(&self) -> i64 {
        fingerprint(self.url.as_str(), &self.title)
    }
}

fn fingerprint(url: &str, title: &str) -> i64 {
    let mut hash = Xxh3::new();
    hash.update(url.as_bytes());
    hash.update(b"\0");
    hash.update(title.as_bytes());
    hash.digest() as i64
}

/// What became of one [`NewLink`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The link was made.
    Created(Link),
    /// There was such a link already, and the same was asked for.
    Existing(Link),
    /// The slug that the user chose belongs to another link.
    SlugTaken,
}

/// Whether a link that exists already is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Every request makes a link of its own.
    Allow,
    /// A request with the address and title of an existing link gives that link.
    Reuse,
}

/// What to change about a link; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct LinkChange {
    /// The new address.
    pub url: Option<Address>,
    /// The new title.
    pub title: Option<String>,
}

/// Which links to list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// How many links at most, 1 to [`MAX_PAGE_LINKS`].
    pub limit: usize,
    /// Only links with a smaller id than this.
    pub before: Option<u64>,
    /// Only links whose slug, title or address holds this text, without regard to the case of ASCII letters.
    pub text: Option<String>,
}

/// Links, newest first, and where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The links of this page.
    pub links: Vec<Link>,
    /// The id to pass as [`ListQuery::before`], if there may be more. A search looks at a bounded number of links at
    /// a time, so a page may hold fewer links than asked for, even none, and still have a next one.
    pub next: Option<u64>,
}

/// Visits of one link on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VisitKey {
    /// The link's id.
    pub link_id: u64,
    /// The day, see [`today`].
    pub day: Day,
}

/// A day in UTC, counted from 1970-01-01.
pub type Day = i64;

/// The visits of one day, as charts show them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DayCount {
    /// The day in UTC, as `2026-11-21`.
    pub date: String,
    /// Visits written for it.
    pub visits: u64,
}

/// Today in UTC.
pub fn today() -> Day {
    now_ms() / 86_400_000
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Why the store could not do what it was asked.
///
/// A write that ended in an error has left nothing behind, except after [`Closed`](StoreError::Closed), where it is
/// unknown. Errors are cheap to clone: one failed commit answers everyone who was part of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database could not be opened.
    #[error("cannot open the database {path}: {source}", path = path.display())]
    Open {
        /// Its file.
        path: PathBuf,
        /// What SQLite or the file system says.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The database was made by a newer program.
    #[error("the database {path} has version {found}, this program knows versions up to {known}", path = path.display())]
    Newer {
        /// Its file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest version that this program can read.
        known: i64,
    },
    /// The disk, or the size allowed for the database, is full.
    #[error("the database is full: {0}")]
    Full(#[source] Arc<rusqlite::Error>),
    /// The database cannot be written to.
    #[error("the database is read-only: {0}")]
    ReadOnly(#[source] Arc<rusqlite::Error>),
    /// Another program holds the database, longer than the busy timeout.
    #[error("the database is locked by another program: {0}")]
    Locked(#[source] Arc<rusqlite::Error>),
    /// More is asked of the database than it can do within the queue timeout.
    #[error("the database is busy: {0} did not get free in time")]
    Busy(&'static str),
    /// The store was closed, or is closing.
    #[error("the database is closed")]
    Closed,
    /// The writing thread ended in a panic while it had this write. It is started again.
    #[error("the database's writer failed and is started again; the write was not made")]
    WriterFailed,
    /// There are as many tokens as a database may have.
    #[error("there are {0} tokens already; remove one first")]
    TooManyTokens(u64),
    /// Every slug of ten letters has been given away.
    #[error("no slug is left")]
    NoSlugLeft,
    /// Any other failure of the database.
    #[error("the database failed: {0}")]
    Failed(#[source] Arc<rusqlite::Error>),
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
