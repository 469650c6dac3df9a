//! The queries of lists: all links, those with a tag, and those that match a text; newest first, or by visits.
//!
//! | text | examined | links at a time |
//! |---|---|---|
//! | from three characters on | the trigram index of slug, title and address | 500,000 |
//! | one or two characters | the beginnings of slug and title, row by row | 50,000 |
//!
//! Ids are sequential, so a range of ids bounds the work of one query: about 20 ms in either case. A page of a search can
//! therefore contain fewer links than requested and still have a next one.
//!
//! By visits, an index has the order of all links. Those with a tag or a text are found as above and sorted for each page: the
//! newest 50,000 of them, so that the work is bounded too, and for a short text those among the newest 50,000 links.

use super::statements::{LINK_COLUMNS, read_link};
use crate::model::tag::Tag;
use crate::store::{Link, ListQuery, MAX_EXPORT_LINKS, Page, Position, Sort};
use rusqlite::{Connection, ToSql, named_params};

/// The fewest characters that the trigram index can look up.
const TRIGRAM_CHARS: usize = 3;

/// How many links that match are sorted by visits at most. Sorting them takes about 50 ms.
const MAX_SORTED_LINKS: usize = 50_000;

/// Before every link in the order of visits.
const FIRST: Position = Position { visits: i64::MAX as u64, id: i64::MAX as u64 };

/// One way to find links. Its rows are in the order of `id`. All conditions mention the same parameters.
struct Source {
    from: &'static str,
    id: &'static str,
    condition: &'static str,
    /// How many ids a query examines at most.
    window: u64,
}

const NEWEST: Source = Source { from: "links", id: "links.id", condition: ":text IS NULL", window: u64::MAX };

/// By their own index: there are few among all links.
const DELETED: Source = Source { from: "links INDEXED BY links_deleted", ..NEWEST };

// CROSS JOIN keeps the left table first.
const TAGGED: Source = Source {
    from: "link_tags CROSS JOIN links ON links.id = link_tags.link_id",
    id: "link_tags.link_id",
    condition: ":text IS NULL AND link_tags.tag = :tag",
    window: u64::MAX,
};

const INDEXED: Source = Source {
    from: "links_text CROSS JOIN links ON links.id = links_text.rowid",
    id: "links_text.rowid",
    condition: "links_text MATCH :text",
    window: 500_000,
};

const PREFIXED: Source = Source {
    from: "links",
    id: "links.id",
    condition: "(links.slug GLOB :text OR links.title GLOB :text)",
    window: 50_000,
};

pub(super) fn list(connection: &Connection, query: &ListQuery) -> rusqlite::Result<Page> {
    let (source, pattern) = match &query.text {
        Some(text) if text.chars().count() >= TRIGRAM_CHARS => (&INDEXED, Some(phrase(text))),
        Some(text) => (&PREFIXED, Some(prefix_pattern(text))),
        None if query.tag.is_some() => (&TAGGED, None),
        None if query.deleted => (&DELETED, None),
        None => (&NEWEST, None),
    };
    match query.sort {
        Sort::Newest => newest(connection, source, query, pattern),
        Sort::Visits if query.text.is_none() && query.tag.is_none() && !query.deleted => {
            most_visited(connection, query)
        }
        Sort::Visits => sorted_by_visits(connection, source, query, pattern),
    }
}

/// The links of one step of an export.
pub(super) fn links_after(connection: &Connection, id: u64) -> rusqlite::Result<Vec<Link>> {
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM links WHERE id > ?1 AND deleted_at IS NULL ORDER BY id LIMIT {MAX_EXPORT_LINKS}"
    );
    connection.prepare_cached(&sql)?.query_map([id as i64], read_link)?.collect()
}

fn newest(
    connection: &Connection,
    source: &Source,
    query: &ListQuery,
    pattern: Option<String>,
) -> rusqlite::Result<Page> {
    let newest = newest_id(connection)?;
    let before = query.after.map_or(u64::MAX, |position| position.id).min(newest + 1);
    let lowest = before.saturating_sub(source.window);
    let Source { from, id, .. } = source;
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM {from}
         WHERE {} AND {id} < :before ORDER BY {id} DESC LIMIT :limit",
        matches(source, query)
    );
    let values = named_params! {
        ":text": pattern,
        ":tag": query.tag.as_ref().map(Tag::as_str),
        ":before": before as i64,
        ":lowest": lowest as i64,
        ":limit": query.limit as i64 + 1,
    };
    let mut page = read_page(connection, &sql, values, query.limit)?;
    page.next = page.next.or(Some(Position { visits: 0, id: lowest }).filter(|_| lowest > 1));
    Ok(page)
}

/// All links by visits, in the order of their index.
fn most_visited(connection: &Connection, query: &ListQuery) -> rusqlite::Result<Page> {
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM links
         WHERE links.deleted_at IS NULL AND (links.visits, links.id) < (:visits, :id)
         ORDER BY links.visits DESC, links.id DESC LIMIT :limit"
    );
    let Position { visits, id } = query.after.unwrap_or(FIRST);
    let values =
        named_params! { ":visits": visits as i64, ":id": id as i64, ":limit": query.limit as i64 + 1 };
    read_page(connection, &sql, values, query.limit)
}

/// The newest links that match, by visits.
fn sorted_by_visits(
    connection: &Connection,
    source: &Source,
    query: &ListQuery,
    pattern: Option<String>,
) -> rusqlite::Result<Page> {
    let lowest = (newest_id(connection)? + 1).saturating_sub(source.window);
    let Source { from, id, .. } = source;
    let sql = format!(
        "SELECT {LINK_COLUMNS}
         FROM (SELECT {id} AS id FROM {from} WHERE {} ORDER BY {id} DESC LIMIT {MAX_SORTED_LINKS}) AS found
              CROSS JOIN links ON links.id = found.id
         WHERE (links.visits, links.id) < (:visits, :id)
         ORDER BY links.visits DESC, links.id DESC LIMIT :limit",
        matches(source, query)
    );
    let Position { visits, id } = query.after.unwrap_or(FIRST);
    let values = named_params! {
        ":text": pattern,
        ":tag": query.tag.as_ref().map(Tag::as_str),
        ":lowest": lowest as i64,
        ":visits": visits as i64,
        ":id": id as i64,
        ":limit": query.limit as i64 + 1,
    };
    read_page(connection, &sql, values, query.limit)
}

/// The condition of a query on the links of a source.
fn matches(source: &Source, query: &ListQuery) -> String {
    let Source { id, condition, .. } = source;
    let state = if query.deleted { "IS NOT NULL" } else { "IS NULL" };
    format!(
        "{condition} AND {id} >= :lowest AND links.deleted_at {state}
         AND (:tag IS NULL OR EXISTS (SELECT 1 FROM link_tags WHERE tag = :tag AND link_id = links.id))"
    )
}

fn newest_id(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT coalesce(max(id), 0) FROM links";
    connection.prepare_cached(sql)?.query_row([], |row| Ok(row.get::<_, i64>(0)? as u64))
}

/// Reads a page from a query for one link more than `limit`, which shows whether there is a next page.
fn read_page(
    connection: &Connection,
    sql: &str,
    values: &[(&str, &dyn ToSql)],
    limit: usize,
) -> rusqlite::Result<Page> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut links = statement.query_map(values, read_link)?.collect::<rusqlite::Result<Vec<Link>>>()?;
    let has_more = links.len() > limit;
    links.truncate(limit);
    let last = links.last().filter(|_| has_more);
    let next = last.map(|link| Position { visits: link.visits, id: link.id });
    Ok(Page { links, next })
}

/// A text as one phrase of the query language of FTS5.
fn phrase(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A pattern of GLOB for texts that begin with this one, in either case of letters. LIKE ignores the case of ASCII only.
fn prefix_pattern(text: &str) -> String {
    text.chars().map(either_case).chain(["*".to_owned()]).collect()
}

/// A character, or the set of its cases.
fn either_case(c: char) -> String {
    let cases = [lower_case(c), upper_case(c)];
    let others: String = cases.into_iter().flatten().filter(|&other| other != c).collect();
    // In a set a wildcard is an ordinary character.
    if others.is_empty() && !matches!(c, '*' | '?' | '[') { c.to_string() } else { format!("[{c}{others}]") }
}

/// The lower case of a character, unless that is several characters.
fn lower_case(c: char) -> Option<char> {
    let mut lower = c.to_lowercase();
    lower.next().filter(|_| lower.next().is_none())
}

/// The upper case of a character, unless that is several characters.
fn upper_case(c: char) -> Option<char> {
    let mut upper = c.to_uppercase();
    upper.next().filter(|_| upper.next().is_none())
}
