//! The SQL of links, one function per query. The caller owns the connection.

use super::migrate::lock;
use crate::model::slug::{self, SlugCodec};
use crate::model::tag::Tag;
use crate::store::{
    CreateOutcome, Duplicates, Link, LinkOptions, LinkUpdate, MAX_EXPORT_LINKS, NewLink, Route, StoreError,
};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::{Error, Row};

/// The columns that [`read_link`] reads, in its order, and their tables.
pub(super) const LINK_COLUMNS: &str = "links.id, links.slug, links.url, links.title, links.created_at, link_visits.visits, \
    links.expires_at, links.max_visits, links.forward_query, links.deleted_at, \
    ARRAY(SELECT tag FROM link_tags WHERE link_id = links.id ORDER BY tag), links.crawlable";
pub(super) const LINK_TABLES: &str = "links JOIN link_visits ON link_visits.link_id = links.id";

pub(super) async fn find(client: &impl GenericClient, slug: &str) -> Result<Option<Link>, Error> {
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM {LINK_TABLES} WHERE links.slug = $1 AND links.deleted_at IS NULL"
    );
    let select = client.prepare_cached(&sql).await?;
    Ok(client.query_opt(&select, &[&slug]).await?.as_ref().map(read_link))
}

/// What a redirect needs of a link, deleted or not.
pub(super) async fn find_route(client: &impl GenericClient, slug: &str) -> Result<Option<Route>, Error> {
    let sql = "SELECT id, url, expires_at, max_visits, forward_query, deleted_at IS NOT NULL, crawlable
               FROM links WHERE slug = $1";
    let select = client.prepare_cached(sql).await?;
    let read = |row: Row| Route {
        link_id: row.get::<_, i64>(0) as u64,
        url: row.get(1),
        expires_at: row.get(2),
        max_visits: row.get::<_, Option<i64>>(3).map(|max| max as u64),
        forward_query: row.get(4),
        is_deleted: row.get(5),
        crawlable: row.get(6),
    };
    Ok(client.query_opt(&select, &[&slug]).await?.map(read))
}

/// The slugs of the newest links that crawlers may follow, so many at most.
pub(super) async fn crawlable_slugs(client: &impl GenericClient, most: usize) -> Result<Vec<String>, Error> {
    let sql = "SELECT slug FROM links WHERE crawlable AND deleted_at IS NULL ORDER BY id DESC LIMIT $1";
    let select = client.prepare_cached(sql).await?;
    Ok(client.query(&select, &[&(most as i64)]).await?.iter().map(|row| row.get(0)).collect())
}

/// The links of one step of an export.
pub(super) async fn links_after(client: &impl GenericClient, id: u64) -> Result<Vec<Link>, Error> {
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM {LINK_TABLES}
         WHERE links.id > $1 AND links.deleted_at IS NULL ORDER BY links.id LIMIT {MAX_EXPORT_LINKS}"
    );
    let select = client.prepare_cached(&sql).await?;
    Ok(client.query(&select, &[&(id as i64)]).await?.iter().map(read_link).collect())
}

/// Inserts links in their order.
pub(super) async fn create(
    transaction: &Transaction<'_>,
    codec: &SlugCodec,
    links: &[NewLink],
    repeats: Duplicates,
    now_ms: i64,
) -> Result<Vec<CreateOutcome>, StoreError> {
    if repeats == Duplicates::Reuse {
        // Otherwise two imports of one row at a time would each find no link, and create one.
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&lock::IMPORT]).await?;
    }
    let mut outcomes = Vec::with_capacity(links.len());
    for new in links {
        let fingerprint = new.fingerprint();
        let existing = match repeats {
            Duplicates::Reuse => find_duplicate(transaction, fingerprint, new, now_ms).await?,
            Duplicates::Allow => None,
        };
        outcomes.push(match existing {
            Some(link) => CreateOutcome::Existing(link),
            None => insert(transaction, codec, new, fingerprint, now_ms).await?,
        });
    }
    Ok(outcomes)
}

/// Inserts a link under the first new id whose slug is free. An id that is not used is never used.
async fn insert(
    transaction: &Transaction<'_>,
    codec: &SlugCodec,
    new: &NewLink,
    fingerprint: i64,
    now_ms: i64,
) -> Result<CreateOutcome, StoreError> {
    let sql = "WITH made AS (
                   INSERT INTO links (id, slug, url, title, created_at, fingerprint, expires_at, max_visits, forward_query, crawlable)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (slug) DO NOTHING RETURNING id
               ), counted AS (
                   INSERT INTO link_visits (link_id, visits) SELECT id, 0 FROM made
               ), tagged AS (
                   INSERT INTO link_tags (tag, link_id) SELECT tag, id FROM made, unnest($11::text[]) AS tag
               )
               SELECT id FROM made";
    let insert = transaction.prepare_cached(sql).await?;
    let next =
        transaction.prepare_cached("SELECT nextval(pg_get_serial_sequence('links', 'id')::regclass)").await?;
    let LinkOptions { tags, expires_at, max_visits, forward_query, crawlable } = &new.options;
    let (max_visits, tags) = (max_visits.map(|max| max as i64), texts(tags));
    loop {
        let id: i64 = transaction.query_one(&next, &[]).await?.get(0);
        let slug = match &new.slug {
            Some(slug) => slug.clone(),
            None => codec.encode(id as u64).ok_or(StoreError::NoSlugLeft)?,
        };
        // A derived slug can be a reserved word or in use already: its id is skipped.
        if new.slug.is_none() && slug::is_reserved(&slug) {
            continue;
        }
        let url = new.url.as_str();
        let made = transaction
            .query_opt(
                &insert,
                &[
                    &id,
                    &slug,
                    &url,
                    &new.title,
                    &now_ms,
                    &fingerprint,
                    expires_at,
                    &max_visits,
                    forward_query,
                    crawlable,
                    &tags,
                ],
            )
            .await?;
        if made.is_some() {
            return Ok(CreateOutcome::Created(Link {
                id: id as u64,
                slug,
                url: url.to_owned(),
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
    }
}

/// A link with the same address and title, and with the requested slug, if there is one.
async fn find_duplicate(
    transaction: &Transaction<'_>,
    fingerprint: i64,
    new: &NewLink,
    now_ms: i64,
) -> Result<Option<Link>, Error> {
    // An edited link has no fingerprint, so a slug finds it as well.
    let by = if new.slug.is_some() {
        "links.slug = $1 AND $2::bigint IS NOT NULL"
    } else {
        "$1::text IS NULL AND links.fingerprint = $2"
    };
    // A link that leads nowhere any more is no duplicate, unless the slug says so, or the new one has such an end too, as one
    // that is imported again.
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM {LINK_TABLES}
         WHERE {by} AND url = $3 AND title = $4 AND deleted_at IS NULL
           AND ($5 OR expires_at IS NULL OR expires_at > $6)
           AND ($7 OR max_visits IS NULL OR visits < max_visits) LIMIT 1"
    );
    let LinkOptions { expires_at, max_visits, .. } = &new.options;
    let may_have_expired = new.slug.is_some() || expires_at.is_some();
    let may_be_used_up = new.slug.is_some() || max_visits.is_some();
    let select = transaction.prepare_cached(&sql).await?;
    let url = new.url.as_str();
    let row = transaction
        .query_opt(
            &select,
            &[&new.slug, &fingerprint, &url, &new.title, &may_have_expired, &now_ms, &may_be_used_up],
        )
        .await?;
    Ok(row.as_ref().map(read_link))
}

/// Updates a link and returns it, or `None` if there is none.
pub(super) async fn update(
    transaction: &Transaction<'_>,
    slug: &str,
    change: &LinkUpdate,
) -> Result<Option<Link>, Error> {
    // Locked first: of two updates at a time the second one starts from what the first one wrote.
    let lock = "SELECT id FROM links WHERE slug = $1 FOR UPDATE";
    transaction.query_opt(&transaction.prepare_cached(lock).await?, &[&slug]).await?;
    let Some(link) = find(transaction, slug).await? else { return Ok(None) };
    let changed = change.apply(&link);
    let id = changed.id as i64;
    // Without a fingerprint, an import does not mistake the edited link for the row that created it.
    let is_edited = (&changed.url, &changed.title) != (&link.url, &link.title);
    let sql = "UPDATE links SET url = $2, title = $3, expires_at = $4, max_visits = $5, forward_query = $6, crawlable = $7,
                   fingerprint = CASE WHEN $8 THEN NULL ELSE fingerprint END
               WHERE id = $1";
    let LinkOptions { tags, expires_at, max_visits, forward_query, crawlable } = &changed.options;
    let max_visits = max_visits.map(|max| max as i64);
    transaction
        .execute(
            &transaction.prepare_cached(sql).await?,
            &[
                &id,
                &changed.url,
                &changed.title,
                expires_at,
                &max_visits,
                forward_query,
                crawlable,
                &is_edited,
            ],
        )
        .await?;
    if change.tags.is_some() {
        transaction.execute("DELETE FROM link_tags WHERE link_id = $1", &[&id]).await?;
        let insert = "INSERT INTO link_tags (tag, link_id) SELECT tag, $2 FROM unnest($1::text[]) AS tag";
        transaction.execute(insert, &[&texts(tags), &id]).await?;
    }
    Ok(Some(changed))
}

/// Marks a link as deleted; false if there is none.
pub(super) async fn delete(transaction: &Transaction<'_>, slug: &str, now_ms: i64) -> Result<bool, Error> {
    let sql = "UPDATE links SET deleted_at = $2 WHERE slug = $1 AND deleted_at IS NULL";
    Ok(transaction.execute(sql, &[&slug, &now_ms]).await? == 1)
}

/// Restores a link that was deleted after `since_ms` and returns it, or `None` if there is none.
pub(super) async fn restore(
    transaction: &Transaction<'_>,
    slug: &str,
    since_ms: i64,
) -> Result<Option<Link>, Error> {
    let sql = "UPDATE links SET deleted_at = NULL WHERE slug = $1 AND deleted_at > $2";
    match transaction.execute(sql, &[&slug, &since_ms]).await? {
        0 => Ok(None),
        _ => find(transaction, slug).await,
    }
}

/// Drops up to `limit` links that were deleted at `until_ms` or before, and returns their slugs. Those that another instance
/// drops at this moment are left to it.
pub(super) async fn drop_deleted(
    transaction: &Transaction<'_>,
    until_ms: i64,
    limit: usize,
) -> Result<Vec<String>, Error> {
    let sql = "DELETE FROM links WHERE id IN (
                   SELECT id FROM links WHERE deleted_at <= $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
               RETURNING slug";
    let rows = transaction.query(sql, &[&until_ms, &(limit as i64)]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Reads the columns of [`LINK_COLUMNS`].
pub(super) fn read_link(row: &Row) -> Link {
    let tags: Vec<&str> = row.get(10);
    Link {
        id: row.get::<_, i64>(0) as u64,
        slug: row.get(1),
        url: row.get(2),
        title: row.get(3),
        created_at: row.get(4),
        visits: row.get::<_, i64>(5) as u64,
        options: LinkOptions {
            tags: tags.into_iter().map(Tag::stored).collect(),
            expires_at: row.get(6),
            max_visits: row.get::<_, Option<i64>>(7).map(|max| max as u64),
            forward_query: row.get(8),
            crawlable: row.get(11),
        },
        deleted_at: row.get(9),
    }
}

fn texts(tags: &[Tag]) -> Vec<&str> {
    tags.iter().map(Tag::as_str).collect()
}
