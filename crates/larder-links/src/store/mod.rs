//! The store of links: its types, and [`Store`], which has a folder for each database.

mod address;
mod credential;
mod database;
mod dimension;
mod error;
mod health;
mod link;
mod new_file;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod sqlite;

use crate::model::count::Count;
use crate::model::tag::Tag;
use async_graphql::{Enum, SimpleObject};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

pub use address::{DatabaseAddress, StoreConfig};
pub(crate) use credential::Credential;
pub use database::Store;
pub use dimension::{
    Dimension, DimensionBatch, DimensionCounts, DimensionKey, MAX_DIMENSION_ROWS, MAX_DIMENSION_VALUES,
    OTHER_VALUE, ValueCount,
};
pub use error::StoreError;
pub use health::StoreHealth;
use link::fingerprint;
pub use link::{
    CreateOutcome, Duplicates, Link, LinkOptions, LinkUpdate, MAX_TITLE_BYTES, NewLink, RESTORE_PERIOD, Route,
};
pub(crate) use new_file::NewFile;
#[cfg(feature = "postgres")]
pub use postgres::{Copied, copy};

/// The most links in one [`Store::create`].
pub const MAX_BATCH_LINKS: usize = 1_000;

/// The maximum number of rows in one [`Store::add_visits`], so that transactions do not grow with the number of links.
pub const MAX_VISIT_ROWS: usize = 2_000;

/// The most links of one [`Store::links_after`].
pub const MAX_EXPORT_LINKS: usize = 1_000;

/// The most links on one [`Page`].
pub const MAX_PAGE_LINKS: usize = 200;

/// Which links to list, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// How many links at most, 1 to [`MAX_PAGE_LINKS`].
    pub limit: usize,
    /// The order.
    pub sort: Sort,
    /// Only links behind this position in that order.
    pub after: Option<Position>,
    /// Only links that match this text, in either case of letters. From three characters on slug, title or address
    /// contains it; a shorter text is the beginning of slug or title, as is any text where PostgreSQL lacks `pg_trgm`.
    pub text: Option<String>,
    /// Only links with this tag.
    pub tag: Option<Tag>,
    /// Only deleted links, instead of the others.
    pub deleted: bool,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
#[graphql(name = "LinkSort")]
pub enum Sort {
    /// Newest first.
    #[default]
    Newest,
    /// Most visits first; of those with equal visits, the newest first.
    Visits,
}

/// The position of a link in a list.
///
/// A page begins behind the position of the last link of the page before. Visits only move a link forward, so no link is on two
/// pages; one that is visited meanwhile can move from the pages that follow to those that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The link's visits when the page was read; of no importance to [`Sort::Newest`].
    pub visits: u64,
    /// The link's id.
    pub id: u64,
}

/// Links, and the start of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The links of this page.
    pub links: Vec<Link>,
    /// What [`ListQuery::after`] of the next page is, if there may be one. A search examines a bounded number of links at a
    /// time, so a page can contain fewer links than requested, even none, and still have a next one.
    pub next: Option<Position>,
}

/// Visits of one link in one quarter hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VisitKey {
    /// The link's id.
    pub link_id: u64,
    /// The quarter hour.
    pub quarter: Quarter,
}

/// The visits of a link over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisitHistory {
    /// Visits by quarter hour, oldest first.
    pub quarters: Vec<(Quarter, u64)>,
    /// Visits that are stored by day in UTC, oldest first.
    pub days: Vec<(Day, u64)>,
}

/// A quarter of an hour in UTC, counted from 1970.
pub type Quarter = i64;

/// The milliseconds of a [`Quarter`].
pub const MS_PER_QUARTER: i64 = 15 * 60 * 1_000;

/// The quarter hours of a [`Day`].
pub const QUARTERS_PER_DAY: i64 = 96;

/// How long visits are kept in quarter hours, in days. After that they are kept in days.
pub const QUARTERS_KEPT_DAYS: i64 = 90;

/// How long it is kept where visits came from, in days: for the 30 days that readers see, in every time zone.
pub const DIMENSIONS_KEPT_DAYS: i64 = 31;

/// Visits to write together. If the outcome of a write is unknown, the same batch can be written again and counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitBatch {
    /// Other than that of every other batch of this process.
    number: u64,
    rows: Vec<(VisitKey, u64)>,
}

impl VisitBatch {
    /// A new batch.
    ///
    /// # Panics
    /// If there are more rows than [`MAX_VISIT_ROWS`].
    pub fn new(rows: Vec<(VisitKey, u64)>) -> VisitBatch {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        assert!(rows.len() <= MAX_VISIT_ROWS, "{} rows of visits in one step", rows.len());
        VisitBatch { number: NUMBERS.fetch_add(1, Relaxed), rows }
    }

    /// The visits of each link in each quarter hour.
    pub fn rows(&self) -> &[(VisitKey, u64)] {
        &self.rows
    }
}

/// The links whose visits [`Store::add_visits`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TotalsOf {
    /// None of them.
    None,
    /// Those of these ids.
    Links(HashSet<u64>),
    /// All of them.
    All,
}

impl TotalsOf {
    fn include(&self, link_id: u64) -> bool {
        match self {
            TotalsOf::None => false,
            TotalsOf::Links(ids) => ids.contains(&link_id),
            TotalsOf::All => true,
        }
    }
}

/// The result of writing visits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenVisits {
    /// How many visits were written. The others are those of links that no longer exist.
    pub visits: u64,
    /// The requested totals.
    pub totals: Vec<LinkTotal>,
}

/// The visits of a link in the database, those of other instances included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTotal {
    /// The id of the link.
    pub link_id: u64,
    /// Its slug.
    pub slug: String,
    /// Its visits.
    pub visits: u64,
}

/// A day in UTC, counted from 1970-01-01.
pub type Day = i64;

/// The visits of one day, as charts show them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, SimpleObject)]
#[graphql(name = "Day")]
pub struct DayCount {
    /// The day in the requested time zone, as `2026-11-21`.
    pub date: String,
    /// Its visits in the database.
    #[graphql(skip, derived(name = "visits", into = "Count", owned))]
    pub visits: u64,
}

/// Today in UTC.
pub fn today() -> Day {
    day_of(now_ms())
}

/// The day of a time in milliseconds since 1970.
pub(crate) fn day_of(ms: i64) -> Day {
    quarter_of(ms) / QUARTERS_PER_DAY
}

/// The quarter hour of a time in milliseconds since 1970.
pub(crate) fn quarter_of(ms: i64) -> Quarter {
    ms / MS_PER_QUARTER
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// What all processes of a database share, and no other database has but a copy of it.
fn identity(slug_key: &[u8; 16]) -> String {
    Sha256::digest(slug_key)[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}
