//! Commands that take long: they visit every entry or every byte of a large value, or wait for other threads. They do their
//! work in slices, and other connections of the thread get their turns in between.
//!
//! A command begins with [`begin`], which leaves its work in the session. The connection runs a slice in each of its turns,
//! and the next request after the last one. A transaction and a script, which hold locks, [`finish`] the work at once.

use std::time::Duration;

use super::{CommandError, Context, Outcome};
use crate::db::Database;
use crate::stats::LoggedRequest;
use crate::system::Moment;

/// Entries that are visited in one slice: a fraction of a millisecond.
pub(super) const ENTRIES_PER_SLICE: usize = 1024;

/// The work of a command that takes long.
pub(super) trait SlicedWork: Send + 'static {
    /// Does a slice. Returns whether it was the last one, which has written the reply.
    ///
    /// # Errors
    /// The error to reply with: the work has ended.
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError>;

    /// The memory that it holds beside entries, in bytes.
    fn bytes(&self) -> usize {
        0
    }

    /// The bytes of its values that are not in the store any more: it alone may hold them now.
    fn removed_bytes(&mut self, _: Database<'_>) -> usize {
        0
    }

    /// Until when it waits for others: it is woken, or goes on then. `None` if it goes on at once.
    fn waits_until(&self) -> Option<Moment> {
        None
    }

    /// Whether the reply is about a value as it was at the start: messages about later changes must follow it.
    fn is_about_start(&self) -> bool {
        false
    }
}

/// A command that is not at its end.
pub(crate) struct LongCommand {
    work: Box<dyn SlicedWork>,
    /// Whether the command gets no reply.
    pub(super) is_muted: bool,
    /// Set if it is measured.
    pub(super) measured: Option<Measured>,
    /// Bytes of large values that are not in the store any more.
    removed_bytes: usize,
}

/// How long a command has taken so far, and for whom that is measured.
pub(super) struct Measured {
    /// Without the time in which it waited.
    pub(super) time: Duration,
    /// Whether it is recorded in the statistics of commands.
    pub(super) is_recorded: bool,
    /// What the slow log shows, if it may be logged.
    pub(super) request: Option<LoggedRequest>,
}

impl Measured {
    /// The command has ended.
    fn end(self, cx: &Context<'_>) {
        if let Some(spec) = cx.session.last_command.filter(|_| self.is_recorded) {
            cx.counters(spec).record(self.time);
        }
        if let Some(request) = self.request.filter(|_| cx.state.slow_log.is_slow(self.time)) {
            cx.log_slow(request, self.time);
        }
    }
}

impl LongCommand {
    /// The memory that it holds beside entries, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let request = self.measured.as_ref().and_then(|measured| measured.request.as_ref());
        self.work.bytes() + self.removed_bytes + request.map_or(0, LoggedRequest::bytes)
    }

    /// Until when it waits for others, if it does.
    pub(crate) fn waits_until(&self) -> Option<Moment> {
        self.work.waits_until()
    }

    /// Whether messages about later changes must follow its reply.
    pub(crate) fn is_about_start(&self) -> bool {
        self.work.is_about_start()
    }

    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let ended = self.work.run_slice(cx)?;
        if !ended {
            self.removed_bytes = self.work.removed_bytes(cx.db());
        }
        Ok(ended)
    }
}

/// Begins the work of a command, which replies at its end.
pub(super) fn begin(cx: &mut Context<'_>, work: impl SlicedWork) -> Outcome {
    let command = LongCommand { work: Box::new(work), is_muted: false, measured: None, removed_bytes: 0 };
    cx.session.long_command = Some(Box::new(command));
    Ok(())
}

/// Runs a slice of a command. Returns whether it has ended and written its reply.
pub(crate) fn run_slice(cx: &mut Context<'_>, mut command: Box<LongCommand>) -> bool {
    let start = cx.out.len();
    let counters = cx.session.last_command.map(|spec| cx.counters(spec));
    let started = command.measured.as_ref().map(|_| Moment::now());
    if cx.held.is_none() {
        cx.session.reply_start = start;
    }
    let ended =
        command.run_slice(cx).and_then(|ended| cx.check_reply(0).map(|()| ended)).unwrap_or_else(|error| {
            counters.into_iter().for_each(|counters| counters.errors.add(1));
            cx.reply_error(start, &error);
            true
        });
    if let Some((measured, started)) = command.measured.as_mut().zip(started) {
        measured.time += started.elapsed();
        if ended {
            command.measured.take().into_iter().for_each(|measured| measured.end(cx));
        }
    }
    if !ended {
        cx.session.long_command = Some(command);
        return false;
    }
    if command.is_muted {
        cx.truncate_replies(start);
    }
    if cx.session.receives_messages() && cx.held.is_none() {
        if !command.is_about_start() {
            cx.take_mail(start);
        }
        cx.write_own_invalidations();
    }
    true
}

/// Runs the command that is not at its end, if there is one, to its end.
pub(super) fn finish(cx: &mut Context<'_>) {
    while let Some(command) = cx.session.long_command.take() {
        run_slice(cx, command);
    }
}
