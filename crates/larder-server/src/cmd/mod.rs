//! The commands: one table, one file per command or small family, and their common code.
//!
//! To add one: write `fn name(cx: &mut Context<'_>, args: Args<'_>) -> Outcome` (parse, apply, reply) in the file of
//! its family, and add a row to `table`. Dispatch, `COMMAND` and the docs use that row.

pub(crate) mod admin;
mod atomic;
mod connection;
mod error;
mod help;
mod keys;
mod memory;
mod options;
pub(crate) mod session;
mod spec;
mod special;
mod strings;
mod table;
#[cfg(test)]
pub(crate) mod test_support;
mod visit;
mod zset;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use larder_engine::stats::Sampled;
use larder_resp::{Args, Encoder};

use crate::client::Paused;
use crate::cmd::session::Session;
use crate::db::{Database, HeldLocks, LockedKeys};
use crate::observers::{Notice, Origin};
use crate::state::ServerState;
use crate::stats::CommandCounters;
use crate::stats::Counts;
use crate::values::large::{self, LARGE_BYTES};
pub(crate) use atomic::transaction::Transaction;
pub(crate) use connection::client_tracking::Tracking;
pub(crate) use connection::http::is_http;
pub(crate) use error::CommandError;
pub use spec::CommandSpec;
use spec::Flags;
pub(crate) use visit::Visit;

/// The result of a command: `Ok` if it has written its reply, else the error to reply with.
pub(crate) type Outcome = Result<(), CommandError>;

/// The context of a command.
pub(crate) struct Context<'a> {
    pub(crate) state: &'a ServerState,
    pub(crate) session: &'a mut Session,
    /// The locks of the transaction that the command is part of.
    held: Option<&'a dyn HeldLocks>,
    counts: &'a mut Counts,
    out: &'a mut Vec<u8>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        state: &'a ServerState,
        session: &'a mut Session,
        counts: &'a mut Counts,
        out: &'a mut Vec<u8>,
    ) -> Self {
        Context { state, session, held: None, counts, out }
    }

    /// The database that the connection has selected.
    fn db(&self) -> Database<'a> {
        self.database(self.session.database())
    }

    /// Locks these keys of the selected database.
    fn lock<'n, N: IntoIterator<Item = &'n [u8]>>(&self, names: N) -> (Database<'a>, LockedKeys<'a>) {
        let db = self.db();
        (db, db.lock(names))
    }

    /// A database by its index.
    fn database(&self, index: u8) -> Database<'a> {
        self.state.store.database(index).with_locks(self.held).used_by(self.origin())
    }

    /// Who executes which command.
    #[inline]
    fn origin(&self) -> Origin {
        let client = Arc::as_ptr(&self.session.client) as usize;
        Origin { client, command: self.session.last_command }
    }

    fn reply(&mut self) -> Encoder<'_> {
        Encoder::new(self.out, self.session.protocol())
    }

    /// Counts an error.
    fn count_error(&mut self, prefix: &str) {
        self.counts.errors += 1;
        self.state.stats.count_error(prefix);
    }

    /// Replaces the reply that starts at an offset by an error, and counts it.
    fn reply_error(&mut self, start: usize, error: &CommandError) {
        self.count_error(error.prefix());
        self.truncate_replies(start);
        self.reply().error(&error.to_string());
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
        self.state.store.now_ms()
    }

    /// Adds the counts of this wake-up to the statistics, for commands that report them.
    fn publish_counts(&mut self) {
        self.state.stats.threads[self.session.client.thread()].add(self.counts);
        *self.counts = Counts::default();
    }

    /// The counters of the command at `index` of the table, on this thread.
    #[inline]
    fn counters(&self, index: usize) -> &'a CommandCounters {
        self.state.stats.threads[self.session.client.thread()].command(index)
    }

    /// Counts a lookup of a read command.
    #[inline]
    fn count_lookup(&mut self, key: &[u8], found: bool) {
        if found {
            self.counts.hits += 1;
            if let Some(sampled) = Sampled::draw() {
                self.record_key(sampled, key);
            }
        } else {
            self.counts.misses += 1;
        }
    }

    #[cold]
    fn record_key(&self, sampled: Sampled, key: &[u8]) {
        self.state.stats.threads[self.session.client.thread()].keys.record_sampled(sampled, key);
    }

    /// The context of a command in a transaction, which holds these locks.
    fn with_locks<'b>(&'b mut self, locks: &'b dyn HeldLocks) -> Context<'b> {
        Context {
            state: self.state,
            session: &mut *self.session,
            held: Some(locks),
            counts: &mut *self.counts,
            out: &mut *self.out,
        }
    }

    /// Tells observers, or at the end of the script that the command is part of.
    fn tell(&self, notice: Notice) {
        match self.held.and_then(HeldLocks::deferred) {
            None => self.state.store.observers.tell(notice),
            Some(deferred) => deferred.push(notice),
        }
    }

    /// Makes `EXEC` fail, if the connection is in a transaction.
    fn abort_transaction(&mut self) {
        self.session.transaction().into_iter().for_each(Transaction::abort);
    }

    /// Runs a command that visits every entry to its end.
    fn finish_visit(&mut self) {
        while let Some(visit) = self.session.visit.take() {
            continue_visit(self, visit);
        }
    }

    /// Sends the messages that have arrived ahead of the reply, which starts at the offset `at`.
    fn take_mail(&mut self, at: usize) {
        if self.session.client.has_mail() {
            let before = self.out.len();
            self.session.client.take_mail(self.out, at);
            self.session.large_replies.shift(at, self.out.len() - before);
        }
    }

    /// Registers the connection again for keys that it has read, if it tracks keys. They are locked.
    #[cfg(feature = "scripts")]
    fn track_reads(&self, names: &[Box<[u8]>]) {
        if let Some(tracking) = self.session.tracking() {
            names.iter().for_each(|name| tracking.register(name));
        }
    }

    /// Drops the reply that starts at an offset, if the connection wants none.
    fn drop_muted_reply(&mut self, start: usize) {
        if self.session.is_muted {
            self.truncate_replies(start);
        }
    }

    /// Sends the messages about keys that this connection tracks and has changed itself.
    fn write_own_invalidations(&mut self) {
        if let Some(tracking) = self.session.tracking() {
            let tracker = Arc::clone(tracking.tracker());
            tracker.write_own(&mut self.reply());
        }
    }

    /// Cuts the replies off at an offset.
    fn truncate_replies(&mut self, start: usize) {
        self.out.truncate(start);
        self.session.large_replies.truncate(start);
    }

    /// Replies with a part of a string, without a copy if it is large.
    fn reply_part(&mut self, value: Arc<[u8]>, range: Range<usize>) {
        // A script reads its replies.
        let is_script = self.held.is_some_and(|held| held.deferred().is_some());
        if range.len() < LARGE_BYTES || is_script {
            self.reply().bulk(&value[range]);
            return large::release(value);
        }
        self.reply().bulk_header(range.len());
        self.session.large_replies.push(self.out.len(), value, range);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Whether the reply exceeds the limit. Commands that repeat values must stop then.
    fn is_reply_too_large(&self) -> bool {
        self.check_reply(0).is_err()
    }

    /// Checks the reply with so many bytes that are not written yet. That of a transaction or a script has those of its
    /// commands so far.
    ///
    /// # Errors
    /// It exceeds the limit. The error takes its place.
    fn check_reply(&self, bytes: u64) -> Outcome {
        let limit = self.state.max_reply_bytes();
        if self.reply_bytes().saturating_add(bytes) > limit {
            Err(CommandError::ReplyTooLarge(limit))
        } else {
            Ok(())
        }
    }

    /// Bytes by which the reply may become longer. A command that changes what it replies with checks them before.
    fn reply_bytes_left(&self) -> u64 {
        self.state.max_reply_bytes().saturating_sub(self.reply_bytes())
    }

    fn reply_bytes(&self) -> u64 {
        self.out.len().saturating_sub(self.session.reply_start) as u64 + self.session.large_replies.bytes()
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

/// Whether a request takes about as long as any other one: replies of other connections may wait for it.
#[inline]
pub(crate) fn is_short(args: Args<'_>) -> bool {
    const MAX_ARGS: usize = 8;
    (1..=MAX_ARGS).contains(&args.len())
        && table::find(&args[0]).is_some_and(|index| {
            let spec = &table::TABLE[index];
            spec.flags.contains(Flags::FAST) || spec.name == "set"
        })
}

/// Whether a command has to wait for the end of a pause.
#[cold]
pub(crate) fn waits(session: &mut Session, args: Args<'_>, paused: Paused) -> bool {
    let spec = table::find(&args[0]).map(|index| &table::TABLE[index]);
    match paused {
        Paused::All => spec.is_none_or(|spec| spec.name != "client"),
        Paused::Writes => spec.is_some_and(|spec| match spec.name {
            "exec" => session.transaction().is_some_and(|transaction| transaction.writes()),
            _ if session.transaction().is_some() => false,
            _ => spec.may_write(),
        }),
    }
}

/// Whether a command that is not at its end has to wait for the end of a pause.
#[cold]
pub(crate) fn visit_waits(session: &Session, paused: Paused) -> bool {
    let Some(spec) = session.last_command.map(|index| &table::TABLE[index]) else { return false };
    let is_paused = match paused {
        Paused::All => spec.name != "client",
        Paused::Writes => spec.may_write(),
    };
    session.visit.is_some() && is_paused
}

/// Executes one non-empty request and writes its reply.
pub(crate) fn execute(cx: &mut Context<'_>, args: Args<'_>) {
    cx.counts.commands += 1;
    let index = table::find(&args[0]);
    cx.session.last_command = index.or(cx.session.last_command);
    cx.session.reply_start = cx.out.len();
    match index {
        Some(index) if !cx.session.is_special() => answer(cx, Some(index), |cx| run(index, cx, args)),
        _ => special::execute(cx, index, args),
    }
}

/// Writes the reply of a command, or its error. `index` is its position in the table, if it is there.
#[inline]
fn answer(cx: &mut Context<'_>, index: Option<usize>, run: impl FnOnce(&mut Context<'_>) -> Outcome) {
    let start = cx.out.len();
    if let Err(error) = run(cx).and_then(|()| cx.check_reply(0)) {
        index.into_iter().for_each(|index| cx.counters(index).errors.add(1));
        cx.reply_error(start, &error);
    }
}

/// Executes the command at `index` of the table, if it may run at all.
fn run(index: usize, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    check(index, cx, args).map_err(|error| atomic::transaction::refuse(cx, &table::TABLE[index], error))?;
    invoke(index, cx, args)
}

/// Whether a command may run at all. Counts it if not.
#[inline]
fn check(index: usize, cx: &Context<'_>, args: Args<'_>) -> Outcome {
    let spec = &table::TABLE[index];
    let error = if !spec.accepts(args.len()) {
        CommandError::Arity(spec.name)
    } else if !cx.session.authenticated && !spec.flags.contains(Flags::NO_AUTH) {
        CommandError::NoAuth
    } else {
        return Ok(());
    };
    cx.counters(index).rejected.add(1);
    Err(error)
}

/// Executes a command that was checked, and counts it.
#[inline]
fn invoke(index: usize, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match cx.counters(index).begin() {
        false => (table::TABLE[index].run)(cx, args),
        true => invoke_measured(index, cx, args),
    }
}

#[cold]
fn invoke_measured(index: usize, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let run = table::TABLE[index].run;
    if !cx.state.stats.command_stats.is_tracking() {
        return run(cx, args);
    }
    let started = Instant::now();
    let outcome = run(cx, args);
    let time = started.elapsed();
    match &mut cx.session.visit {
        // Its slices are added.
        Some(visit) => visit.time = Some(time),
        None => cx.counters(index).record(time),
    }
    outcome
}

/// Continues the command that visits entries, for one slice. Returns whether it has ended and written its reply.
pub(crate) fn continue_visit(cx: &mut Context<'_>, mut visit: Box<Visit>) -> bool {
    let start = cx.out.len();
    let counters = cx.session.last_command.map(|index| cx.counters(index));
    let started = visit.time.map(|_| Instant::now());
    if cx.held.is_none() {
        cx.session.reply_start = start;
    }
    let ended =
        visit.run_slice(cx).and_then(|ended| cx.check_reply(0).map(|()| ended)).unwrap_or_else(|error| {
            counters.into_iter().for_each(|counters| counters.errors.add(1));
            cx.reply_error(start, &error);
            true
        });
    if let Some((time, started)) = visit.time.as_mut().zip(started) {
        *time += started.elapsed();
        counters.filter(|_| ended).into_iter().for_each(|counters| counters.record(*time));
    }
    if !ended {
        cx.session.visit = Some(visit);
        return false;
    }
    if visit.is_muted {
        cx.truncate_replies(start);
    }
    if cx.session.receives_messages() && cx.held.is_none() {
        if !visit.is_about_start() {
            cx.take_mail(start);
        }
        cx.write_own_invalidations();
    }
    true
}
