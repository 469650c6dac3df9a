//! Bulk import of links from a CSV file, into a running server or straight into a database.
//!
//! ```text
//! file ──► own thread: read, check, form batches ──► batches of up to 1,000 ──► server or store
//!                      wrong rows: line and reason                              each a commit, in file order
//! ```
//!
//! An import can be run again: a row whose name and address belong to a link already makes none.

mod client;
mod rows;

use crate::store::{Creation, NewLink, Repeats, Store, StoreError};
use client::Server;
use rows::{Batch, Rows};
use std::io::Read;
use tokio::sync::mpsc;

/// How many wrong rows a [`Report`] lists. All of them are counted.
pub const MAX_REPORTED_ROWS: usize = 1_000;

/// Where the links go.
#[derive(Clone)]
pub enum Destination {
    /// A running server.
    Server {
        /// Its address: `http://127.0.0.1:8080`.
        address: String,
        /// An API token with the scope write, if the server needs one.
        token: Option<String>,
    },
    /// A database, without a server. One that runs on the same database may answer 404 for a new link until its
    /// negative entry expires, by default up to 30 s.
    Store(Store),
}

/// How far an import has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows dealt with, without the header.
    pub rows: u64,
    /// Links made.
    pub created: u64,
    /// Rows whose link existed already.
    pub existing: u64,
    /// Rows that were wrong.
    pub invalid: u64,
    /// Bytes of the file dealt with. The end of the last line counts even if the file lacks it.
    pub bytes: u64,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The final counts.
    pub progress: Progress,
    /// The first [`MAX_REPORTED_ROWS`] rows that were wrong.
    pub invalid: Vec<InvalidRow>,
}

/// A row that made no link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRow {
    /// Its line in the file, counted from 1. A row with line ends inside quotes counts by its first line.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// Why an import ended early. The batches reported before it are in the database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The server's address is none, or is not plain HTTP.
    #[error("the server is {value}, expected http:// and a host, such as http://127.0.0.1:8080")]
    Address {
        /// What was given.
        value: String,
    },
    /// The token contains what a header cannot hold.
    #[error("the token contains characters that no token has")]
    Token,
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Read(#[from] csv::Error),
    /// The server does not answer, or refuses the whole batch.
    #[error("{uri} failed: {message}")]
    Server {
        /// The address that was asked.
        uri: String,
        /// What it said, or why it said nothing.
        message: String,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread that reads the file panicked.
    #[error("the file's reader ended early")]
    Reader,
}

/// What became of one link of a batch.
enum ItemResult {
    Created,
    Existing,
    Refused(String),
}

enum Sink {
    Server(Box<Server>),
    Store(Store),
}

/// Imports the rows `name,url` of a CSV file; the name becomes the title.
///
/// A first row that names its columns may have them in any order, among others. Rows that are wrong are reported and
/// do not end the import. `progress` is called after every batch.
///
/// # Errors
/// See [`ImportError`]. What was reported to `progress` before has been stored.
///
/// # Cancel safety
/// A dropped import may leave one more batch stored than it reported; running it again is harmless.
pub async fn import(
    source: impl Read + Send + 'static,
    destination: Destination,
    mut progress: impl FnMut(&Progress),
) -> Result<Report, ImportError> {
    let sink = match destination {
        Destination::Server { address, token } => {
            Sink::Server(Box::new(Server::new(&address, token.as_deref())?))
        }
        Destination::Store(store) => Sink::Store(store),
    };
    // Two batches in advance keep the reader and the sink busy; more would only take memory.
    let (sender, mut batches) = mpsc::channel(2);
    let reader = tokio::task::spawn_blocking(move || read(source, &sender));
    let mut report = Report::default();
    while let Some(batch) = batches.recv().await {
        let results = sink.send(&batch.links).await?;
        report.add(batch, results);
        progress(&report.progress);
    }
    reader.await.map_err(|_| ImportError::Reader)??;
    Ok(report)
}

fn read(source: impl Read, batches: &mpsc::Sender<Batch>) -> Result<(), csv::Error> {
    let mut rows = Rows::new(source);
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
            Sink::Store(store) => {
                let made = store.create(links.to_vec(), Repeats::Reuse).await?;
                let result = |creation| match creation {
                    Creation::Created(_) => ItemResult::Created,
                    Creation::Existing(_) => ItemResult::Existing,
                    Creation::SlugTaken => ItemResult::Refused("slug is taken".into()),
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
