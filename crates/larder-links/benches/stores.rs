//! Measures the two databases of the shortener beside each other: how fast links are created and found, visits are written
//! and texts are searched. The caches are left out: every lookup reads the database.
//!
//! ```text
//! cargo bench -p larder-links --bench stores                200,000 links, minutes
//! cargo bench -p larder-links --bench stores -- --quick     4,000 links, seconds
//! ```
//!
//! In each round one database is measured after the other, so that a slow moment of the machine meets both. The figures are
//! medians of the rounds. PostgreSQL is on the same machine, with its own defaults, over its Unix socket.

use larder_links::store::{
    CreateOutcome, DatabaseAddress, Duplicates, LinkOptions, ListQuery, NewLink, StoreConfig, TotalsOf,
    VisitBatch, VisitKey,
};
use larder_links::{Address, Store};
use larder_testkit::{POSTGRES_USER, PostgresServer};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ROUNDS: u64 = 11;
/// Callers that wait at the same time.
const CALLERS: u64 = 16;
/// Links in one transaction of an import, and in one batch of visits.
const IMPORTED: u64 = 1_000;
const VISITED: usize = 2_000;

/// How much is measured in a round.
struct Scale {
    links: u64,
    single_links: u64,
    lookups: u64,
}

/// A database with the links that were created in it.
struct Subject {
    name: &'static str,
    store: Store,
    /// Ids and slugs.
    links: Vec<(u64, String)>,
}

/// A line of the table: what, its unit, and one figure of each round for each database.
struct Line {
    what: &'static str,
    unit: &'static str,
    figures: Vec<Vec<f64>>,
}

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let scale = match quick {
        true => Scale { links: 4_000, single_links: 160, lookups: 1_600 },
        false => Scale { links: 200_000, single_links: 1_600, lookups: 16_000 },
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(&scale))
}

async fn run(scale: &Scale) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = DatabaseAddress::Sqlite(folder.path().join("links.db"));
    let mut subjects = vec![Subject::open("SQLite", file)?];
    let server = if PostgresServer::is_installed() { Some(PostgresServer::start()?) } else { None };
    match &server {
        Some(server) => {
            let address = DatabaseAddress::Postgres(server.url(POSTGRES_USER, "postgres"));
            subjects.push(Subject::open("PostgreSQL", address)?);
        }
        None => println!("PostgreSQL 15 is not installed, and is left out"),
    }

    // All links first: the other figures are those of a full database.
    let mut lines = vec![Line::new("links created, 1,000 in a transaction", "/s")];
    for _ in 0..scale.links / IMPORTED {
        lines[0].begin_round();
        for subject in &mut subjects {
            let took = subject.import().await?;
            lines[0].record(IMPORTED as f64 / took.as_secs_f64());
        }
    }
    if let Some(server) = &server {
        // As the server does by itself within a minute. Until then it may search by the wrong index.
        server.execute("postgres", "ANALYZE")?;
    }
    lines.extend([
        Line::new("links created one by one, by 16 callers", "/s"),
        Line::new("slugs looked up, by 16 callers", "/s"),
        Line::new("a batch of visits of 2,000 links", "ms"),
        Line::new("a search that finds one link", "ms"),
        Line::new("a search that finds every link", "ms"),
    ]);
    for round in 0..ROUNDS {
        lines[1..].iter_mut().for_each(Line::begin_round);
        for subject in &mut subjects {
            let took = subject.create(scale.single_links, round).await?;
            lines[1].record(scale.single_links as f64 / took.as_secs_f64());
            let took = subject.look_up(scale.lookups, round).await?;
            lines[2].record(scale.lookups as f64 / took.as_secs_f64());
            lines[3].record(milliseconds(subject.write_visits(round).await?));
            // The numbers of imported links, none of which is the beginning of another one.
            let rare = format!("item-{:07}.html", round * scale.links / ROUNDS);
            lines[4].record(milliseconds(subject.search(&rare, 1).await?));
            lines[5].record(milliseconds(subject.search("catalogue", 50).await?));
        }
    }

    let names: String = subjects.iter().map(|subject| format!("{:>12}", subject.name)).collect();
    println!("{:<42}{names}", format!("{} links", scale.links));
    lines.iter().for_each(Line::print);
    for subject in subjects {
        subject.store.close().await;
    }
    Ok(())
}

impl Subject {
    fn open(name: &'static str, address: DatabaseAddress) -> Result<Subject> {
        Ok(Subject { name, store: Store::open(&StoreConfig::of(address))?, links: Vec::new() })
    }

    /// Creates links in one transaction, as an import does.
    async fn import(&mut self) -> Result<Duration> {
        let first = self.links.len() as u64;
        let links = (first..first + IMPORTED).map(link).collect();
        let started = Instant::now();
        let outcomes = self.store.create(links, Duplicates::Allow).await?;
        let took = started.elapsed();
        for outcome in outcomes {
            let CreateOutcome::Created(link) = outcome else { return Err("a link was not created".into()) };
            self.links.push((link.id, link.slug));
        }
        Ok(took)
    }

    /// Creates links as requests do.
    async fn create(&self, count: u64, round: u64) -> Result<Duration> {
        // Far behind the imported ones.
        let first = 5_000_000 + round * count;
        self.call(count, move |store, index| async move {
            store.create(vec![link(first + index)], Duplicates::Allow).await?;
            Ok(())
        })
        .await
    }

    /// Looks slugs up as redirects do that are not in the cache.
    async fn look_up(&self, count: u64, round: u64) -> Result<Duration> {
        let slugs: std::sync::Arc<[String]> =
            (0..count).map(|index| self.links[self.scattered(index + round * count)].1.clone()).collect();
        self.call(count, move |store, index| {
            let slugs = slugs.clone();
            async move {
                let route = store.find_route(&slugs[index as usize]).await?;
                if route.is_some() { Ok(()) } else { Err("a link was not found".into()) }
            }
        })
        .await
    }

    /// Writes a visit of each of some links in one batch.
    async fn write_visits(&self, round: u64) -> Result<Duration> {
        let mut places: Vec<_> = (0..).map(|index| self.scattered(index + round)).take(VISITED).collect();
        places.sort_unstable();
        places.dedup();
        let key = |place: usize| VisitKey { link_id: self.links[place].0, quarter: round as i64 / 4 };
        let rows: Vec<_> = places.into_iter().map(|place| (key(place), 1)).collect();
        let count = rows.len() as u64;
        let batch = VisitBatch::new(rows);
        let started = Instant::now();
        let written = self.store.write_batch(&batch, TotalsOf::None).await?;
        let took = started.elapsed();
        if written.visits == count { Ok(took) } else { Err("visits were not written".into()) }
    }

    /// Searches a text, for a page of so many links.
    async fn search(&self, text: &str, expected: usize) -> Result<Duration> {
        let query = ListQuery { limit: 50, text: Some(text.to_owned()), ..ListQuery::default() };
        let started = Instant::now();
        let found = self.store.list(query).await?.links.len();
        let took = started.elapsed();
        if found == expected { Ok(took) } else { Err(format!("{text} finds {found} links").into()) }
    }

    /// The time that callers take for some calls together.
    async fn call<F, W>(&self, count: u64, work: F) -> Result<Duration>
    where
        F: Fn(Store, u64) -> W + Clone + Send + 'static,
        W: Future<Output = Result<()>> + Send,
    {
        let mut callers: JoinSet<Result<()>> = JoinSet::new();
        let started = Instant::now();
        for caller in 0..CALLERS {
            let (store, work) = (self.store.clone(), work.clone());
            callers.spawn(async move {
                for index in (caller..count).step_by(CALLERS as usize) {
                    work(store.clone(), index).await?;
                }
                Ok(())
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended??;
        }
        Ok(started.elapsed())
    }

    /// The place of a link that is far from those of its neighbours: a step that shares no factor with the counts above.
    fn scattered(&self, index: u64) -> usize {
        (index as usize).wrapping_mul(7_919) % self.links.len()
    }
}

impl Line {
    fn new(what: &'static str, unit: &'static str) -> Line {
        Line { what, unit, figures: Vec::new() }
    }

    fn begin_round(&mut self) {
        self.figures.push(Vec::new());
    }

    fn record(&mut self, figure: f64) {
        self.figures.last_mut().expect("a round has begun").push(figure);
    }

    /// The median of each database.
    fn print(&self) {
        let median = |subject: usize| {
            let mut figures: Vec<f64> = self.figures.iter().map(|round| round[subject]).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        let subjects = self.figures.first().map_or(0, Vec::len);
        let shown = |figure| match self.unit {
            "ms" => format!("{figure:>9.1} ms"),
            _ => format!("{figure:>10.0}/s"),
        };
        let medians: String = (0..subjects).map(|subject| shown(median(subject))).collect();
        println!("{:<42}{medians}", self.what);
    }
}

fn link(number: u64) -> NewLink {
    let url = format!("https://shop.example.com/catalogue/{}/item-{number:07}.html", number % 97);
    NewLink {
        url: Address::parse(&url).expect("the address is valid"),
        slug: None,
        title: format!("Page {number} of the shop"),
        options: LinkOptions::default(),
    }
}

fn milliseconds(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
