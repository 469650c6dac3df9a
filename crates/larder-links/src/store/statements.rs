//! The SQL of links and visits, one function per query. The caller owns the connection.

use super::{
    CreateOutcome, Day, DayCount, Duplicates, Link, LinkUpdate, ListQuery, NewLink, Page, StoreError,
    VisitKey,
};
use crate::slug::{self, SlugCodec};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

/// How many links a search examines before it returns: about 20 ms.
const SEARCH_WINDOW: u64 = 50_000;

pub(super) fn slug_codec(connection: &Connection) -> rusqlite::Result<SlugCodec> {
    let key = "SELECT value FROM meta WHERE name = 'slug_key'";
    Ok(SlugCodec::new(connection.query_row(key, [], |row| row.get(0))?))
}

pub(super) fn find(connection: &Connection, slug: &str) -> rusqlite::Result<Option<Link>> {
    connection
        .prepare_cached("SELECT id, slug, url, title, created_at, visits FROM links WHERE slug = ?1")?
        .query_row([slug], read_link)
        .optional()
}

pub(super) fn list(connection: &Connection, query: &ListQuery) -> rusqlite::Result<Page> {
    let before = query.before.unwrap_or(i64::MAX as u64);
    match &query.text {
        None => newest(connection, before, query.limit),
        Some(text) => search(connection, before, query.limit, text),
    }
}

fn newest(connection: &Connection, before: u64, limit: usize) -> rusqlite::Result<Page> {
    let sql =
        "SELECT id, slug, url, title, created_at, visits FROM links WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
    // One more than requested shows whether there is a next page.
    let mut links = connection
        .prepare_cached(sql)?
        .query_map(params![before as i64, limit as i64 + 1], read_link)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let more = links.len() > limit;
    links.truncate(limit);
    let next = links.last().filter(|_| more).map(|link| link.id);
    Ok(Page { links, next })
}

fn search(connection: &Connection, before: u64, limit: usize, text: &str) -> rusqlite::Result<Page> {
    // Ids are sequential, so a range of ids bounds the work without counting rows.
    let newest_id: i64 =
        connection.query_row("SELECT coalesce(max(id), 0) FROM links", [], |row| row.get(0))?;
    let before = before.min(newest_id as u64 + 1);
    let lowest = before.saturating_sub(SEARCH_WINDOW);
    let sql = "SELECT id, slug, url, title, created_at, visits FROM links
               WHERE id < :before AND id >= :lowest
                 AND (slug LIKE :like ESCAPE '\\' OR title LIKE :like ESCAPE '\\' OR url LIKE :like ESCAPE '\\')
               ORDER BY id DESC LIMIT :limit";
    let like = like_pattern(text);
    let values = named_params! {
        ":before": before as i64, ":lowest": lowest as i64, ":like": like, ":limit": limit as i64
    };
    let links = connection
        .prepare_cached(sql)?
        .query_map(values, read_link)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let reached = if links.len() == limit { links.last().map_or(lowest, |link| link.id) } else { lowest };
    Ok(Page { links, next: Some(reached).filter(|&reached| reached > 1) })
}

fn like_pattern(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

pub(super) fn days(connection: &Connection, link_id: u64, since: Day) -> rusqlite::Result<Vec<DayCount>> {
    connection
        .prepare_cached(
            "SELECT date(day * 86400, 'unixepoch'), count FROM visits_daily
             WHERE link_id = ?1 AND day >= ?2 ORDER BY day",
        )?
        .query_map(params![link_id as i64, since], |row| {
            Ok(DayCount { date: row.get(0)?, visits: row.get::<_, i64>(1)? as u64 })
        })?
        .collect()
}

/// The id of the next link, unless its slug is in use.
pub(super) fn next_id(connection: &Connection) -> rusqlite::Result<u64> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'links'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(last.unwrap_or(0) as u64 + 1)
}

/// Inserts one link under `next_id`, or the first later id whose slug is free, and advances `next_id` past it.
pub(super) fn create(
    connection: &Connection,
    codec: &SlugCodec,
    next_id: &mut u64,
    new: &NewLink,
    repeats: Duplicates,
    now_ms: i64,
) -> Result<CreateOutcome, StoreError> {
    let fingerprint = new.fingerprint();
    if repeats == Duplicates::Reuse
        && let Some(link) = find_duplicate(connection, fingerprint, new)?
    {
        return Ok(CreateOutcome::Existing(link));
    }
    loop {
        let id = *next_id;
        let slug = match &new.slug {
            Some(slug) => slug.clone(),
            None => codec.encode(id).ok_or(StoreError::NoSlugLeft)?,
        };
        // A derived slug can be a reserved word or in use already: its id is skipped.
        let is_reserved = new.slug.is_none() && slug::is_reserved(&slug);
        if !is_reserved && insert(connection, id, &slug, new, fingerprint, now_ms)? {
            *next_id += 1;
            return Ok(CreateOutcome::Created(Link {
                id,
                slug,
                url: new.url.as_str().to_owned(),
                title: new.title.clone(),
                created_at: now_ms,
                visits: 0,
            }));
        }
        if new.slug.is_some() {
            return Ok(CreateOutcome::SlugTaken);
        }
        *next_id += 1;
    }
}

fn insert(
    connection: &Connection,
    id: u64,
    slug: &str,
    new: &NewLink,
    fingerprint: i64,
    now_ms: i64,
) -> rusqlite::Result<bool> {
    let sql =
        "INSERT INTO links (id, slug, url, title, created_at, fingerprint) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (slug) DO NOTHING";
    let values = params![id as i64, slug, new.url.as_str(), new.title, now_ms, fingerprint];
    Ok(connection.prepare_cached(sql)?.execute(values)? == 1)
}

/// A link with the same address and title, and with the requested slug, if there is one.
fn find_duplicate(
    connection: &Connection,
    fingerprint: i64,
    new: &NewLink,
) -> rusqlite::Result<Option<Link>> {
    let sql = "SELECT id, slug, url, title, created_at, visits FROM links
               WHERE fingerprint = ?1 AND url = ?2 AND title = ?3 AND (?4 IS NULL OR slug = ?4) LIMIT 1";
    connection
        .prepare_cached(sql)?
        .query_row(params![fingerprint, new.url.as_str(), new.title, new.slug], read_link)
        .optional()
}

/// Updates a link and returns it, or `None` if there is none.
pub(super) fn update(
    connection: &Connection,
    slug: &str,
    change: &LinkUpdate,
) -> rusqlite::Result<Option<Link>> {
    let Some(link) = find(connection, slug)? else { return Ok(None) };
    let changed = Link {
        url: change.url.as_ref().map_or(link.url, |url| url.as_str().to_owned()),
        title: change.title.clone().unwrap_or(link.title),
        ..link
    };
    // Without a fingerprint, an import does not mistake the edited link for the row that created it.
    connection
        .prepare_cached("UPDATE links SET url = ?2, title = ?3, fingerprint = NULL WHERE id = ?1")?
        .execute(params![changed.id as i64, changed.url, changed.title])?;
    Ok(Some(changed))
}

/// Deletes a link with its visits; false if there was none.
pub(super) fn delete(connection: &Connection, slug: &str) -> rusqlite::Result<bool> {
    Ok(connection.prepare_cached("DELETE FROM links WHERE slug = ?1")?.execute([slug])? == 1)
}

/// Adds visits to a link; false if the link is deleted.
pub(super) fn add_visits(connection: &Connection, key: VisitKey, visits: u64) -> rusqlite::Result<bool> {
    let total = "UPDATE links SET visits = visits + ?2 WHERE id = ?1";
    let values = params![key.link_id as i64, visits as i64];
    if connection.prepare_cached(total)?.execute(values)? == 0 {
        return Ok(false);
    }
    let daily = "INSERT INTO visits_daily (link_id, day, count) VALUES (?1, ?2, ?3)
                 ON CONFLICT (link_id, day) DO UPDATE SET count = count + excluded.count";
    connection.prepare_cached(daily)?.execute(params![key.link_id as i64, key.day, visits as i64])?;
    Ok(true)
}

fn read_link(row: &Row<'_>) -> rusqlite::Result<Link> {
    Ok(Link {
        id: row.get::<_, i64>(0)? as u64,
        slug: row.get(1)?,
        url: row.get(2)?,
        title: row.get(3)?,
        created_at: row.get(4)?,
        visits: row.get::<_, i64>(5)? as u64,
    })
}
