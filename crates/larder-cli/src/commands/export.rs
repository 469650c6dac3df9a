//! `larder links export` and `larder links backup`: the links as text, and the database as it is.

use crate::commands::token::open_store;
use crate::flags::{DatabaseFlag, ExportFlags};
use crate::options::settings::File;
use crate::output::PRINT_FAILURE;
use crate::parts::runtime;
use anyhow::{Context, Result};
use larder_links::Store;
use larder_links::export::{self, Export};
use std::io::ErrorKind;
use std::path::PathBuf;

pub(crate) fn run(flags: ExportFlags, file: File) -> Result<()> {
    let store = open_store(&flags.database, file, false)?;
    let path = flags.file.filter(|path| path.as_os_str() != "-");
    let written = runtime()?.block_on(async {
        let written = match &path {
            Some(path) => export::to_file(&store, flags.format, path).await,
            None => Export::new(store.clone(), flags.format).write_to(&mut std::io::stdout().lock()).await,
        };
        store.close().await;
        written
    });
    match (written, path) {
        // A reader such as `head` has enough.
        (Err(error), _) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        (written, Some(path)) => written.with_context(|| format!("cannot export to {}", path.display())),
        (written, None) => written.context(PRINT_FAILURE),
    }
}

pub(crate) fn backup(to: PathBuf, flag: &DatabaseFlag, file: File) -> Result<()> {
    let store: Store = open_store(flag, file, false)?;
    runtime()?.block_on(async {
        let copied = store.backup(to).await;
        store.close().await;
        Ok(copied?)
    })
}
