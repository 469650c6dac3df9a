//! `larder links` in a process of its own, with an admin port that tells what it has counted.

use crate::suite::documents::{Child, http};
use crate::suite::server::larder;
use crate::tool::free_address;
use anyhow::{Context, Result, bail};
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The most links in one request.
const BATCH: usize = 1_000;
/// How long the writer may take. It writes every second.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is counted of a visit beside the visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Details {
    None,
    /// Every dimension, for every visitor.
    All,
}

/// A running shortener with links.
pub(super) struct Shortener {
    pub(super) child: Child,
    admin: SocketAddr,
    database: PathBuf,
}

/// What a shortener has counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visits {
    /// Redirects that were sent.
    pub(super) redirects: u64,
    /// The sum of the visits of all links in the database.
    pub(super) in_database: u64,
    pub(super) dropped: u64,
}

impl Shortener {
    /// Starts one with a new database, and creates links in it: slugs and their addresses.
    pub(super) fn start(details: Details, links: &[(String, String)]) -> Result<Shortener> {
        let folder = tempfile::tempdir()?;
        let (address, admin) = (free_address()?, free_address()?);
        let (database, configuration) = (folder.path().join("links.db"), folder.path().join("larder.toml"));
        std::fs::write(&configuration, configure(details, folder.path())?)?;
        let mut command = Command::new(larder()?);
        command.arg("links").arg("--config").arg(configuration);
        command.args(["--listen", &address.to_string(), "--admin", &admin.to_string(), "--database"]);
        command.arg(format!("sqlite:{}", database.display()));
        let child = Child::silent(&mut command, address, folder)?;
        for batch in links.chunks(BATCH) {
            let items: Vec<_> = batch.iter().map(|(slug, url)| json!({ "slug": slug, "url": url })).collect();
            http::post_json(address, "/api/links/batch", &json!(items).to_string())?;
        }
        Ok(Shortener { child, admin, database })
    }

    /// Waits until every visit is in the database.
    pub(super) fn await_writer(&self) -> Result<()> {
        let start = Instant::now();
        while figure(&self.stats()?, "visits_waiting")? > 0 {
            if start.elapsed() > PATIENCE {
                bail!("the visits are not written within {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What it has counted since its start.
    pub(super) fn visits(&self) -> Result<Visits> {
        let stats = self.stats()?;
        let redirects = stats["tiers"][0]["operations"]["found"].as_u64().context("no redirects")?;
        let database = Connection::open_with_flags(&self.database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let sum = "SELECT coalesce(sum(visits), 0) FROM links";
        let in_database = database.query_row(sum, [], |row| row.get::<_, i64>(0))?.unsigned_abs();
        Ok(Visits { redirects, in_database, dropped: figure(&stats, "visits_dropped")? })
    }

    /// The statistics of the part `links`.
    fn stats(&self) -> Result<Value> {
        let response = http::get(self.admin, "/api/stats")?;
        let (_, body) = response.split_once("\r\n\r\n").context("the admin port does not answer")?;
        let mut stats: Value = serde_json::from_str(body).context("the admin port has sent no JSON")?;
        Ok(stats["parts"][0].take())
    }
}

fn figure(part: &Value, name: &str) -> Result<u64> {
    let mut figures = part["figures"].as_array().into_iter().flatten();
    let value = figures.find(|figure| figure["name"] == name).and_then(|figure| figure["value"].as_f64());
    Ok(value.with_context(|| format!("the shortener has no figure {name}"))? as u64)
}

/// The configuration, and the file with the countries that it names.
fn configure(details: Details, folder: &Path) -> Result<String> {
    if details == Details::None {
        return Ok("[links]\nvisit_details = \"none\"\n".to_owned());
    }
    let path = folder.join("countries.mmdb");
    write_countries(&path)?;
    Ok(format!("[links]\nvisit_details = \"all\"\ncountry_database = {:?}\n", path.display().to_string()))
}

/// A database of countries in which the loopback addresses have one.
fn write_countries(path: &Path) -> Result<()> {
    let mut database = Database::default();
    database.metadata.ip_version = IpVersion::V6;
    database.metadata.binary_format_major_version = 2;
    let country = database.insert_value(json!({ "country": { "iso_code": "NP" } }))?;
    // An IPv4 address is one of IPv6 whose first 96 bits are zero.
    let loopback = Ipv4Addr::LOCALHOST.to_ipv6_compatible();
    database.insert_node(IpAddrWithMask::new(IpAddr::V6(loopback), 104), country);
    Ok(std::fs::write(path, database.write_to(Vec::new())?)?)
}
