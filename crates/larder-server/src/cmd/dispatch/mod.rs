//! From a request to its command: finds it, checks whether it may run, calls it and counts it. What is unusual is in
//! [`special`], so that the usual way is short.

mod memory;
pub(super) mod pause;
mod special;

use larder_resp::Args;

use super::blocking::serve::serve_ready;
use super::slices::Measured;
use super::table::{self, Command};
use super::{CommandError, Context, Outcome};
use crate::observers::has_ready;
use crate::spec::{CommandSpec, Flags};
use crate::stats::LoggedRequest;
use crate::system::Moment;

/// The most arguments of a request that takes about as long as any other one.
const MAX_SHORT_ARGS: usize = 8;

/// Whether a request takes about as long as any other one: replies of other connections may wait for it.
#[inline]
pub(crate) fn is_short(args: Args<'_>) -> bool {
    (1..=MAX_SHORT_ARGS).contains(&args.len())
        && table::find(&args[0]).is_some_and(|(spec, _)| spec.is(Flags::FAST) || spec.is(Flags::SHORT))
}

/// Finds the command of a non-empty request, calls it, and writes its reply.
pub(crate) fn dispatch(cx: &mut Context<'_>, args: Args<'_>) {
    cx.counts.commands += 1;
    let command = table::find(&args[0]);
    if let Some((spec, _)) = command {
        cx.session.last_command = Some(spec);
    }
    cx.session.reply_start = cx.out.len();
    match command {
        Some(command) if !cx.session.is_special() && !serves(cx, command.0) => {
            answer(cx, Some(command.0), |cx| check_and_call(command, cx, args));
        }
        _ => special::dispatch(cx, command, args),
    }
    if has_ready() && cx.held.is_none() {
        serve_ready(cx);
    }
}

/// Whether a command may have to serve connections that wait for members of its keys.
#[inline]
fn serves(cx: &Context<'_>, spec: &CommandSpec) -> bool {
    cx.state.store.observers.waiting.is_used() && spec.is(Flags::WRITE)
}

/// Writes the reply of a command, or its error. There is no command if the request names none.
#[inline]
pub(super) fn answer(
    cx: &mut Context<'_>,
    spec: Option<&CommandSpec>,
    run: impl FnOnce(&mut Context<'_>) -> Outcome,
) {
    let start = cx.out.len();
    if let Err(error) = run(cx).and_then(|()| cx.check_reply(0)) {
        spec.into_iter().for_each(|spec| cx.counters(spec).errors.add(1));
        cx.reply_error(start, &error);
    }
}

/// Calls a command, if it may run at all.
pub(super) fn check_and_call(command: &Command, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    check(command.0, cx, args).map_err(|error| refuse(cx, command.0, error))?;
    call(command, cx, args)
}

/// Whether a command may run at all. Counts it if not.
#[inline]
fn check(spec: &CommandSpec, cx: &Context<'_>, args: Args<'_>) -> Outcome {
    let error = if !spec.accepts(args.len()) {
        CommandError::Arity(spec.name)
    } else if !cx.session.authenticated && !spec.is(Flags::NO_AUTH) {
        CommandError::NoAuth
    } else {
        return Ok(());
    };
    cx.counters(spec).rejected.add(1);
    Err(error)
}

/// Calls the function of a command that was checked, and counts the call.
#[inline]
pub(super) fn call(command: &Command, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (spec, run) = command;
    // The slow log needs the time of a command with many arguments.
    match (cx.counters(spec).begin(), args.len() > MAX_SHORT_ARGS) {
        (false, false) => run(cx, args),
        (is_recorded, _) => call_measured(command, cx, args, is_recorded),
    }
}

#[cold]
fn call_measured((spec, run): &Command, cx: &mut Context<'_>, args: Args<'_>, is_recorded: bool) -> Outcome {
    let is_recorded = is_recorded && cx.state.stats.command_stats.is_tracking();
    // The commands of a transaction are logged, and not the whole.
    let may_be_logged = cx.state.slow_log.is_used() && !spec.is(Flags::EXECUTES_QUEUE);
    if !is_recorded && !may_be_logged {
        return run(cx, args);
    }
    let started = Moment::now();
    let outcome = run(cx, args);
    let time = started.elapsed();
    match &mut cx.session.long_command {
        // Its slices are added.
        Some(command) => {
            let request = may_be_logged.then(|| LoggedRequest::new(spec, args));
            command.measured = Some(Measured { time, is_recorded, request });
        }
        None => {
            if is_recorded {
                cx.counters(spec).record(time);
            }
            if may_be_logged && cx.state.slow_log.is_slow(time) {
                cx.log_slow(LoggedRequest::new(spec, args), time);
            }
        }
    }
    outcome
}

/// The error to reply with for a command that was refused. `EXEC` discards the transaction, and the watched keys if there is
/// none.
#[cold]
fn refuse(cx: &mut Context<'_>, spec: &CommandSpec, reason: CommandError) -> CommandError {
    if !spec.is(Flags::EXECUTES_QUEUE) {
        return reason;
    }
    cx.session.set_transaction(None);
    cx.session.watches = None;
    let reason = reason.to_string();
    CommandError::ExecAbort(reason.strip_prefix("ERR ").unwrap_or(&reason).to_owned())
}
