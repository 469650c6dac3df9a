//! The columns of a CSV file: what each format calls them, and the link that a row has in them.

use super::ImportError;
use crate::model::address::Address;
use crate::model::slug::check_custom;
use crate::service::export::without_apostrophe;
use crate::store::{LinkOptions, NewLink};
use crate::web::input::{self, check_title};
use csv::ByteRecord;
use serde_json::{Map, Value};
use std::str::FromStr;

/// The program whose columns a CSV file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceFormat {
    /// This one: `name` and `url`, or those of an [export](crate::service::export). Another column is an error.
    #[default]
    Larder,
    /// YOURLS: `keyword`, `url`, `title`.
    Yourls,
    /// Shlink, its web client or the file of its own import: `shortCode`, `longUrl`, `title`, `tags`.
    Shlink,
    /// Bitly: `long_url` or `Destination`, `link` and `custom_bitlink`, `title`, `tags`.
    Bitly,
}

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Url,
    Title,
    Slug,
    /// A short link that its owner has named, whose last part is the slug.
    OwnLink,
    /// A short link whose last part is the slug, unless the owner has named it.
    Link,
    Tags,
    ExpiresAt,
    MaxVisits,
    ForwardQuery,
    Crawlable,
    /// Nothing for an import: the database itself sets it.
    CreatedAt,
    Visits,
}

/// The number of columns.
const COLUMNS: usize = Column::Visits as usize + 1;

impl SourceFormat {
    /// All of them.
    pub const ALL: [SourceFormat; 4] =
        [SourceFormat::Larder, SourceFormat::Yourls, SourceFormat::Shlink, SourceFormat::Bitly];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            SourceFormat::Larder => "larder",
            SourceFormat::Yourls => "yourls",
            SourceFormat::Shlink => "shlink",
            SourceFormat::Bitly => "bitly",
        }
    }

    /// Its columns by name, in lower case. Those of other programs are written without spaces, `-` and `_` between the words.
    const fn columns(self) -> &'static [(&'static str, Column)] {
        use Column::*;
        match self {
            SourceFormat::Larder => &[
                ("name", Title),
                ("url", Url),
                ("title", Title),
                ("slug", Slug),
                ("tags", Tags),
                ("expires_at", ExpiresAt),
                ("max_visits", MaxVisits),
                ("forward_query", ForwardQuery),
                ("crawlable", Crawlable),
                ("created_at", CreatedAt),
                ("visits", Visits),
            ],
            SourceFormat::Yourls => &[("keyword", Slug), ("url", Url), ("title", Title)],
            SourceFormat::Shlink => {
                &[("shortcode", Slug), ("longurl", Url), ("title", Title), ("tags", Tags)]
            }
            SourceFormat::Bitly => &[
                ("longurl", Url),
                ("destination", Url),
                ("destinationurl", Url),
                ("customlink", OwnLink),
                ("custombitlink", OwnLink),
                ("link", Link),
                ("bitlink", Link),
                ("shortlink", Link),
                ("title", Title),
                ("tags", Tags),
            ],
        }
    }

    fn column(self, field: &[u8]) -> Option<Column> {
        let name = String::from_utf8_lossy(field).trim().to_lowercase();
        let name = match self {
            SourceFormat::Larder => name,
            _ => name.replace([' ', '_', '-'], ""),
        };
        self.columns().iter().find(|(known, _)| *known == name).map(|(_, column)| *column)
    }

    /// What separates tags in a field.
    const fn tag_separator(self) -> char {
        if matches!(self, SourceFormat::Shlink) { '|' } else { ',' }
    }

    /// Another format of whose exports this is the first row.
    fn of_other_program(first: &ByteRecord) -> Option<SourceFormat> {
        let others = [SourceFormat::Yourls, SourceFormat::Shlink, SourceFormat::Bitly];
        others.into_iter().find(|other| {
            let has = |wanted: &[Column]| {
                first.iter().any(|field| other.column(field).is_some_and(|own| wanted.contains(&own)))
            };
            has(&[Column::Url]) && has(&[Column::Slug, Column::OwnLink, Column::Link])
        })
    }

    /// How well a first row is that of a file of this format: the number of its known columns, or one for a link.
    pub(super) fn score(self, first: &ByteRecord) -> usize {
        let names = first.iter().filter(|field| self.column(field).is_some()).count();
        names.max(usize::from(self == SourceFormat::Larder && is_link(first)))
    }
}

impl FromStr for SourceFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<SourceFormat, String> {
        let found = SourceFormat::ALL.into_iter().find(|format| format.as_str() == text);
        let names = SourceFormat::ALL.map(SourceFormat::as_str).join(", ");
        found.ok_or_else(|| format!("the format is {text:?}, expected one of {names}"))
    }
}

/// The positions of the columns of a file.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    format: SourceFormat,
    positions: [Option<usize>; COLUMNS],
    count: usize,
}

impl Columns {
    /// The columns by the names in the first row; without names, `name,url`. Also whether the row has the names.
    pub(super) fn detect(first: &ByteRecord, format: SourceFormat) -> Result<(Columns, bool), ImportError> {
        let known: Vec<Option<Column>> = first.iter().map(|field| format.column(field)).collect();
        let is_header = known.iter().any(Option::is_some) || is_names(first);
        let mut columns = Columns { format, positions: [None; COLUMNS], count: first.len() };
        if format == SourceFormat::Larder && (is_link(first) || !is_header) {
            columns.positions[Column::Title as usize] = Some(0);
            columns.positions[Column::Url as usize] = Some(1);
            columns.count = 2;
            return Ok((columns, false));
        }
        for (index, column) in known.iter().enumerate() {
            let Some(column) = *column else { continue };
            if let Some(other) = columns.positions[column as usize].replace(index) {
                let names = [other, index].map(|index| name(&first[index]));
                return Err(ImportError::Columns(format!(
                    "the columns {} ({}) and {} ({}) mean the same; keep one",
                    names[0],
                    other + 1,
                    names[1],
                    index + 1
                )));
            }
        }
        columns.check(first, &known)?;
        Ok((columns, true))
    }

    /// Checks that a header has what its format needs, and of ours nothing else.
    fn check(&self, first: &ByteRecord, known: &[Option<Column>]) -> Result<(), ImportError> {
        let has = |column| self.at(column).is_some();
        let has_slug = has(Column::Slug) || has(Column::OwnLink) || has(Column::Link);
        let fields = first.iter().zip(known);
        let unknown: Vec<String> = fields
            .filter(|(field, known)| known.is_none() && !field.trim_ascii().is_empty())
            .map(|(field, _)| name(field))
            .collect();
        let problem = match self.format {
            SourceFormat::Larder if !unknown.is_empty() => {
                let (noun, verb) = if unknown.len() == 1 { ("column", "is") } else { ("columns", "are") };
                format!("the {noun} {} {verb} unknown", unknown.join(", "))
            }
            _ if !has(Column::Url) => "there is no column with the address".to_owned(),
            SourceFormat::Larder => return Ok(()),
            _ if has_slug => return Ok(()),
            _ => "there is no column with the slug".to_owned(),
        };
        let names: Vec<&str> = self.format.columns().iter().map(|(name, _)| *name).collect();
        let advice = match SourceFormat::of_other_program(first).filter(|other| *other != self.format) {
            Some(other) => format!("; --format {} reads this file", other.as_str()),
            None => String::new(),
        };
        let format = self.format.as_str();
        let known = names.join(", ");
        Err(ImportError::Columns(format!(
            "{problem}; the columns of the format {format} are {known}{advice}"
        )))
    }

    fn at(&self, column: Column) -> Option<usize> {
        self.positions[column as usize]
    }

    /// The link of a row, or the rule that it violates.
    pub(super) fn read(&self, record: &ByteRecord) -> Result<NewLink, String> {
        if record.len() != self.count {
            let hint =
                if record.len() > self.count { "; a separator inside a field needs quotes" } else { "" };
            return Err(format!("has {} columns, expected {}{hint}", record.len(), self.count));
        }
        // Our exports have apostrophes, and a slug in each row.
        let is_export = self.format == SourceFormat::Larder && self.at(Column::Slug).is_some();
        let text = |column: Column| {
            let Some(index) = self.at(column) else { return Ok("") };
            let field = std::str::from_utf8(&record[index]);
            let field = field.map_err(|_| format!("column {} is not UTF-8", index + 1))?;
            Ok::<_, String>(if is_export { without_apostrophe(field) } else { field }.trim())
        };
        let url = Address::parse(text(Column::Url)?).map_err(|error| format!("url {error}"))?;
        let title = check_title(text(Column::Title)?).map_err(|error| format!("name {}", error.message()))?;
        let links = [text(Column::OwnLink)?, text(Column::Link)?];
        let of_links = links.into_iter().find(|link| !link.is_empty()).unwrap_or_default();
        let slugs = [text(Column::Slug)?, of_links.rsplit('/').next().unwrap_or_default()];
        let slug = slugs.into_iter().find(|slug| !slug.is_empty());
        if let Some(slug) = slug {
            check_custom(slug).map_err(|error| format!("slug {error}"))?;
        }
        let options = self.options(text)?;
        Ok(NewLink { url, slug: slug.map(str::to_owned), title: title.to_owned(), options })
    }

    /// The options of a row; an empty field has its default.
    fn options<'a>(&self, text: impl Fn(Column) -> Result<&'a str, String>) -> Result<LinkOptions, String> {
        let mut fields = Map::new();
        let tags = text(Column::Tags)?;
        if !tags.is_empty() {
            let tags: Vec<&str> = tags.split(self.format.tag_separator()).collect();
            fields.insert("tags".into(), tags.into());
        }
        let expires_at = text(Column::ExpiresAt)?;
        if !expires_at.is_empty() {
            fields.insert("expires_at".into(), expires_at.into());
        }
        for (name, column) in [
            ("max_visits", Column::MaxVisits),
            ("forward_query", Column::ForwardQuery),
            ("crawlable", Column::Crawlable),
        ] {
            let value = text(column)?;
            if !value.is_empty() {
                // What is neither a number nor a boolean stays text, which is reported.
                let value =
                    serde_json::from_str(&value.to_ascii_lowercase()).unwrap_or_else(|_| Value::from(value));
                fields.insert(name.into(), value);
            }
        }
        input::options(&fields).map_err(|error| error.to_text())
    }
}

/// Whether a row is a name and an address.
fn is_link(record: &ByteRecord) -> bool {
    let address = record.get(1).and_then(|field| std::str::from_utf8(field).ok());
    record.len() == 2 && address.is_some_and(|address| Address::parse(address).is_ok())
}

/// Whether a row can only have names of columns: two words or more, and no address.
pub(super) fn is_names(record: &ByteRecord) -> bool {
    let is_name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-".contains(byte);
    let is_name =
        |field: &[u8]| !field.trim_ascii().is_empty() && field.trim_ascii().iter().all(is_name_byte);
    record.len() > 1 && record.iter().all(is_name)
}

/// The name of a column as a message shows it.
fn name(field: &[u8]) -> String {
    String::from_utf8_lossy(field)
        .trim()
        .chars()
        .take(64)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
