//! `larder links import`: imports a CSV file, shows the progress, and lists the invalid rows.

use crate::flags::{ImportFlags, LinksFlags, LinksOptions};
use crate::options::settings;
use crate::output::print;
use crate::parts::{database_error, runtime};
use anyhow::{Context, Error, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use larder_links::import::{Destination, ImportError, Progress, Report, import};
use larder_links::{OwnAddresses, Store};
use std::fs::File;
use std::time::Instant;

/// The maximum number of invalid rows that are listed; all are counted.
const SHOWN_ROWS: usize = 20;

/// Of `shortener`, the flags of `larder links`, the environment may have set some.
pub(crate) fn run(flags: ImportFlags, shortener: LinksFlags, settings: settings::File) -> Result<()> {
    let name = flags.file.display().to_string();
    let file = File::open(&flags.file).with_context(|| format!("cannot open {name}"))?;
    let metadata = file.metadata().with_context(|| format!("cannot read {name}"))?;
    if metadata.is_dir() {
        bail!("cannot read {name}: it is a folder, expected a file");
    }
    let bar = progress_bar(metadata.len());
    let start = Instant::now();
    let report = runtime()?.block_on(async {
        let format = flags.format;
        let (destination, store) = destination(flags, shortener, settings)?;
        let mut stored = Progress::default();
        let imported = import(file, format, destination, |progress| {
            stored = *progress;
            bar.set_message(format!("{} links", progress.created + progress.existing));
            bar.set_position(progress.bytes);
        })
        .await;
        if let Some(store) = store {
            store.close().await;
        }
        imported.map_err(|error| incomplete(error, stored))
    })?;
    bar.finish_and_clear();
    print(&text(&report, start.elapsed().as_secs_f64()))?;
    if report.progress.rows > 0 && report.progress.invalid == report.progress.rows {
        bail!("{name} has no valid row");
    }
    Ok(())
}

/// The destination of the links, and the database to close afterwards.
fn destination(
    flags: ImportFlags,
    shortener: LinksFlags,
    settings: settings::File,
) -> Result<(Destination, Option<Store>)> {
    if flags.database.is_none() {
        let address = settings.links_url(flags.server);
        return Ok((Destination::Server { address, token: flags.token }, None));
    }
    let listeners = settings.links_listeners(shortener.listen);
    // The rest of the options is of no importance to an import, even if it is wrong.
    let LinksOptions { public_url, allow_hosts, .. } = shortener.options;
    let options =
        LinksOptions { database: flags.database, public_url, allow_hosts, ..LinksOptions::default() };
    let flags = LinksFlags { options, ..LinksFlags::default() };
    let settings::Links { config, sources, .. } = settings.links(flags)?;
    config.validate().map_err(|error| sources.of_links(error))?;
    let own = OwnAddresses::new(&config, listeners)?;
    let opened = Store::open(&config.store_config()?);
    let store = opened.map_err(|error| database_error(error.into(), &config, &sources))?;
    Ok((Destination::Store { store: store.clone(), own }, Some(store)))
}

/// Why an import ended early, and what it has stored until then.
fn incomplete(error: ImportError, stored: Progress) -> Error {
    match stored {
        Progress { rows: 0, .. } => error.into(),
        Progress { created, existing, .. } => anyhow!(
            "{error}; before that {created} links were created and {existing} existed: \
             import the file again when it is right, no link is created twice"
        ),
    }
}

fn progress_bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}  {elapsed} (about {eta} left)");
    ProgressBar::new(bytes).with_style(style.expect("the template is valid"))
}

/// The report for people.
fn text(report: &Report, seconds: f64) -> String {
    let progress = report.progress;
    let per_second = progress.rows as f64 / seconds.max(0.001);
    let mut text = format!(
        "{} rows in {seconds:.1} s ({per_second:.0} a second): {} links created, {} existed, {} rows invalid\n",
        progress.rows, progress.created, progress.existing, progress.invalid
    );
    for row in report.invalid.iter().take(SHOWN_ROWS) {
        text += &format!("  line {}: {}\n", row.line, row.reason);
    }
    let hidden = progress.invalid.saturating_sub(report.invalid.len().min(SHOWN_ROWS) as u64);
    if hidden > 0 {
        text += &format!("  and {hidden} more\n");
    }
    text
}
