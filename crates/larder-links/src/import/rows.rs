//! Parses a CSV file into batches of valid links and invalid rows with their lines.

use super::InvalidRow;
use crate::address::{Address, AddressError};
use crate::export::without_apostrophe;
use crate::hosts::OwnAddresses;
use crate::input::{self, check_title};
use crate::slug::check_custom;
use crate::store::{LinkOptions, MAX_BATCH_LINKS, NewLink};
use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};
use serde_json::{Map, Value};
use std::io::{Chain, Read};

/// The maximum text in one batch, so that its JSON is below the server's limit even if every byte is escaped.
const MAX_BATCH_TEXT_BYTES: usize = 1024 * 1024;

/// A batch of rows.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) links: Vec<NewLink>,
    /// The line of each link.
    pub(super) lines: Vec<u64>,
    pub(super) invalid: Vec<InvalidRow>,
    /// Bytes of the file read, this batch included.
    pub(super) bytes_read: u64,
    /// The length of its addresses and titles.
    text_bytes: usize,
}

impl Batch {
    pub(super) fn rows(&self) -> usize {
        self.links.len() + self.invalid.len()
    }

    pub(super) fn push(&mut self, line: u64, link: NewLink) {
        self.text_bytes += link.url.as_str().len() + link.title.len();
        self.links.push(link);
        self.lines.push(line);
    }

    /// Moves the links to the shortener itself to the invalid rows.
    pub(super) fn refuse(&mut self, own: &OwnAddresses) {
        let rows = std::mem::take(&mut self.lines).into_iter().zip(std::mem::take(&mut self.links));
        for (line, link) in rows {
            if own.contains(&link.url) {
                self.invalid.push(InvalidRow { line, reason: format!("url {}", AddressError::OwnHost) });
            } else {
                self.lines.push(line);
                self.links.push(link);
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows() >= MAX_BATCH_LINKS || self.text_bytes >= MAX_BATCH_TEXT_BYTES
    }
}

/// Reads batches from a CSV file.
pub(super) struct Rows<R> {
    reader: Reader<Source<R>>,
    columns: Option<Columns>,
    record: ByteRecord,
    /// Why the file could not be read further, until the rows before that have been returned.
    failure: Option<csv::Error>,
}

/// The file with one more line feed. It knows whether the reader has asked for more than that.
struct Source<R> {
    text: Chain<R, &'static [u8]>,
    has_ended: bool,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.text.read(buffer)?;
        self.has_ended |= count == 0;
        Ok(count)
    }
}

/// The positions of the columns.
#[derive(Clone, Copy)]
struct Columns {
    name: Option<usize>,
    url: usize,
    count: usize,
    /// Those of an export.
    export: Option<ExportColumns>,
}

/// The positions of the columns that only an export has.
#[derive(Clone, Copy)]
struct ExportColumns {
    slug: usize,
    tags: Option<usize>,
    expires_at: Option<usize>,
    max_visits: Option<usize>,
    forward_query: Option<usize>,
}

impl<R: Read> Rows<R> {
    pub(super) fn new(source: R) -> Rows<R> {
        // Only a line feed ends a line, because the reader counts those; a carriage return before it is trimmed with the
        // field's other white space. One more line feed at the end of the file ends its last line.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(Source { text: source.chain(b"\n".as_slice()), has_ended: false });
        Rows { reader, columns: None, record: ByteRecord::new(), failure: None }
    }

    /// The next batch, or `None` at the end of the file.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>, csv::Error> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let mut batch = Batch::default();
        while !batch.is_full() {
            match self.reader.read_byte_record(&mut self.record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) if batch.rows() == 0 => return Err(failure),
                Err(failure) => {
                    self.failure = Some(failure);
                    break;
                }
            }
            if self.is_open() {
                let reason = "has a quote that is not closed; the file may be cut off".to_owned();
                batch.invalid.push(InvalidRow { line: self.line(), reason });
                batch.bytes_read = self.reader.position().byte();
                continue;
            }
            if self.record.as_slice().trim_ascii().is_empty() && self.record.len() == 1 {
                continue;
            }
            let line = self.line();
            let is_first = self.columns.is_none();
            let columns = match self.columns {
                Some(columns) => columns,
                None => {
                    let (columns, is_header) = Columns::detect(&self.record);
                    self.columns = Some(columns);
                    if is_header {
                        continue;
                    }
                    columns
                }
            };
            batch.bytes_read = self.reader.position().byte();
            match columns.read(&self.record) {
                Ok(link) => batch.push(line, link),
                Err(mut reason) => {
                    if is_first {
                        reason.push_str("; a header row needs a column url");
                    }
                    batch.invalid.push(InvalidRow { line, reason });
                }
            }
        }
        Ok(Some(batch).filter(|batch| batch.rows() > 0))
    }

    /// Whether the current record ended with the file and not with its line: the line feed at the end is inside a quote.
    fn is_open(&self) -> bool {
        self.reader.get_ref().has_ended
    }

    /// The line on which the current record starts. It is computed from the position of the reader, because the record's own
    /// position is that of the blank lines before it.
    fn line(&self) -> u64 {
        let inside = self.record.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.reader.position().line() - inside - u64::from(!self.is_open())
    }
}

impl Columns {
    /// The columns by the names in the first row; without names, `name,url`.
    fn detect(first: &ByteRecord) -> (Columns, bool) {
        let find = |names: &[&str]| {
            first.iter().position(|field| {
                let field = String::from_utf8_lossy(field);
                names.iter().any(|name| field.trim().eq_ignore_ascii_case(name))
            })
        };
        match find(&["url"]) {
            Some(url) => {
                let export = find(&["slug"]).map(|slug| ExportColumns {
                    slug,
                    tags: find(&["tags"]),
                    expires_at: find(&["expires_at"]),
                    max_visits: find(&["max_visits"]),
                    forward_query: find(&["forward_query"]),
                });
                (Columns { name: find(&["name", "title"]), url, count: first.len(), export }, true)
            }
            None => (Columns { name: Some(0), url: 1, count: 2, export: None }, false),
        }
    }

    fn read(self, record: &ByteRecord) -> Result<NewLink, String> {
        if record.len() != self.count {
            let hint = if record.len() > self.count { "; a comma inside a field needs quotes" } else { "" };
            return Err(format!("has {} columns, expected {}{hint}", record.len(), self.count));
        }
        let field = |index: usize| {
            let field = std::str::from_utf8(&record[index]);
            let field = field.map_err(|_| format!("column {} is not UTF-8", index + 1))?;
            Ok::<_, String>(if self.export.is_some() { without_apostrophe(field) } else { field })
        };
        let url = Address::parse(field(self.url)?).map_err(|error| format!("url {error}"))?;
        let name = self.name.map(field).transpose()?.unwrap_or_default();
        let title = check_title(name).map_err(|error| format!("name {}", error.message()))?;
        let (slug, options) = match self.export {
            Some(columns) => columns.read(field)?,
            None => (None, LinkOptions::default()),
        };
        Ok(NewLink { url, slug, title: title.to_owned(), options })
    }
}

impl ExportColumns {
    /// Slug and options; an empty field has its default.
    fn read<'a>(
        self,
        field: impl Fn(usize) -> Result<&'a str, String>,
    ) -> Result<(Option<String>, LinkOptions), String> {
        let text = |index: Option<usize>| {
            let text = index.map(&field).transpose()?.map(str::trim);
            Ok::<_, String>(text.filter(|text| !text.is_empty()))
        };
        let slug = text(Some(self.slug))?;
        if let Some(slug) = slug {
            check_custom(slug).map_err(|error| format!("slug {error}"))?;
        }
        let mut fields = Map::new();
        if let Some(tags) = text(self.tags)? {
            fields.insert("tags".into(), tags.split(',').collect::<Vec<_>>().into());
        }
        if let Some(expires_at) = text(self.expires_at)? {
            fields.insert("expires_at".into(), expires_at.into());
        }
        for (name, index) in [("max_visits", self.max_visits), ("forward_query", self.forward_query)] {
            if let Some(value) = text(index)? {
                // What is neither a number nor a boolean stays text, which is reported.
                let value =
                    serde_json::from_str(&value.to_ascii_lowercase()).unwrap_or_else(|_| Value::from(value));
                fields.insert(name.into(), value);
            }
        }
        let options = input::options(&fields).map_err(|error| error.to_text())?;
        Ok((slug.map(str::to_owned), options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (Vec<(u64, String, String)>, Vec<InvalidRow>) {
        let mut rows = Rows::new(text);
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        while let Some(batch) = rows.next_batch().unwrap() {
            let links = batch.lines.into_iter().zip(batch.links);
            good.extend(links.map(|(line, link)| (line, link.title, link.url.as_str().to_owned())));
            bad.extend(batch.invalid);
        }
        (good, bad)
    }

    fn row(line: u64, title: &str, url: &str) -> (u64, String, String) {
        (line, title.into(), url.into())
    }

    #[test]
    fn header_is_optional() {
        let expected = |line| vec![row(line, "A", "https://a.example/")];
        assert_eq!(read(b"name,url\nA,https://a.example/\n").0, expected(2));
        assert_eq!(read(b"A,https://a.example/").0, expected(1));
        assert_eq!(read(b"URL , id, Title\r\nhttps://a.example/,7,A\r\n").0, expected(2));
        assert_eq!(read("\u{feff}name,url\nA,https://a.example/\n".as_bytes()).0, expected(2));
        assert_eq!(read(b"url\nhttps://a.example/\n").0, vec![row(2, "", "https://a.example/")]);
        assert_eq!(read(b""), (vec![], vec![]));
        assert_eq!(read(b"name,url\n"), (vec![], vec![]));
    }

    #[test]
    fn first_row_that_is_neither_data_nor_a_header_says_what_a_header_needs() {
        let (good, bad) = read(b"title,target\nA,https://a.example/\nB,\n");
        assert_eq!(good, [row(2, "A", "https://a.example/")]);
        assert!(bad[0].reason.ends_with("; a header row needs a column url"), "{}", bad[0].reason);
        assert!(!bad[1].reason.contains("header"), "{}", bad[1].reason);
    }

    #[test]
    fn invalid_rows_are_reported_by_line_and_others_are_read() {
        let text = b"name,url\n\
            \"Comma, and \"\"quotes\"\"\",https://a.example/\n\
            only one column\n\
            \n\
            B,ftp://b.example/\n\
            \"two\nlines\",https://c.example/\n\
            D,https://d.example/,extra\n\
            \xff,https://e.example/\n\
            ,https://f.example/\n\
            G,\n";
        let (good, bad) = read(text);
        assert_eq!(
            good,
            [
                row(2, "Comma, and \"quotes\"", "https://a.example/"),
                row(6, "two\nlines", "https://c.example/"),
                row(10, "", "https://f.example/"),
            ]
        );
        let bad: Vec<_> = bad.iter().map(|row| (row.line, row.reason.as_str())).collect();
        assert_eq!(
            bad,
            [
                (3, "has 1 columns, expected 2"),
                (5, "url must begin with http:// or https://; ftp: is not allowed"),
                (8, "has 3 columns, expected 2; a comma inside a field needs quotes"),
                (9, "column 1 is not UTF-8"),
                (11, "url is missing: an http or https address is needed"),
            ]
        );
    }

    #[test]
    fn quote_that_is_not_closed_is_reported_with_the_line_where_its_row_begins() {
        let reason = "has a quote that is not closed; the file may be cut off";
        let open = |line| vec![InvalidRow { line, reason: reason.into() }];
        let whole = "url,name\nhttps://a.example/,A\n";
        let swallowed = read(format!("{whole}https://b.example/,\"B\nhttps://c.example/,C\n").as_bytes());
        assert_eq!(swallowed, (vec![row(2, "A", "https://a.example/")], open(3)));
        assert_eq!(read(format!("{whole}https://b.example/,\"B").as_bytes()).1, open(3));
        assert_eq!(read(b"\"").1, open(1));
        // These are closed.
        for end in ["\"B\"", "\"B\"\n", "\"B\n\"", "\"B\n\"\n\n"] {
            let (good, bad) = read(format!("{whole}https://b.example/,{end}").as_bytes());
            assert_eq!((good.len(), bad), (2, vec![]), "{end:?}");
        }
    }

    /// A file that cannot be read to its end.
    struct Broken<'a>(&'a [u8]);

    impl Read for Broken<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(std::io::Error::other("the disk has failed")),
                count => Ok(count),
            }
        }
    }

    #[test]
    fn rows_before_a_failed_read_are_returned() {
        let text = "n,https://a.example/\n".repeat(MAX_BATCH_LINKS + 200);
        let mut rows = Rows::new(Broken(text.as_bytes()));
        assert_eq!(rows.next_batch().unwrap().unwrap().links.len(), MAX_BATCH_LINKS);
        assert_eq!(rows.next_batch().unwrap().unwrap().links.len(), 200);
        assert!(rows.next_batch().err().unwrap().to_string().contains("the disk has failed"));
    }

    #[test]
    fn batch_is_bounded_in_rows_and_text() {
        let many = "n,https://a.example/\n".repeat(MAX_BATCH_LINKS + 1);
        let mut rows = Rows::new(many.as_bytes());
        assert_eq!(rows.next_batch().unwrap().unwrap().links.len(), MAX_BATCH_LINKS);
        assert_eq!(rows.next_batch().unwrap().unwrap().links.len(), 1);
        assert!(rows.next_batch().unwrap().is_none());

        let long = format!("n,https://a.example/{}\n", "x".repeat(8_000)).repeat(300);
        let first = Rows::new(long.as_bytes()).next_batch().unwrap().unwrap();
        let text: usize = first.links.iter().map(|link| link.url.as_str().len()).sum();
        assert!(
            first.links.len() < 300 && text <= MAX_BATCH_TEXT_BYTES + 8_100,
            "{} links",
            first.links.len()
        );
    }
}
