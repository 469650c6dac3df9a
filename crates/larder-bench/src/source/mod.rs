//! The sources of document 4: where the text of a page comes from. The same code serves it over HTTP and is measured without.

mod actor;
mod database;

use actor::Actor;
use anyhow::{Context, Result};
use clap::ValueEnum;
pub(crate) use database::{Database, Place};
use larder_engine::Cache;
use std::sync::Arc;

/// Ten characters of three bytes, as in the document.
const PART: &str = "あいうえおかきくけこ";
const PARTS: usize = 10_000;
/// A page shows this many characters of the text.
const SHOWN: usize = 5;
const KEY: &str = "text";

/// Where the text of a page comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Origin {
    /// Built for each request.
    Built,
    /// Built when the program started.
    Precomputed,
    /// A row of a database, read through ten connections.
    Database,
    /// A task that asks the task that owns it.
    ActorBehindActor,
    /// A task that owns it.
    Actor,
    /// A task that looks it up in a table.
    TableBehindActor,
    /// A table that the caller looks it up in: the engine of this project.
    Table,
}

impl Origin {
    pub(crate) const ALL: [Origin; 7] = [
        Origin::Built,
        Origin::Precomputed,
        Origin::Database,
        Origin::ActorBehindActor,
        Origin::Actor,
        Origin::TableBehindActor,
        Origin::Table,
    ];

    pub(crate) fn subject(self) -> &'static str {
        match self {
            Origin::Built => "string built per request",
            Origin::Precomputed => "precomputed page",
            Origin::Database => "SQLite",
            Origin::ActorBehindActor => "actor behind an actor",
            Origin::Actor => "actor",
            Origin::TableBehindActor => "table behind an actor",
            Origin::Table => "table",
        }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("no origin is skipped").get_name().to_owned()
    }
}

/// An origin that is ready to be asked.
#[derive(Clone)]
pub(crate) enum Source {
    Built,
    Precomputed(Arc<str>),
    Database(Database),
    Actor(Actor),
    Table(Arc<Cache<&'static str, Arc<str>>>),
}

impl Source {
    /// Prepares an origin; actors are tasks of the current runtime. A database is created in `place`.
    pub(crate) async fn open(origin: Origin, place: &Place) -> Result<Source> {
        let text: Arc<str> = PART.repeat(PARTS).into();
        Ok(match origin {
            Origin::Built => Source::Built,
            Origin::Precomputed => Source::Precomputed(text),
            Origin::Database => Source::Database(Database::create(place, [(KEY.to_owned(), &*text)]).await?),
            Origin::Actor => Source::Actor(Actor::start(Source::Precomputed(text))),
            Origin::ActorBehindActor => {
                let owner = Actor::start(Source::Precomputed(text));
                Source::Actor(Actor::start(Source::Actor(owner)))
            }
            Origin::Table => Self::table(text)?,
            Origin::TableBehindActor => Source::Actor(Actor::start(Self::table(text)?)),
        })
    }

    fn table(text: Arc<str>) -> Result<Source> {
        let table = Cache::<&'static str, Arc<str>>::builder().entries(1_000).build()?;
        table.insert(KEY, text);
        Ok(Source::Table(Arc::new(table)))
    }

    /// The text.
    pub(crate) async fn text(&self) -> Result<Arc<str>> {
        Ok(match self {
            Source::Built => PART.repeat(PARTS).into(),
            Source::Precomputed(text) => text.clone(),
            Source::Database(database) => database.read(KEY).await?.context("the database lacks the text")?,
            // A task that asks another one has a future of unknown depth.
            Source::Actor(actor) => Box::pin(actor.ask()).await?,
            Source::Table(table) => table.get(KEY).context("the table lacks the text")?,
        })
    }
}

/// The page that shows the begin of a text.
pub(crate) fn page(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN).collect();
    format!(
        "<!doctype html><html lang=\"ja\"><head><meta charset=\"utf-8\"><title>bench</title></head><body>\
         <header><h1>phoenix-bench-caching</h1></header><main><p>{shown}</p></main></body></html>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_origin_has_the_same_text() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let place = Place::Sqlite(folder.path().to_owned());
        runtime.block_on(async {
            for origin in Origin::ALL {
                let text = Source::open(origin, &place).await.unwrap().text().await.unwrap();
                assert_eq!(text.len(), 300_000, "{origin:?}");
                assert!(page(&text).contains("<p>あいうえお</p>"));
            }
        });
    }
}
