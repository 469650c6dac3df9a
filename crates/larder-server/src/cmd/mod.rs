//! The commands: one table, one file per command or small family, and what they have in common.
//!
//! To add one: write `fn name(cx: &mut Context<'_>, args: Args<'_>) -> Outcome` (parse, apply, reply) in the file of its
//! family, and give it a row in `table`. Dispatch, `COMMAND` and the docs follow from the row.

mod client;
mod command;
mod config;
mod counter;
mod edit;
mod error;
mod expire;
mod get;
mod handshake;
mod http;
mod key;
mod many;
mod options;
mod scan;
mod server;
mod session;
mod set;
mod spec;
mod table;

use larder_resp::{Args, Encoder};

use crate::db::Database;
use crate::gate::Lane;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::Tally;
pub(crate) use error::CommandError;
pub(crate) use http::is_http;
pub use spec::CommandSpec;
use spec::Flags;

/// What a command returns: its reply is written, or the error is to be.
pub(crate) type Outcome = Result<(), CommandError>;

/// What a command works with.
pub(crate) struct Context<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) session: &'a mut Session,
    tally: &'a mut Tally,
    out: &'a mut Vec<u8>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        session: &'a mut Session,
        tally: &'a mut Tally,
        out: &'a mut Vec<u8>,
    ) -> Self {
        Context { shared, session, tally, out }
    }

    /// The database that the connection has selected.
    fn db(&self) -> Database<'a> {
        self.shared.store.database(self.session.database())
    }

    fn reply(&mut self) -> Encoder<'_> {
        Encoder::new(self.out, self.session.protocol())
    }

    fn ok(&mut self) -> Outcome {
        self.reply().simple("OK");
        Ok(())
    }

    fn integer(&mut self, number: i64) -> Outcome {
        self.reply().integer(number);
        Ok(())
    }

    /// Server time in milliseconds of Unix time.
    fn now_ms(&self) -> i64 {
        self.shared.store.now_ms()
    }

    /// Makes the counts of this wake-up visible, for commands that show them.
    fn publish_tally(&mut self) {
        self.shared.stats.threads[self.session.client.thread].add(self.tally);
        *self.tally = Tally::default();
    }

    /// Counts a key that was looked for by a reading command.
    fn looked_up(&mut self, found: bool) {
        if found {
            self.tally.hits += 1;
        } else {
            self.tally.misses += 1;
        }
    }

    /// Whether the reply has grown beyond what a connection may hold. Commands whose reply is a product of their
    /// arguments stop then; the connection is closed.
    pub(crate) fn is_reply_too_large(&self) -> bool {
        self.out.len() as u64 > self.shared.config.max_reply_bytes.0
    }
}

/// All commands, sorted by name.
#[must_use]
pub fn commands() -> &'static [CommandSpec] {
    &table::TABLE
}

/// The lower-case name of the command at `index` of the table.
pub(crate) fn name_of(index: usize) -> Option<&'static str> {
    table::TABLE.get(index).map(|spec| spec.name)
}

/// Executes one request that has at least a name and writes its one reply. Returns the command's index in the table, if
/// there is such a command.
pub(crate) fn execute(cx: &mut Context<'_>, args: Args<'_>, lane: &mut Lane<'_>) -> Option<usize> {
    cx.tally.commands += 1;
    let found = table::find(&args[0]);
    let start = cx.out.len();
    let outcome = match found {
        Some(index) => run(&table::TABLE[index], cx, args, lane),
        None => Err(CommandError::unknown_command(args)),
    };
    if let Err(error) = outcome {
        cx.tally.errors += 1;
        cx.out.truncate(start);
        cx.reply().error(&error.to_string());
    }
    found
}

fn run(spec: &CommandSpec, cx: &mut Context<'_>, args: Args<'_>, lane: &mut Lane<'_>) -> Outcome {
    if !spec.accepts(args.len()) {
        return Err(CommandError::Arity(spec.name));
    }
    if !cx.session.authenticated && !spec.flags.contains(Flags::NO_AUTH) {
        return Err(CommandError::NoAuth);
    }
    match spec.flags.contains(Flags::EXCLUSIVE) {
        true => lane.exclusively(|| (spec.run)(cx, args)),
        false => (spec.run)(cx, args),
    }
}
