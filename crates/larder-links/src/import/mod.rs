//! Bulk import of links from a CSV or JSON file, into a running server or directly into a database.
//!
//! ```text
//! file ──► own thread: read, check, form batches ──► batches of up to 1,000 ──► server or store
//!                      invalid rows: line and reason                            each a commit, in file order
//! ```
//!
//! An import can be repeated: a row with the name and address of an existing link creates none. An
//! [export](crate::service::export) is read with its slugs and options.

mod client;
mod columns;
mod encoding;
mod json;
mod rows;

use crate::service::hosts::OwnAddresses;
use crate::store::{CreateOutcome, Duplicates, NewLink, Store, StoreError};
use client::Server;
pub use columns::SourceFormat;
use encoding::Decoded;
use rows::{Batch, Rows};
use std::io::{BufRead, BufReader, Read};
use tokio::sync::mpsc;

/// How many invalid rows a [`Report`] lists. All of them are counted.
pub const MAX_REPORTED_ROWS: usize = 1_000;

/// The destination of an import.
#[derive(Clone)]
pub enum Destination {
    /// A running server.
    Server {
        /// Its address: `http://127.0.0.1:8080`.
        address: String,
        /// An API token with the scope write, if the server needs one.
        token: Option<String>,
    },
    /// A database, without a server. A server on the same database may respond with 404 to a new link until its negative
    /// entry expires, by default up to 30 s.
    Store {
        /// The database.
        store: Store,
        /// Where its shortener is reached. A server refuses links to itself, which could be redirect loops; here there is
        /// none, so that an address that is not among these is accepted.
        own: OwnAddresses,
    },
}

/// The progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows processed, without the header.
    pub rows: u64,
    /// Links created.
    pub created: u64,
    /// Rows whose link existed before.
    pub existing: u64,
    /// Invalid rows.
    pub invalid: u64,
    /// Bytes of the text processed, in UTF-8. The end of the last line counts even if the file lacks it.
    pub bytes: u64,
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The final counts.
    pub progress: Progress,
    /// The first [`MAX_REPORTED_ROWS`] invalid rows.
    pub invalid: Vec<InvalidRow>,
}

/// An invalid row, which created no link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRow {
    /// Its line in the file, counted from 1. A row with line ends inside quotes counts by its first line.
    pub line: u64,
    /// The rule that it violates.
    pub reason: String,
}

/// Why an import failed. The batches that `progress` reported are in the database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The server's address is none, or is not plain HTTP.
    #[error("the server is {value}, expected http:// and a host, such as http://127.0.0.1:8080")]
    Address {
        /// The given value.
        value: String,
    },
    /// The token contains characters that no header can contain.
    #[error("the token contains characters that no token has")]
    Token,
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Read(#[from] csv::Error),
    /// The columns of a CSV file are not those of the format.
    #[error("{0}")]
    Columns(String),
    /// A JSON array has the links of this program alone.
    #[error("the file is a JSON array; the format {format} is CSV", format = .0.as_str())]
    NotCsv(SourceFormat),
    /// The file begins like JSON and is not, or it cannot be read.
    #[error("cannot read the file as a JSON array: {0}")]
    Json(#[from] serde_json::Error),
    /// The file is a JSON object.
    #[error("the file is a JSON object; expected a JSON array or CSV with the columns name and url")]
    Object,
    /// The server does not respond, or rejects the whole batch.
    #[error("{uri} failed: {message}")]
    Server {
        /// The address of the request.
        uri: String,
        /// The server's message, or why there is none.
        message: String,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread that reads the file panicked.
    #[error("the thread that reads the file panicked")]
    Reader,
}

/// The result of one link of a batch.
enum ItemResult {
    Created,
    Existing,
    Refused(String),
}

enum Sink {
    Server(Box<Server>),
    Store { store: Store, own: OwnAddresses },
}

/// Imports the rows `name,url` of a CSV file, whose name becomes the title, or the objects of a JSON array.
///
/// A header row allows any order of columns, and those of an [export](crate::service::export), which are read, but for `created_at` and
/// `visits`. A column that the format does not know is an error, unless the format is that of another program, whose further
/// columns are left out. Columns are separated by `,`, `;` or a tab. The text is UTF-8, UTF-16, or Windows-1252, which is
/// Latin-1 and more. Invalid rows are reported and do not end the import. `progress` runs after every batch.
///
/// # Errors
/// See [`ImportError`]. Everything that `progress` reported is stored: after a fault in the file all valid rows before it.
///
/// # Cancel safety
/// A dropped import may store one more batch than it reported; a repeated import is harmless.
pub async fn import(
    source: impl Read + Send + 'static,
    format: SourceFormat,
    destination: Destination,
    mut progress: impl FnMut(&Progress),
) -> Result<Report, ImportError> {
    let sink = match destination {
        Destination::Server { address, token } => {
            Sink::Server(Box::new(Server::new(&address, token.as_deref())?))
        }
        Destination::Store { store, own } => Sink::Store { store, own },
    };
    // Two batches in advance keep the reader and the sink busy; more would only use memory.
    let (sender, mut batches) = mpsc::channel(2);
    let reader = tokio::task::spawn_blocking(move || read(source, format, &sender));
    let mut report = Report::default();
    while let Some(mut batch) = batches.recv().await {
        if let Sink::Store { own, .. } = &sink {
            batch.refuse(own);
        }
        let results = sink.send(&batch.links).await?;
        report.add(batch, results);
        progress(&report.progress);
    }
    reader.await.map_err(|_| ImportError::Reader)??;
    Ok(report)
}

fn read(source: impl Read, format: SourceFormat, batches: &mpsc::Sender<Batch>) -> Result<(), ImportError> {
    let mut source = BufReader::new(Decoded::new(source));
    let start = source.fill_buf().map_err(csv::Error::from)?;
    match start.trim_ascii_start().first() {
        Some(b'[') if format != SourceFormat::Larder => return Err(ImportError::NotCsv(format)),
        Some(b'[') => return Ok(json::read(source, |batch| batches.blocking_send(batch).is_ok())?),
        Some(b'{') => return Err(ImportError::Object),
        _ => {}
    }
    let mut rows = Rows::new(source, format)?;
    while let Some(batch) = rows.next_batch()? {
        if batches.blocking_send(batch).is_err() {
            break;
        }
    }
    Ok(())
}

impl Sink {
    async fn send(&self, links: &[NewLink]) -> Result<Vec<ItemResult>, ImportError> {
        if links.is_empty() {
            return Ok(Vec::new());
        }
        match self {
            Sink::Server(server) => server.send(links).await,
            Sink::Store { store, .. } => {
                let made = store.create(links.to_vec(), Duplicates::Reuse).await?;
                let result = |creation| match creation {
                    CreateOutcome::Created(_) => ItemResult::Created,
                    CreateOutcome::Existing(_) => ItemResult::Existing,
                    CreateOutcome::SlugTaken => ItemResult::Refused("slug is taken".into()),
                };
                Ok(made.into_iter().map(result).collect())
            }
        }
    }
}

impl Report {
    fn add(&mut self, batch: Batch, results: Vec<ItemResult>) {
        self.progress.rows += (batch.links.len() + batch.invalid.len()) as u64;
        self.progress.bytes = batch.bytes_read;
        let mut wrong = batch.invalid;
        for (line, result) in batch.lines.into_iter().zip(results) {
            match result {
                ItemResult::Created => self.progress.created += 1,
                ItemResult::Existing => self.progress.existing += 1,
                ItemResult::Refused(reason) => wrong.push(InvalidRow { line, reason }),
            }
        }
        wrong.sort_by_key(|row| row.line);
        self.progress.invalid += wrong.len() as u64;
        self.invalid.extend(wrong.into_iter().take(MAX_REPORTED_ROWS - self.invalid.len()));
    }
}
