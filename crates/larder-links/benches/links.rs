//! Measures how fast a CSV file is imported, directly and through a server; the cost of a redirect inside the service; and
//! how many visits a second the database writes.
//!
//! ```text
//! cargo bench -p larder-links
//! ```
//!
//! Client and server share the machine's cores in the second figure.

use axum::body::Body;
use http::{Request, StatusCode};
use larder_links::import::{Destination, SourceFormat, import};
use larder_links::{Config, Deps, Links, OwnAddresses};
use std::fmt::Write;
use std::io::Cursor;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tower::ServiceExt;

const ROWS: usize = 200_000;
const REDIRECTS: u32 = 500_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut file = String::from("name,url\n");
    for n in 0..ROWS {
        writeln!(
            file,
            "Page {n} of the catalogue,https://shop.example.com/catalogue/{}/item?id={n}",
            n % 97
        )?;
    }

    let (_folder, links) = open()?;
    let database = Destination::Store { store: links.store().clone(), own: OwnAddresses::default() };
    let started = Instant::now();
    let report = import(Cursor::new(file.clone()), SourceFormat::Larder, database.clone(), |_| {}).await?;
    assert_eq!(report.progress.created, ROWS as u64);
    report_rate("import into the database", ROWS, started);

    let started = Instant::now();
    let report = import(Cursor::new(file.clone()), SourceFormat::Larder, database, |_| {}).await?;
    assert_eq!(report.progress.existing, ROWS as u64);
    report_rate("the same file once more", ROWS, started);

    redirects(&links).await?;
    links.stop().await?;

    let (_folder, links) = open()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let served = links.clone();
    let serving = tokio::spawn(async move { served.serve(listener, async { drop(stopped.await) }).await });
    let started = Instant::now();
    let report = import(
        Cursor::new(file),
        SourceFormat::Larder,
        Destination::Server { address: format!("http://{address}"), token: None },
        |_| {},
    )
    .await?;
    assert_eq!(report.progress.created, ROWS as u64);
    report_rate("import through a server", ROWS, started);
    drop(stop);
    serving.await??;
    Ok(())
}

/// One caller after the other, without sockets: the cost of routing, guard, cache, counting and the answer.
async fn redirects(links: &Links) -> Result<(), Box<dyn std::error::Error>> {
    let slug = links.store().slugs().encode(1).ok_or("no slug")?;
    let router = links.router();
    let started = Instant::now();
    for _ in 0..REDIRECTS {
        let request = Request::get(format!("/{slug}")).header("host", "localhost").body(Body::empty())?;
        let status = router.clone().oneshot(request).await?.status();
        assert_eq!(status, StatusCode::FOUND);
    }
    report_rate("redirects, one after the other", REDIRECTS as usize, started);
    let latency = links.stats().redirect_latency;
    println!(
        "{:>34}: p50 {:?}, p99 {:?}",
        "cache and counting alone",
        latency.quantile(0.5),
        latency.quantile(0.99)
    );

    let started = Instant::now();
    links.flush_visits().await?;
    println!("{:>34}: {:?}", "writing the visits that were left", started.elapsed());
    let link = links.store().find(&slug).await?.ok_or("no link")?;
    assert_eq!(link.visits, u64::from(REDIRECTS));
    Ok(())
}

fn open() -> Result<(tempfile::TempDir, Links), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let config =
        Config { database: folder.path().join("links.db").display().to_string(), ..Config::default() };
    let links = Links::open(config.clone(), Deps::open(&config)?)?;
    Ok((folder, links))
}

fn report_rate(what: &str, count: usize, started: Instant) {
    let took = started.elapsed();
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:>34}: {rate:>9.0} a second, {:.2} µs each", took.as_secs_f64() * 1e6 / count as f64);
}
