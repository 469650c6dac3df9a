//! `serve`: the servers that suites measure, each in a process of its own, so that its processor time is counted alone.
//!
//! The command is hidden: `bench run` starts these servers and ends them. A server listens on a free port of the loopback
//! address, writes `listening ADDRESS`, and ends when its standard input does, so that none outlives the bench.

mod found;
mod object;
mod page;
mod redirect;
mod resp;

use crate::source::{Origin, Place};
use crate::workload::Pairs;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use redirect::Design;
pub(crate) use redirect::READS_PATH;
use resp::Accept;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};

/// The first word of the line with the address.
pub(crate) const LISTENING: &str = "listening ";

/// Flags of the hidden command `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(subcommand)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum Server {
    /// GET and SET over one map behind one lock, as in document 3.
    Resp {
        /// Who serves a connection.
        #[arg(long)]
        accept: Accept,
        /// How many connections may wait to be accepted.
        #[arg(long)]
        backlog: u32,
    },
    /// The page of document 4.
    Page {
        /// Where its text comes from.
        #[arg(long)]
        origin: Origin,
        /// Store the response in front of the router.
        #[arg(long)]
        stored: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// The redirects of document 0.
    Redirect {
        /// Where a redirect comes from.
        #[arg(long)]
        design: Design,
        /// The number of links.
        #[arg(long)]
        links: usize,
        /// A CSV file of addresses to use instead of generated ones.
        #[arg(long)]
        pairs: Option<PathBuf>,
        /// The seed of the addresses.
        #[arg(long)]
        seed: u64,
        /// The Redis of the design `tiers`.
        #[arg(long, required_if_eq("design", "tiers"))]
        redis: Option<String>,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// The same redirect for every slug.
    Found,
    /// One large object, which is sent in pieces.
    Object {
        #[arg(long)]
        bytes: usize,
        /// Store the response while it is sent.
        #[arg(long)]
        stored: bool,
    },
    /// The cache server of this project, with its defaults.
    Larder {
        /// The address to listen on.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// The mini-redis of the Tokio tutorial.
    #[cfg(feature = "bench-peers")]
    MiniRedis,
}

/// The database: a new file of SQLite if nothing else is named.
#[derive(Debug, Args)]
struct DatabaseArgs {
    /// The folder with the socket of PostgreSQL.
    #[arg(long)]
    postgres: Option<PathBuf>,
}

impl DatabaseArgs {
    fn place(&self, folder: &TempDir) -> Place {
        match &self.postgres {
            Some(socket) => Place::Postgres(socket.clone()),
            None => Place::Sqlite(folder.path().to_owned()),
        }
    }
}

/// Serves until the standard input ends.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    end_with_parent()?;
    let folder = tempfile::tempdir()?;
    match &args.server {
        Server::Resp { accept, backlog } => resp::serve(*accept, *backlog),
        Server::Page { origin, stored, database } => page::serve(*origin, *stored, &database.place(&folder)),
        Server::Redirect { design, links, pairs, seed, redis, database } => {
            let pairs = Pairs::of(pairs.as_deref(), *links, *seed)?;
            redirect::serve(*design, &pairs, *links, redis.as_deref(), &database.place(&folder))
        }
        Server::Found => found::serve(),
        Server::Object { bytes, stored } => object::serve(*bytes, *stored),
        Server::Larder { listen } => larder(*listen),
        #[cfg(feature = "bench-peers")]
        Server::MiniRedis => runtime()?.block_on(async {
            let listener = listen(1_024)?;
            let served = mini_redis::server::run(listener, std::future::pending::<()>()).await;
            served.map_err(|error| anyhow::anyhow!(error))
        }),
    }
}

fn larder(listen: SocketAddr) -> Result<()> {
    runtime()?.block_on(async {
        let config = larder_server::Config { listen: Some(listen), ..Default::default() };
        let server = larder_server::Server::bind(config)?;
        announce(server.local_addr().context("the server has no address")?)?;
        Ok(server.run(std::future::pending()).await?)
    })
}

fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

/// Listens on a free port and announces it.
fn listen(backlog: u32) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = socket.listen(backlog)?;
    announce(listener.local_addr()?)?;
    Ok(listener)
}

fn announce(address: SocketAddr) -> Result<()> {
    larder_terminal::print(&format!("{LISTENING}{address}\n"))
}

/// Ends the process when the standard input ends: the parent holds its other end.
fn end_with_parent() -> Result<()> {
    let wait = || {
        _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(0);
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(wait)?;
    Ok(())
}
