//! `larder links copy`: moves a database file into a database of PostgreSQL.

use crate::output::print;
use crate::parts::runtime;
use anyhow::{Result, bail};
use larder_links::Config;
use larder_links::store::copy;

pub(crate) fn run(from: String, to: String) -> Result<()> {
    let address =
        |database| Config { database, ..Config::default() }.store_config().map(|store| store.database);
    let (from, to) = (address(from)?, address(to)?);
    let Some(file) = from.file() else {
        bail!("cannot copy from {from}: a copy is from a file to a database of PostgreSQL");
    };
    if !file.exists() {
        bail!("there is no database at {}", file.display());
    }
    let copied = runtime()?.block_on(copy(file, &to))?;
    print(&format!(
        "copied {} links, {} visits and {} tokens to {to}\n",
        copied.links, copied.visits, copied.tokens
    ))
}
