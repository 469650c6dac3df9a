//! What a command works with: the server, the state of its connection, its locks, and the buffer of its reply.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use larder_engine::raw::SharedBytes;
use larder_engine::stats::Sampled;
use larder_resp::{Args, Encoder};

use super::error::CommandError;
use super::queue::Transaction;
use super::session::Session;
use crate::client::{Executor, monitor_line};
use crate::db::{Database, HeldLocks, KeyLocks, LockedKeys};
use crate::observers::{Notice, Origin};
use crate::spec::{CommandSpec, Flags};
use crate::state::ServerState;
use crate::stats::{CommandCounters, Counts, LoggedRequest, SlowCommand};
use crate::values::large::{self, LARGE_BYTES};

/// The result of a command: `Ok` if it has written its reply, else the error to reply with.
pub(crate) type Outcome = Result<(), CommandError>;

/// The context of a command.
pub(crate) struct Context<'a> {
    pub(crate) state: &'a ServerState,
    pub(crate) session: &'a mut Session,
    /// The locks of the transaction that the command is part of.
    pub(super) held: Option<&'a dyn HeldLocks>,
    pub(super) counts: &'a mut Counts,
    pub(super) out: &'a mut Vec<u8>,
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

    /// Fails while a snapshot is being loaded: then a command on all keys would miss some.
    pub(super) fn require_all_keys(&self) -> Outcome {
        if self.state.store.is_loading() { Err(CommandError::Loading) } else { Ok(()) }
    }

    /// Locks all keys.
    pub(super) fn lock_everything(&self) -> Result<KeyLocks<'a>, CommandError> {
        self.require_all_keys()?;
        Ok(self.state.store.lock_everything())
    }

    /// The database that the connection has selected.
    pub(super) fn db(&self) -> Database<'a> {
        self.database(self.session.database())
    }

    /// Locks these keys of the selected database.
    pub(super) fn lock<'n, N: IntoIterator<Item = &'n [u8]>>(
        &self,
        names: N,
    ) -> (Database<'a>, LockedKeys<'a>) {
        let db = self.db();
        (db, db.lock(names))
    }

    /// A database by its index.
    pub(super) fn database(&self, index: u8) -> Database<'a> {
        self.state.store.database(index).with_locks(self.held).used_by(self.origin())
    }

    /// Who executes which command.
    #[inline]
    pub(super) fn origin(&self) -> Origin {
        let client = Arc::as_ptr(&self.session.client) as usize;
        Origin { client, command: self.session.last_command }
    }

    pub(super) fn reply(&mut self) -> Encoder<'_> {
        Encoder::new(self.out, self.session.protocol())
    }

    /// Counts an error.
    pub(super) fn count_error(&mut self, prefix: &str) {
        self.counts.errors += 1;
        self.state.stats.count_error(prefix);
    }

    /// Replaces the reply that starts at an offset by an error, and counts it.
    pub(super) fn reply_error(&mut self, start: usize, error: &CommandError) {
        self.count_error(error.prefix());
        self.truncate_replies(start);
        self.reply().error(&error.to_string());
    }

    pub(super) fn ok(&mut self) -> Outcome {
        self.reply().simple("OK");
        Ok(())
    }

    pub(super) fn integer(&mut self, number: i64) -> Outcome {
        self.reply().integer(number);
        Ok(())
    }

    /// Server time in milliseconds of Unix time.
    pub(super) fn now_ms(&self) -> i64 {
        self.state.store.now_ms()
    }

    /// Adds the counts of this wake-up to the statistics, for commands that report them.
    pub(super) fn publish_counts(&mut self) {
        self.state.stats.threads[self.session.client.thread()].add(self.counts);
        *self.counts = Counts::default();
    }

    /// The counters of a command on this thread.
    #[inline]
    pub(super) fn counters(&self, spec: &CommandSpec) -> &'a CommandCounters {
        self.state.stats.threads[self.session.client.thread()].command(spec)
    }

    /// Counts a lookup of a read command.
    #[inline]
    pub(super) fn count_lookup(&mut self, key: &[u8], found: bool) {
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
    pub(super) fn record_key(&self, sampled: Sampled, key: &[u8]) {
        self.state.stats.threads[self.session.client.thread()].keys.record_sampled(sampled, key);
    }

    /// The context of a command in a transaction, which holds these locks.
    pub(super) fn with_locks<'b>(&'b mut self, locks: &'b dyn HeldLocks) -> Context<'b> {
        Context {
            state: self.state,
            session: &mut *self.session,
            held: Some(locks),
            counts: &mut *self.counts,
            out: &mut *self.out,
        }
    }

    /// Notifies observers now or, inside a script, when the script ends.
    pub(super) fn tell(&self, notice: Notice) {
        match self.held.and_then(HeldLocks::deferred) {
            None => self.state.store.observers.tell(notice),
            Some(deferred) => deferred.push(notice),
        }
    }

    /// Whether a script executes the command.
    pub(super) fn is_script(&self) -> bool {
        self.held.is_some_and(|held| held.deferred().is_some())
    }

    /// Logs a command as slow.
    #[cold]
    pub(super) fn log_slow(&self, request: LoggedRequest, time: Duration) {
        let client = &self.session.client;
        self.state.slow_log.push(SlowCommand {
            request,
            ended: self.state.store.unix_time(),
            time,
            address: client.address().to_owned(),
            client_name: client.names().name,
        });
    }

    /// Tells monitors, if there are any, of a command of this connection.
    pub(super) fn show_monitors(&self, spec: &CommandSpec, args: Args<'_>) {
        if self.state.monitors.are_there() && spec.is_shown(args) {
            let line = || self.monitor_line(Executor::Client(&self.session.client), spec, args);
            self.state.monitors.post(args.iter().map(<[u8]>::len).sum(), line);
        }
    }

    /// The line of a command for monitors.
    pub(super) fn monitor_line(&self, executor: Executor<'_>, spec: &CommandSpec, args: Args<'_>) -> String {
        monitor_line(self.state.store.unix_time(), self.session.database(), executor, spec, args)
    }

    /// Makes `EXEC` fail, if the connection is in a transaction.
    pub(super) fn abort_transaction(&mut self) {
        self.session.transaction().into_iter().for_each(Transaction::abort);
    }

    /// Registers the connection for the keys that a command has read, if it tracks keys. They are locked.
    pub(super) fn track(&self, spec: &CommandSpec, args: Args<'_>) {
        if let Some(tracking) = self.session.tracking().filter(|_| spec.is(Flags::READONLY)) {
            spec.keys_of(args).unwrap_or_default().into_iter().for_each(|name| tracking.register(name));
        }
    }

    /// Sends the messages that have arrived ahead of the reply, which starts at the offset `at`.
    pub(super) fn take_mail(&mut self, at: usize) {
        if self.session.client.has_mail() {
            let before = self.out.len();
            self.session.client.take_mail(self.out, at);
            self.session.large_replies.shift(at, self.out.len() - before);
        }
    }

    /// Registers the connection again for keys that it has read, if it tracks keys. They are locked.
    #[cfg(feature = "scripts")]
    pub(super) fn track_reads(&self, names: &[Box<[u8]>]) {
        if let Some(tracking) = self.session.tracking() {
            names.iter().for_each(|name| tracking.register(name));
        }
    }

    /// Drops the reply that starts at an offset, if the connection wants none.
    pub(super) fn drop_muted_reply(&mut self, start: usize) {
        if self.session.is_muted {
            self.truncate_replies(start);
        }
    }

    /// Sends the messages about keys that this connection tracks and has changed itself.
    pub(super) fn write_own_invalidations(&mut self) {
        if let Some(tracking) = self.session.tracking() {
            let tracker = Arc::clone(tracking.tracker());
            tracker.write_own(&mut self.reply());
        }
    }

    /// Cuts the replies off at an offset.
    pub(super) fn truncate_replies(&mut self, start: usize) {
        self.out.truncate(start);
        self.session.large_replies.truncate(start);
    }

    /// Replies with a part of a string, without a copy if it is large.
    pub(super) fn reply_part(&mut self, value: impl Into<SharedBytes>, range: Range<usize>) {
        let value = value.into();
        // A script reads its replies.
        if range.len() < LARGE_BYTES || self.is_script() {
            self.reply().bulk(&value[range]);
            return large::release(value);
        }
        self.reply().bulk_header(range.len());
        self.session.large_replies.push(self.out.len(), value, range);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Whether the reply exceeds the limit. Commands that repeat values must stop then.
    pub(super) fn is_reply_too_large(&self) -> bool {
        self.check_reply(0).is_err()
    }

    /// Checks the reply with so many bytes that are not written yet. That of a transaction or a script has those of its
    /// commands so far.
    ///
    /// # Errors
    /// It exceeds the limit. The error takes its place.
    pub(super) fn check_reply(&self, bytes: u64) -> Outcome {
        match self.reply_bytes().saturating_add(bytes) > self.state.max_reply_bytes() {
            true => Err(self.reply_too_large()),
            false => Ok(()),
        }
    }

    /// The error of a reply that exceeds the limit.
    pub(super) fn reply_too_large(&self) -> CommandError {
        CommandError::ReplyTooLarge(self.state.max_reply_bytes())
    }

    /// Bytes by which the reply may become longer. A command that changes what it replies with checks them before.
    pub(super) fn reply_bytes_left(&self) -> u64 {
        self.state.max_reply_bytes().saturating_sub(self.reply_bytes())
    }

    pub(super) fn reply_bytes(&self) -> u64 {
        self.out.len().saturating_sub(self.session.reply_start) as u64 + self.session.large_replies.bytes()
    }
}
