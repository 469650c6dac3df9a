//! `larder links import`: imports a CSV file, shows the progress, and lists the invalid rows.

use crate::args::ImportFlags;
use crate::parts::runtime;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use larder_links::import::{Destination, Report, import};
use larder_links::{Config, Store};
use std::fs::File;
use std::time::Instant;

/// The maximum number of invalid rows that are listed; all are counted.
const SHOWN_ROWS: usize = 20;

pub(crate) fn run(flags: ImportFlags) -> Result<()> {
    let name = flags.file.display().to_string();
    let file = File::open(&flags.file).with_context(|| format!("cannot open {name}"))?;
    let bar = progress_bar(file.metadata().with_context(|| format!("cannot read {name}"))?.len());
    let start = Instant::now();
    let report = runtime()?.block_on(async {
        let (destination, store) = destination(&flags)?;
        let imported = import(file, destination, |progress| {
            bar.set_message(format!("{} links", progress.created + progress.existing));
            bar.set_position(progress.bytes);
        })
        .await;
        if let Some(store) = store {
            store.close().await;
        }
        anyhow::Ok(imported?)
    })?;
    bar.finish_and_clear();
    print_report(&report, start.elapsed().as_secs_f64());
    if report.progress.rows > 0 && report.progress.invalid == report.progress.rows {
        bail!("{name} has no valid row");
    }
    Ok(())
}

/// The destination of the links, and the database to close afterwards.
fn destination(flags: &ImportFlags) -> Result<(Destination, Option<Store>)> {
    let Some(database) = &flags.database else {
        let (address, token) = (flags.server.clone(), flags.token.clone());
        return Ok((Destination::Server { address, token }, None));
    };
    let config = Config { database: database.clone(), ..Config::default() };
    config.validate()?;
    let store = Store::open(&config.store_config()?)?;
    Ok((Destination::Store(store.clone()), Some(store)))
}

fn progress_bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}  {elapsed} (about {eta} left)");
    ProgressBar::new(bytes).with_style(style.expect("the template is valid"))
}

fn print_report(report: &Report, seconds: f64) {
    let progress = report.progress;
    let per_second = progress.rows as f64 / seconds.max(0.001);
    println!(
        "{} rows in {seconds:.1} s ({per_second:.0} a second): {} links created, {} existed, {} rows invalid",
        progress.rows, progress.created, progress.existing, progress.invalid
    );
    for row in report.invalid.iter().take(SHOWN_ROWS) {
        println!("  line {}: {}", row.line, row.reason);
    }
    let hidden = progress.invalid.saturating_sub(report.invalid.len().min(SHOWN_ROWS) as u64);
    if hidden > 0 {
        println!("  and {hidden} more");
    }
}
