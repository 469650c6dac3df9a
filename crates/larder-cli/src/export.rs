//! `larder links export` and `larder links backup`: the links as text, and the database as it is.

use crate::args::{DatabaseFlag, ExportFlags};
use crate::parts::runtime;
use crate::settings::File;
use crate::token::open_store;
use anyhow::{Context, Result};
use larder_links::Store;
use larder_links::export::Export;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

pub(crate) fn run(flags: ExportFlags, file: File) -> Result<()> {
    let store = open_store(&flags.database, file, false)?;
    let mut output: Box<dyn Write> = match &flags.file {
        None => Box::new(std::io::stdout().lock()),
        Some(path) => {
            let created = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
            Box::new(created.with_context(|| format!("cannot create {}", path.display()))?)
        }
    };
    let written = runtime()?.block_on(async {
        let written = write(Export::new(store.clone(), flags.format), &mut output).await;
        store.close().await;
        written
    });
    match written.as_ref().err().and_then(|error| error.downcast_ref::<std::io::Error>()) {
        // A reader such as `head` has enough.
        Some(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        _ => written,
    }
}

async fn write(mut export: Export, output: &mut dyn Write) -> Result<()> {
    while let Some(piece) = export.next().await? {
        output.write_all(&piece)?;
    }
    Ok(output.flush()?)
}

pub(crate) fn backup(to: PathBuf, flag: &DatabaseFlag, file: File) -> Result<()> {
    let store: Store = open_store(flag, file, false)?;
    runtime()?.block_on(async {
        let copied = store.backup(to).await;
        store.close().await;
        Ok(copied?)
    })
}
