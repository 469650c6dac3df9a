//! The queries of lists: the newest links, those with a tag, and those that match a text.
//!
//! | text | examined | links at a time |
//! |---|---|---|
//! | from three characters on | the trigram index of slug, title and address | 500,000 |
//! | one or two characters | the beginnings of slug and title, row by row | 50,000 |
//!
//! Ids are sequential, so a range of ids bounds the work of one query: about 20 ms in either case. A page of a search can
//! therefore contain fewer links than requested and still have a next one.

use super::statements::{LINK_COLUMNS, read_link};
use super::{Link, ListQuery, MAX_EXPORT_LINKS, Page};
use crate::tag::Tag;
use rusqlite::{Connection, named_params};

/// The fewest characters that the trigram index can look up.
const TRIGRAM_CHARS: usize = 3;

/// One way to find links. Its rows are in the order of `id`. All conditions mention the same parameters.
struct Source {
    from: &'static str,
    id: &'static str,
    condition: &'static str,
    /// How many ids a query examines at most.
    window: u64,
}

const NEWEST: Source = Source { from: "links", id: "links.id", condition: ":text IS NULL", window: u64::MAX };

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
    match &query.text {
        Some(text) if text.chars().count() >= TRIGRAM_CHARS => {
            select(connection, &INDEXED, query, Some(phrase(text)))
        }
        Some(text) => select(connection, &PREFIXED, query, Some(prefix_pattern(text))),
        None if query.tag.is_some() => select(connection, &TAGGED, query, None),
        None => select(connection, &NEWEST, query, None),
    }
}

/// The links of one step of an export.
pub(super) fn links_after(connection: &Connection, id: u64) -> rusqlite::Result<Vec<Link>> {
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM links WHERE id > ?1 AND deleted_at IS NULL ORDER BY id LIMIT {MAX_EXPORT_LINKS}"
    );
    connection.prepare_cached(&sql)?.query_map([id as i64], read_link)?.collect()
}

fn select(
    connection: &Connection,
    source: &Source,
    query: &ListQuery,
    pattern: Option<String>,
) -> rusqlite::Result<Page> {
    let Source { from, id, condition, window } = source;
    let newest: i64 = connection.query_row("SELECT coalesce(max(id), 0) FROM links", [], |row| row.get(0))?;
    let before = query.before.unwrap_or(u64::MAX).min(newest as u64 + 1);
    let lowest = before.saturating_sub(*window);
    let state = if query.deleted { "IS NOT NULL" } else { "IS NULL" };
    let sql = format!(
        "SELECT {LINK_COLUMNS} FROM {from}
         WHERE {condition} AND {id} < :before AND {id} >= :lowest AND links.deleted_at {state}
           AND (:tag IS NULL OR EXISTS (SELECT 1 FROM link_tags WHERE tag = :tag AND link_id = links.id))
         ORDER BY {id} DESC LIMIT :limit"
    );
    let values = named_params! {
        ":text": pattern,
        ":tag": query.tag.as_ref().map(Tag::as_str),
        ":before": before as i64,
        ":lowest": lowest as i64,
        // One more than requested shows whether there is a next page.
        ":limit": query.limit as i64 + 1,
    };
    let mut links = connection
        .prepare_cached(&sql)?
        .query_map(values, read_link)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let has_more = links.len() > query.limit;
    links.truncate(query.limit);
    let next =
        if has_more { links.last().map(|link: &Link| link.id) } else { Some(lowest).filter(|&id| id > 1) };
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
