//! A cache server that speaks the Redis protocol: point an existing client at it.
//!
//! ```no_run
//! use larder_server::{Config, Server};
//!
//! # async fn demo() -> Result<(), larder_server::ServerError> {
//! let server = Server::bind(Config { listen: Some("127.0.0.1:0".parse().unwrap()), ..Config::default() })?;
//! println!("listening on {:?}", server.local_addr());
//! server.run(std::future::pending()).await
//! # }
//! ```
//!
//! # The life of a request
//!
//! ```text
//!  acceptor ── new socket ──▶ the first thread that is not overloaded (connections move to balance the threads)
//!                               │ one wake-up:
//!                               │   read into the thread's buffer ─▶ parse in place ─▶ execute the whole pipeline
//!                               │   one write for all replies
//!                               ▼
//!                             Store: one keyspace for all threads, bounded by bytes; entries expire and are evicted
//! ```
//!
//! Unlike Redis this is a cache by default: `maxmemory` is half of the machine's (or the cgroup's) memory and entries are
//! evicted by a frequency-aware policy, reported as `allkeys-lfu`; with another [`MemoryPolicy`] it refuses instead. There
//! is no replication, and of persistence a [snapshot](Config::snapshot) from one clean end to the next start.
//!
//! # Guarantees
//!
//! - A command is atomic, also on several keys, except those that visit all of them: `KEYS`, `SCAN`, `FLUSHALL`,
//!   `FLUSHDB`. So is a transaction (`EXEC`), with all its commands. The commands of one connection run in order. After the reply, the effect is
//!   visible to all clients.
//! - Invalid input gets an error reply and the connection stays open, unless framing is lost.
//! - If a client does not read its replies, the server stops reading its requests. One connection buffers at most
//!   [`Config::max_reply_bytes`] of replies, and all together at most [`Config::max_client_memory`]. What announces more is
//!   refused before memory is allocated for it.
//! - Browsers cannot use the server: a connection that sends HTTP is closed before a command is executed.

mod client;
mod cmd;
mod config;
mod db;
mod error;
mod net;
mod observers;
#[cfg(feature = "scripts")]
mod script;
mod server;
mod spec;
mod state;
mod stats;
mod system;
mod users;
mod values;

pub use cmd::commands;
pub use config::{ClientCertificates, Config, Password};
pub use db::snapshot::WRITE_LIMIT as SNAPSHOT_WRITE_LIMIT;
pub use db::{KeyInspection, MemoryPolicy, MemoryPolicyError, Store};
pub use error::{ServerError, SnapshotError};

pub use larder_engine::stats::{MissCauses, TopKey};
pub use larder_text::ByteSize;
pub use server::{CertificateHandle, CopyError, CopyHandle, Listeners, Server};
pub use spec::CommandSpec;
pub use state::{CopySource, CopyState};
pub use stats::{MAX_TOP_KEYS, ServerStats, StatsHandle};
pub use system::raise_open_files;
