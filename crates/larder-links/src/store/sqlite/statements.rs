//! The SQL of links and visits, one function per query. The caller owns the connection.

use crate::model::slug::{self, SlugCodec};
use crate::model::tag::Tag;
use crate::store::{CreateOutcome, Duplicates, Link, LinkOptions, LinkUpdate, NewLink, Route, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

/// The columns that [`read_link`] reads, in its order.
pub(super) const LINK_COLUMNS: &str = "links.id, links.slug, links.url, links.title, links.created_at, links.visits, \
    links.expires_at, links.max_visits, links.forward_query, links.deleted_at, \
    (SELECT group_concat(tag) FROM link_tags WHERE link_id = links.id), links.crawlable";

pub(super) fn slug_key(connection: &Connection) -> rusqlite::Result<[u8; 16]> {
    connection.query_row("SELECT value FROM meta WHERE name = 'slug_key'", [], |row| row.get(0))
}

pub(super) fn find(connection: &Connection, slug: &str) -> rusqlite::Result<Option<Link>> {
    let sql = format!("SELECT {LINK_COLUMNS} FROM links WHERE slug = ?1 AND deleted_at IS NULL");
    connection.prepare_cached(&sql)?.query_row([slug], read_link).optional()
}

/// What a redirect needs of a link, deleted or not.
pub(super) fn find_route(connection: &Connection, slug: &str) -> rusqlite::Result<Option<Route>> {
    let sql = "SELECT id, url, expires_at, max_visits, forward_query, deleted_at IS NOT NULL, crawlable
               FROM links WHERE slug = ?1";
    let read = |row: &Row<'_>| {
        Ok(Route {
            link_id: row.get::<_, i64>(0)? as u64,
            url: row.get(1)?,
            expires_at: row.get(2)?,
            max_visits: row.get::<_, Option<i64>>(3)?.map(|max| max as u64),
            forward_query: row.get(4)?,
            is_deleted: row.get(5)?,
            crawlable: row.get(6)?,
        })
    };
    connection.prepare_cached(sql)?.query_row([slug], read).optional()
}

/// The slugs of the newest links that crawlers may follow, so many at most.
pub(super) fn crawlable_slugs(connection: &Connection, most: usize) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT slug FROM links WHERE crawlable AND deleted_at IS NULL ORDER BY id DESC LIMIT ?1";
    let mut select = connection.prepare_cached(sql)?;
    select.query_map([most as i64], |row| row.get(0))?.collect()
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
        && let Some(link) = find_duplicate(connection, fingerprint, new, now_ms)?
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
                options: new.options.clone(),
                deleted_at: None,
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
    let sql = "INSERT INTO links (id, slug, url, title, created_at, fingerprint, expires_at, max_visits, forward_query, crawlable)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (slug) DO NOTHING";
    let LinkOptions { tags, expires_at, max_visits, forward_query, crawlable } = &new.options;
    let max_visits = max_visits.map(|max| max as i64);
    let values = params![
        id as i64,
        slug,
        new.url.as_str(),
        new.title,
        now_ms,
        fingerprint,
        expires_at,
        max_visits,
        forward_query,
        crawlable
    ];
    let is_inserted = connection.prepare_cached(sql)?.execute(values)? == 1;
    if is_inserted {
        let index = "INSERT INTO links_text (rowid, slug, title, url) VALUES (?1, ?2, ?3, ?4)";
        let texts = params![id as i64, slug, new.title, new.url.as_str()];
        connection.prepare_cached(index)?.execute(texts)?;
        insert_tags(connection, id, tags)?;
    }
    Ok(is_inserted)
}

fn insert_tags(connection: &Connection, id: u64, tags: &[Tag]) -> rusqlite::Result<()> {
    for tag in tags {
        connection
            .prepare_cached("INSERT INTO link_tags (tag, link_id) VALUES (?1, ?2)")?
            .execute(params![tag.as_str(), id as i64])?;
    }
    Ok(())
}

/// A link with the same address and title, and with the requested slug, if there is one.
fn find_duplicate(
    connection: &Connection,
    fingerprint: i64,
    new: &NewLink,
    now_ms: i64,
) -> rusqlite::Result<Option<Link>> {
    // An edited link has no fingerprint, so a slug finds it as well.
    let (by, value): (&str, &dyn ToSql) = match &new.slug {
        Some(slug) => ("slug", slug),
        None => ("fingerprint", &fingerprint),
    };
    // A link that leads nowhere any more is no duplicate, unless the slug says so, or the new one has such an end too, as one
    // that is imported again.
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM links WHERE {by} = ?1 AND url = ?2 AND title = ?3 AND deleted_at IS NULL
           AND (?4 OR expires_at IS NULL OR expires_at > ?5)
           AND (?6 OR max_visits IS NULL OR visits < max_visits) LIMIT 1"
    );
    let LinkOptions { expires_at, max_visits, .. } = &new.options;
    let (may_have_expired, may_be_used_up) =
        (new.slug.is_some() || expires_at.is_some(), new.slug.is_some() || max_visits.is_some());
    let values = params![value, new.url.as_str(), new.title, may_have_expired, now_ms, may_be_used_up];
    connection.prepare_cached(&sql)?.query_row(values, read_link).optional()
}

/// Updates a link and returns it, or `None` if there is none.
pub(super) fn update(
    connection: &Connection,
    slug: &str,
    change: &LinkUpdate,
) -> rusqlite::Result<Option<Link>> {
    let Some(link) = find(connection, slug)? else { return Ok(None) };
    let changed = change.apply(&link);
    let id = changed.id as i64;
    if (&changed.url, &changed.title) != (&link.url, &link.title) {
        // Without a fingerprint, an import does not mistake the edited link for the row that created it.
        connection
            .prepare_cached("UPDATE links SET url = ?2, title = ?3, fingerprint = NULL WHERE id = ?1")?
            .execute(params![id, changed.url, changed.title])?;
    }
    let LinkOptions { tags, expires_at, max_visits, forward_query, crawlable } = &changed.options;
    connection
        .prepare_cached(
            "UPDATE links SET expires_at = ?2, max_visits = ?3, forward_query = ?4, crawlable = ?5 WHERE id = ?1",
        )?
        .execute(params![id, expires_at, max_visits.map(|max| max as i64), forward_query, crawlable])?;
    if change.tags.is_some() {
        connection.prepare_cached("DELETE FROM link_tags WHERE link_id = ?1")?.execute([id])?;
        insert_tags(connection, changed.id, tags)?;
    }
    Ok(Some(changed))
}

/// Marks a link as deleted; false if there is none.
pub(super) fn delete(connection: &Connection, slug: &str, now_ms: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE links SET deleted_at = ?2 WHERE slug = ?1 AND deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.execute(params![slug, now_ms])? == 1)
}

/// Restores a link that was deleted after `since_ms` and returns it, or `None` if there is none.
pub(super) fn restore(connection: &Connection, slug: &str, since_ms: i64) -> rusqlite::Result<Option<Link>> {
    let sql = "UPDATE links SET deleted_at = NULL WHERE slug = ?1 AND deleted_at > ?2";
    match connection.prepare_cached(sql)?.execute(params![slug, since_ms])? {
        0 => Ok(None),
        _ => find(connection, slug),
    }
}

/// Drops up to `limit` links that were deleted at `until_ms` or before, and returns their slugs.
///
/// The index of texts grows before it shrinks, so the limit of the file's size is raised meanwhile: otherwise a full database
/// could not drop anything.
pub(super) fn drop_deleted(
    connection: &Connection,
    until_ms: i64,
    limit: usize,
) -> rusqlite::Result<Vec<String>> {
    const HEADROOM_PAGES: i64 = 1_024;
    let max_pages: i64 = connection.pragma_query_value(None, "max_page_count", |row| row.get(0))?;
    let raised = max_pages.saturating_add(HEADROOM_PAGES).min(i64::from(u32::MAX - 1));
    connection.pragma_update(None, "max_page_count", raised)?;
    let slugs = drop_links(connection, until_ms, limit).and_then(|slugs| {
        // It would write at the commit, which is too late. Merging up to 1,000 pages returns those of the dropped links.
        connection.execute("INSERT INTO links_text (links_text) VALUES ('flush')", [])?;
        if !slugs.is_empty() && raised > max_pages {
            connection.execute("INSERT INTO links_text (links_text, rank) VALUES ('merge', -1000)", [])?;
        }
        Ok(slugs)
    });
    connection.pragma_update(None, "max_page_count", max_pages)?;
    slugs
}

fn drop_links(connection: &Connection, until_ms: i64, limit: usize) -> rusqlite::Result<Vec<String>> {
    let sql =
        "DELETE FROM links WHERE id IN (SELECT id FROM links WHERE deleted_at <= ?1 LIMIT ?2) RETURNING slug";
    connection.prepare_cached(sql)?.query_map(params![until_ms, limit as i64], |row| row.get(0))?.collect()
}

/// Reads the columns of [`LINK_COLUMNS`].
pub(super) fn read_link(row: &Row<'_>) -> rusqlite::Result<Link> {
    // A tag contains no comma. SQLite promises no order of the parts.
    let tags: Option<String> = row.get(10)?;
    let mut tags: Vec<Tag> = tags.iter().flat_map(|tags| tags.split(',')).map(Tag::stored).collect();
    tags.sort();
    Ok(Link {
        id: row.get::<_, i64>(0)? as u64,
        slug: row.get(1)?,
        url: row.get(2)?,
        title: row.get(3)?,
        created_at: row.get(4)?,
        visits: row.get::<_, i64>(5)? as u64,
        options: LinkOptions {
            tags,
            expires_at: row.get(6)?,
            max_visits: row.get::<_, Option<i64>>(7)?.map(|max| max as u64),
            forward_query: row.get(8)?,
            crawlable: row.get(11)?,
        },
        deleted_at: row.get(9)?,
    })
}
