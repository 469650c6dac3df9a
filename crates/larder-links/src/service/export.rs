//! All links as CSV or JSON, in pieces: a million links need no more memory than a thousand.
//!
//! | column | content |
//! |---|---|
//! | `slug`, `url`, `title` | text |
//! | `tags` | separated by commas; in JSON an array |
//! | `expires_at`, `created_at` | a time in UTC; may be empty, in JSON null |
//! | `max_visits`, `visits` | a number; `max_visits` may be empty, in JSON null |
//! | `forward_query`, `crawlable` | `true` or `false` |
//!
//! [`import`](crate::import) reads both formats. It leaves out `created_at` and `visits`, which are set by the database that
//! counts them.
//!
//! **Formulas.** Spreadsheets execute a cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return (OWASP, "CSV
//! Injection"). Such a cell gets an apostrophe in front, as does one that has apostrophes there already, so that an import
//! can remove exactly one.

use crate::model::tag::Tag;
use crate::model::time;
use crate::store::{Link, MAX_EXPORT_LINKS, Store, StoreError};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

/// The columns of an export.
pub(crate) const COLUMNS: [&str; 10] = [
    "slug",
    "url",
    "title",
    "tags",
    "expires_at",
    "max_visits",
    "forward_query",
    "crawlable",
    "created_at",
    "visits",
];

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// One array of objects, one in a line.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            other => Err(format!("the format is {other:?}, expected csv or json")),
        }
    }
}

impl Format {
    /// `csv` or `json`: also the end of a file's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Json => "json",
        }
    }
}

/// An export, oldest link first. A link that is created meanwhile may be missing; none appears twice.
pub struct Export {
    store: Store,
    format: Format,
    /// The id of the last link, `None` before the first piece.
    last_id: Option<u64>,
    is_done: bool,
}

impl Export {
    /// An export of all links that are not deleted.
    pub fn new(store: Store, format: Format) -> Export {
        Export { store, format, last_id: None, is_done: false }
    }

    /// The next piece of the text, of up to 1,000 links, or `None` at the end.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        if self.is_done {
            return Ok(None);
        }
        let links = self.store.links_after(self.last_id.unwrap_or(0)).await?;
        let is_first = self.last_id.is_none();
        self.is_done = links.len() < MAX_EXPORT_LINKS;
        self.last_id = links.last().map(|link| link.id).or(Some(0));
        Ok(Some(match self.format {
            Format::Csv => csv_piece(&links, is_first),
            Format::Json => json_piece(&links, is_first, self.is_done),
        }))
    }

    /// Writes the rest of the text.
    ///
    /// # Errors
    /// That of the output, or one that contains the [`StoreError`].
    pub async fn write_to(mut self, output: &mut impl Write) -> std::io::Result<()> {
        while let Some(piece) = self.next().await.map_err(std::io::Error::other)? {
            output.write_all(&piece)?;
        }
        output.flush()
    }
}

/// Exports all links that are not deleted into a file that only its owner can read. An existing file is replaced when the export
/// is complete; a pipe or a device is written directly.
///
/// Blocks on the disk: not for a runtime that serves requests.
///
/// # Errors
/// `InvalidInput` if the file is the database itself, an error of the file system, or one that contains a [`StoreError`].
pub async fn to_file(store: &Store, format: Format, path: &Path) -> std::io::Result<()> {
    let export = Export::new(store.clone(), format);
    let is_stream = std::fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir());
    if is_stream {
        return export.write_to(&mut OpenOptions::new().write(true).open(path)?).await;
    }
    let mut file = store.new_file(path)?;
    export.write_to(&mut file).await?;
    file.finish()
}

fn csv_piece(links: &[Link], is_first: bool) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |row: [Cow<'_, str>; 10]| {
        let cells = row.iter().map(|cell| neutralised(cell));
        // Neither a wrong number of columns nor a failure of the writer is possible.
        let _ = writer.write_record(cells.map(|cell| cell.into_owned()));
    };
    if is_first {
        write(COLUMNS.map(Cow::Borrowed));
    }
    for link in links {
        let options = &link.options;
        let tags: Vec<&str> = options.tags.iter().map(Tag::as_str).collect();
        write([
            (&link.slug).into(),
            (&link.url).into(),
            (&link.title).into(),
            tags.join(",").into(),
            options.expires_at.map(time::format).unwrap_or_default().into(),
            options.max_visits.map(|max| max.to_string()).unwrap_or_default().into(),
            options.forward_query.to_string().into(),
            options.crawlable.to_string().into(),
            time::format(link.created_at).into(),
            link.visits.to_string().into(),
        ]);
    }
    writer.into_inner().unwrap_or_default()
}

fn json_piece(links: &[Link], is_first: bool, is_last: bool) -> Vec<u8> {
    #[derive(Serialize)]
    struct Row<'a> {
        slug: &'a str,
        url: &'a str,
        title: &'a str,
        tags: Vec<&'a str>,
        expires_at: Option<String>,
        max_visits: Option<u64>,
        forward_query: bool,
        crawlable: bool,
        created_at: String,
        visits: u64,
    }
    let mut text = Vec::from(if is_first { "[" } else { "" });
    for (index, link) in links.iter().enumerate() {
        let options = &link.options;
        let row = Row {
            slug: &link.slug,
            url: &link.url,
            title: &link.title,
            tags: options.tags.iter().map(Tag::as_str).collect(),
            expires_at: options.expires_at.map(time::format),
            max_visits: options.max_visits,
            forward_query: options.forward_query,
            crawlable: options.crawlable,
            created_at: time::format(link.created_at),
            visits: link.visits,
        };
        text.extend_from_slice(if is_first && index == 0 { b"\n" } else { b",\n" });
        // Strings and numbers can always be written.
        let _ = serde_json::to_writer(&mut text, &row);
    }
    if is_last {
        text.extend_from_slice(b"\n]\n");
    }
    text
}

/// A cell that no spreadsheet executes.
fn neutralised(cell: &str) -> Cow<'_, str> {
    if is_formula(cell.trim_start_matches('\'')) { format!("'{cell}").into() } else { cell.into() }
}

/// The cell before [`neutralised`].
pub(crate) fn without_apostrophe(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(rest) if is_formula(rest.trim_start_matches('\'')) => rest,
        _ => cell,
    }
}

fn is_formula(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formula_is_neutralised_and_comes_back() {
        for (cell, written) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-a", "'-a"),
            ("@x", "'@x"),
            ("\tx", "'\tx"),
            ("'=1", "''=1"),
            ("'quoted'", "'quoted'"),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(neutralised(cell), written);
            assert_eq!(without_apostrophe(written), cell);
        }
    }
}
