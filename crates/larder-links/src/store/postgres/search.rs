//! The queries of lists: all links, those with a tag, and those that match a text; newest first, or by visits.
//!
//! | text | examined | links at a time |
//! |---|---|---|
//! | from three characters on | the trigram index of slug, title and address | 500,000 |
//! | shorter, or without the extension `pg_trgm` | the beginnings of slug and title, row by row | 50,000 |
//!
//! A range of ids bounds the work of one query. A page of a search can therefore contain fewer links than requested and still
//! have a next one. By visits, an index has the order of all links. Those with a tag or a text are found as above and sorted
//! for each page: the newest 50,000 of them.
//!
//! Case is that of ICU in every locale of the server: the one of a database in the locale C ends with ASCII.

use super::links::{LINK_COLUMNS, LINK_TABLES, read_link};
use crate::model::tag::Tag;
use crate::store::{Link, ListQuery, Page, Position, Sort};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

/// The fewest characters that the trigram index can look up.
const TRIGRAM_CHARS: usize = 3;

/// How many links that match are sorted by visits at most.
const MAX_SORTED_LINKS: usize = 50_000;

/// The texts of a link in lower case. No text contains the character between them, so none matches across two of them.
const FOLDED_TEXTS: &str =
    r#"lower((links.slug || E'\x01' || links.title || E'\x01' || links.url) COLLATE "und-x-icu")"#;

/// One way to find links, in the order of their ids. Conditions name the text as `$1`.
struct Source {
    condition: String,
    /// How many ids a query examines at most.
    window: u64,
}

/// Creates the index of trigrams, if the server has the extension and the user may create both; whether it is there.
pub(super) async fn prepare(client: &Client) -> Result<bool, Error> {
    let exists = "SELECT to_regclass('links_by_text') IS NOT NULL";
    if client.query_one(exists, &[]).await?.get(0) {
        return Ok(true);
    }
    // Two instances that start together would both create it.
    let sql = format!(
        "BEGIN;
         SELECT pg_advisory_xact_lock({});
         CREATE EXTENSION IF NOT EXISTS pg_trgm;
         CREATE INDEX IF NOT EXISTS links_by_text ON links USING gin ({} gin_trgm_ops);
         COMMIT",
        super::migrate::lock::MIGRATION,
        FOLDED_TEXTS.replace("links.", "")
    );
    match client.batch_execute(&sql).await {
        Ok(()) => Ok(true),
        Err(error) if error.code().is_some_and(is_missing) => {
            client.batch_execute("ROLLBACK").await?;
            tracing::warn!(%error, "without the extension pg_trgm a search finds the beginnings of slugs and titles only");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The extension is not installed on the server, not available to this user, or in a schema that is not searched.
fn is_missing(state: &SqlState) -> bool {
    let states = [
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::UNDEFINED_FILE,
        SqlState::UNDEFINED_OBJECT,
        SqlState::FEATURE_NOT_SUPPORTED,
    ];
    states.contains(state)
}

pub(super) async fn list(client: &Client, query: &ListQuery, has_trigrams: bool) -> Result<Page, Error> {
    let (source, pattern) = match &query.text {
        Some(text) if has_trigrams && text.chars().count() >= TRIGRAM_CHARS => {
            let condition = format!(r#"{FOLDED_TEXTS} LIKE lower($1 COLLATE "und-x-icu")"#);
            (Source { condition, window: 500_000 }, Some(format!("%{}%", escaped(text))))
        }
        Some(text) => {
            let begins = |column| {
                format!(r#"lower(links.{column} COLLATE "und-x-icu") LIKE lower($1 COLLATE "und-x-icu")"#)
            };
            let condition = format!("({} OR {})", begins("slug"), begins("title"));
            (Source { condition, window: 50_000 }, Some(format!("{}%", escaped(text))))
        }
        None => (Source { condition: "$1::text IS NULL".to_owned(), window: u64::MAX }, None),
    };
    match query.sort {
        Sort::Newest => newest(client, &source, query, pattern).await,
        Sort::Visits if query.text.is_none() && query.tag.is_none() && !query.deleted => {
            most_visited(client, query).await
        }
        Sort::Visits => sorted_by_visits(client, &source, query, pattern).await,
    }
}

async fn newest(
    client: &Client,
    source: &Source,
    query: &ListQuery,
    pattern: Option<String>,
) -> Result<Page, Error> {
    let newest = newest_id(client).await?;
    let before = query.after.map_or(u64::MAX, |position| position.id).min(newest + 1);
    let lowest = before.saturating_sub(source.window);
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM {LINK_TABLES}
         WHERE {} AND links.id < $4 ORDER BY links.id DESC LIMIT $5",
        matches(source, query)
    );
    let mut page = read_page(
        client,
        &sql,
        &[
            (&pattern, Type::TEXT),
            (&query.tag.as_ref().map(Tag::as_str), Type::TEXT),
            (&(lowest as i64), Type::INT8),
            (&(before as i64), Type::INT8),
            (&(query.limit as i64 + 1), Type::INT8),
        ],
        query.limit,
    )
    .await?;
    page.next = page.next.or(Some(Position { visits: 0, id: lowest }).filter(|_| lowest > 1));
    Ok(page)
}

/// All links by visits, in the order of their index.
async fn most_visited(client: &Client, query: &ListQuery) -> Result<Page, Error> {
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM {LINK_TABLES}
         WHERE links.deleted_at IS NULL AND (link_visits.visits, link_visits.link_id) < ($1, $2)
         ORDER BY link_visits.visits DESC, link_visits.link_id DESC LIMIT $3"
    );
    let (visits, id) = start(query);
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&visits, Type::INT8), (&id, Type::INT8), (&(query.limit as i64 + 1), Type::INT8)];
    read_page(client, &sql, &values, query.limit).await
}

/// The newest links that match, by visits.
async fn sorted_by_visits(
    client: &Client,
    source: &Source,
    query: &ListQuery,
    pattern: Option<String>,
) -> Result<Page, Error> {
    let lowest = (newest_id(client).await? + 1).saturating_sub(source.window);
    let sql = format!(
        "SELECT {LINK_COLUMNS}
         FROM (SELECT links.id FROM links WHERE {} ORDER BY links.id DESC LIMIT {MAX_SORTED_LINKS}) AS found
              JOIN links ON links.id = found.id JOIN link_visits ON link_visits.link_id = links.id
         WHERE (link_visits.visits, links.id) < ($4, $5)
         ORDER BY link_visits.visits DESC, links.id DESC LIMIT $6",
        matches(source, query)
    );
    let (visits, id) = start(query);
    read_page(
        client,
        &sql,
        &[
            (&pattern, Type::TEXT),
            (&query.tag.as_ref().map(Tag::as_str), Type::TEXT),
            (&(lowest as i64), Type::INT8),
            (&visits, Type::INT8),
            (&id, Type::INT8),
            (&(query.limit as i64 + 1), Type::INT8),
        ],
        query.limit,
    )
    .await
}

/// Visits and id before which a page by visits begins.
fn start(query: &ListQuery) -> (i64, i64) {
    query.after.map_or((i64::MAX, i64::MAX), |position| (position.visits as i64, position.id as i64))
}

/// The condition of a query on the links of a source.
fn matches(source: &Source, query: &ListQuery) -> String {
    let state = if query.deleted { "IS NOT NULL" } else { "IS NULL" };
    // Not one condition for both: below an OR, the tag is looked up for each link instead of in its index.
    let tag = match query.tag {
        Some(_) => "EXISTS (SELECT 1 FROM link_tags WHERE tag = $2 AND link_id = links.id)",
        None => "$2::text IS NULL",
    };
    format!("{} AND links.id >= $3 AND links.deleted_at {state} AND {tag}", source.condition)
}

async fn newest_id(client: &Client) -> Result<u64, Error> {
    let row = client.query_typed("SELECT coalesce(max(id), 0) FROM links", &[]).await?;
    Ok(row.first().map_or(0, |row| row.get::<_, i64>(0)) as u64)
}

/// Reads a page from a query for one link more than `limit`, which shows whether there is a next page. The statement is not
/// kept: its plan depends on the text.
async fn read_page(
    client: &Client,
    sql: &str,
    values: &[(&(dyn ToSql + Sync), Type)],
    limit: usize,
) -> Result<Page, Error> {
    let rows = client.query_typed(sql, values).await?;
    let has_more = rows.len() > limit;
    let links: Vec<Link> = rows.iter().take(limit).map(read_link).collect();
    let last = links.last().filter(|_| has_more);
    let next = last.map(|link| Position { visits: link.visits, id: link.id });
    Ok(Page { links, next })
}

/// A text without a meaning to LIKE.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_")
}
