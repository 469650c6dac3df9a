//! The commands: one table, a room for each group of commands, and what all of them use.
//!
//! ```text
//! dispatch ─► table ─► strings, keys, hash, list, set, zset, stream, connection, admin, cluster ─► context ─► session ─► queue, tracking
//!    ▲          │                                                         └─► the work of long commands: slices
//!    └──────────┴── atomic: transactions and scripts dispatch commands themselves
//! ```
//!
//! To add one: write `fn name(cx: &mut Context<'_>, args: Args<'_>) -> Outcome` (parse, apply, reply) in the file of
//! its family, and add a row to `table`. Dispatch, `COMMAND`, statistics and notifications use that row: what the server does
//! differently for a command is a property in it, see [`crate::spec`].

mod admin;
mod atomic;
mod blocking;
mod cluster;
mod connection;
mod context;
mod dispatch;
mod error;
mod hash;
mod help;
mod keys;
mod list;
mod options;
mod queue;
mod rights;
mod sample;
mod session;
mod set;
mod slices;
mod stream;
mod strings;
mod table;
#[cfg(test)]
pub(crate) mod test_support;
mod tracking;
mod zset;

use crate::spec::CommandSpec;
pub(crate) use connection::http::is_http;
pub(crate) use context::{Context, Outcome};
pub(crate) use dispatch::pause::{slice_waits, waits};
pub(crate) use dispatch::{dispatch, is_short};
pub(crate) use error::CommandError;
pub(crate) use session::{Session, TurnEnd};
pub(crate) use slices::run_slice;

/// All commands, sorted by name.
#[must_use]
pub fn commands() -> &'static [CommandSpec] {
    &table::SPECS
}
