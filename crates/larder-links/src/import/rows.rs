//! Parses a CSV file into batches of valid links and invalid rows with their lines.

use super::columns::{Columns, is_names};
use super::{ImportError, InvalidRow, SourceFormat};
use crate::model::address::AddressError;
use crate::service::hosts::OwnAddresses;
use crate::store::{MAX_BATCH_LINKS, NewLink};
use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};
use std::io::{BufRead, Chain, Read};

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
    format: SourceFormat,
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

impl<R: BufRead> Rows<R> {
    /// The rows of a file, whose separator its first row tells.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn new(mut source: R, format: SourceFormat) -> Result<Rows<R>, ImportError> {
        let separator = separator(source.fill_buf().map_err(csv::Error::from)?, format);
        // Only a line feed ends a line, because the reader counts those; a carriage return before it is trimmed with the
        // field's other white space. One more line feed at the end of the file ends its last line.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(separator)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(Source { text: source.chain(b"\n".as_slice()), has_ended: false });
        Ok(Rows { reader, format, columns: None, record: ByteRecord::new(), failure: None })
    }

    /// The next batch, or `None` at the end of the file.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>, ImportError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        let mut batch = Batch::default();
        while !batch.is_full() {
            match self.reader.read_byte_record(&mut self.record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) if batch.rows() == 0 => return Err(failure.into()),
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
                    let (columns, is_header) = Columns::detect(&self.record, self.format)?;
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
                        reason.push_str("; if this is a header, it needs a column url");
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

/// The separator by which the first row of a text makes most sense: it has the most columns that the format knows, or names of
/// columns at all.
fn separator(text: &[u8], format: SourceFormat) -> u8 {
    let first_row = |separator: u8| {
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(separator);
        let mut rows = builder.terminator(Terminator::Any(b'\n')).from_reader(text).into_byte_records();
        rows.find_map(|row| row.ok().filter(|row| !row.as_slice().trim_ascii().is_empty()))
    };
    let sense = |separator: &u8| {
        let row = first_row(*separator).unwrap_or_default();
        (format.score(&row), if is_names(&row) { row.len() } else { 0 })
    };
    // Of equal ones the last, which is the comma.
    b"\t;,".iter().copied().max_by_key(sense).unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (Vec<(u64, String, String)>, Vec<InvalidRow>) {
        let mut rows = Rows::new(text, SourceFormat::Larder).unwrap();
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
        assert_eq!(read(b"URL , visits, Title\r\nhttps://a.example/,7,A\r\n").0, expected(2));
        // Spreadsheets write columns without a name.
        assert_eq!(read(b"url,name,,\nhttps://a.example/,A,,\n").0, expected(2));
        // The name of a link may be that of a column.
        assert_eq!(read(b"url,https://a.example/\n").0, vec![row(1, "url", "https://a.example/")]);
        assert_eq!(read(b"url\nhttps://a.example/\n").0, vec![row(2, "", "https://a.example/")]);
        assert_eq!(read(b""), (vec![], vec![]));
        assert_eq!(read(b"name,url\n"), (vec![], vec![]));
    }

    fn failure(text: &str, format: SourceFormat) -> String {
        let mut rows = Rows::new(text.as_bytes(), format).unwrap();
        rows.next_batch().err().unwrap_or_else(|| panic!("{text:?} is read")).to_string()
    }

    #[test]
    fn unknown_columns_are_an_error_that_names_them_and_the_known_ones() {
        let known = "the columns of the format larder are name, url, title, slug, tags, expires_at, max_visits, \
                     forward_query, crawlable, created_at, visits";
        for (header, problem, advice) in [
            ("slugg,url", "the column slugg is unknown", ""),
            ("slug,url,expires", "the column expires is unknown", ""),
            ("title,target", "the column target is unknown", ""),
            ("slugg,addres", "the columns slugg, addres are unknown", ""),
            ("slug,title", "there is no column with the address", ""),
            (
                "keyword,url,title,timestamp,ip,clicks",
                "the columns keyword, timestamp, ip, clicks are unknown",
                "; --format yourls reads this file",
            ),
            (
                "createdAt;domain;shortCode;shortUrl;longUrl;title;tags;visits",
                "the columns createdAt, domain, shortCode, shortUrl, longUrl are unknown",
                "; --format shlink reads this file",
            ),
            (
                "Link\tTitle\tDestination",
                "the columns Link, Destination are unknown",
                "; --format bitly reads this file",
            ),
        ] {
            let text = format!("{header}\na,https://a.example/,b\n");
            assert_eq!(failure(&text, SourceFormat::Larder), format!("{problem}; {known}{advice}"));
        }
        let twice = failure("name,url,title\na,https://a.example/,b\n", SourceFormat::Larder);
        assert_eq!(twice, "the columns name (1) and title (3) mean the same; keep one");
        let other = failure("keyword,title\n", SourceFormat::Yourls);
        assert!(other.starts_with("there is no column with the address; "), "{other}");
        let other = failure("url,title\n", SourceFormat::Yourls);
        let expected =
            "there is no column with the slug; the columns of the format yourls are keyword, url, title";
        assert_eq!(other, expected);
    }

    /// Slug, address, title and tags of the rows of another program.
    fn exported(text: &str, format: SourceFormat) -> Vec<String> {
        let batch = Rows::new(text.as_bytes(), format).unwrap().next_batch().unwrap().unwrap();
        assert_eq!(batch.invalid, []);
        let row = |link: &NewLink| {
            let tags: Vec<&str> = link.options.tags.iter().map(|tag| tag.as_str()).collect();
            format!("{:?} {} {:?} {tags:?}", link.slug, link.url.as_str(), link.title)
        };
        batch.links.iter().map(row).collect()
    }

    #[test]
    fn exports_of_other_programs_keep_their_slugs() {
        let yourls = "keyword,url,title,timestamp,ip,clicks\n\
            abc,https://a.example/,\"A, b\",2024-01-02 03:04:05,192.0.2.1,17\n";
        assert_eq!(exported(yourls, SourceFormat::Yourls), [r#"Some("abc") https://a.example/ "A, b" []"#]);
        let shlink = "createdAt,domain,shortCode,shortUrl,longUrl,title,tags,visits\n\
            2024-01-02T03:04:05+00:00,s.example,abc,https://s.example/abc,https://a.example/,A,one|two,17\n";
        assert_eq!(
            exported(shlink, SourceFormat::Shlink),
            [r#"Some("abc") https://a.example/ "A" ["one", "two"]"#]
        );
        let for_its_import = "Long URL;Tags;Domain;Short code;Title\nhttps://a.example/;one|two;;abc;A\n";
        assert_eq!(exported(for_its_import, SourceFormat::Shlink), exported(shlink, SourceFormat::Shlink));
        let bitly = "link,long_url,custom_bitlink,title,tags,created_at\n\
            https://bit.ly/3xYz,https://a.example/,,A,\"one,two\",2024-01-02T03:04:05+0000\n\
            bit.ly/3aBc,https://b.example/,s.example/own,B,,2024-01-02T03:04:05+0000\n";
        assert_eq!(
            exported(bitly, SourceFormat::Bitly),
            [
                r#"Some("3xYz") https://a.example/ "A" ["one", "two"]"#,
                r#"Some("own") https://b.example/ "B" []"#
            ]
        );
    }

    #[test]
    fn separators_are_recognised_by_the_first_row() {
        for text in [
            "name;url\n\"A;,\";https://a.example/?x=1,2;3\n",
            "\n \nurl\tname\nhttps://a.example/?x=1,2;3\tA;,\n",
            "A;,\thttps://a.example/?x=1,2;3\n",
            "\"A;,\",\"https://a.example/?x=1,2;3\"\n",
        ] {
            let text =
                text.replace("?x=1,2;3", if text.starts_with("name;") { "?x=1,2" } else { "?x=1,2;3" });
            let (good, bad) = read(text.as_bytes());
            assert_eq!((good.len(), good[0].1.as_str(), bad), (1, "A;,", vec![]), "{text}");
        }
        assert_eq!(read(b"A,https://a.example/?x;y;z\n").0, [row(1, "A", "https://a.example/?x;y;z")]);
        assert_eq!(read(b"A;https://a.example/?x,y,z\n").0, [row(1, "A", "https://a.example/?x,y,z")]);
    }

    #[test]
    fn options_are_read_without_a_column_for_the_slug() {
        let text = b"url,max_visits,tags\nhttps://a.example/,7,\"one,two\"\n".as_slice();
        let batch = Rows::new(text, SourceFormat::Larder).unwrap().next_batch().unwrap().unwrap();
        let options = &batch.links[0].options;
        assert_eq!((options.max_visits, options.tags.len()), (Some(7), 2));
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
                (8, "has 3 columns, expected 2; a separator inside a field needs quotes"),
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
        let source = std::io::BufReader::new(Broken(text.as_bytes()));
        let mut rows = Rows::new(source, SourceFormat::Larder).unwrap();
        assert_eq!(rows.next_batch().unwrap().unwrap().links.len(), MAX_BATCH_LINKS);
        assert_eq!(rows.next_batch().unwrap().unwrap().links.len(), 200);
        assert!(rows.next_batch().err().unwrap().to_string().contains("the disk has failed"));
    }

    #[test]
    fn batch_is_bounded_in_rows_and_text() {
        let many = "n,https://a.example/\n".repeat(MAX_BATCH_LINKS + 1);
        let mut rows = Rows::new(many.as_bytes(), SourceFormat::Larder).unwrap();
        assert_eq!(rows.next_batch().unwrap().unwrap().links.len(), MAX_BATCH_LINKS);
        assert_eq!(rows.next_batch().unwrap().unwrap().links.len(), 1);
        assert!(rows.next_batch().unwrap().is_none());

        let long = format!("n,https://a.example/{}\n", "x".repeat(8_000)).repeat(300);
        let mut rows = Rows::new(long.as_bytes(), SourceFormat::Larder).unwrap();
        let first = rows.next_batch().unwrap().unwrap();
        let text: usize = first.links.iter().map(|link| link.url.as_str().len()).sum();
        assert!(
            first.links.len() < 300 && text <= MAX_BATCH_TEXT_BYTES + 8_100,
            "{} links",
            first.links.len()
        );
    }
}
