//! Commands that are not simply executed: those that are unknown, of a connection in a transaction, of one that receives
//! messages, and of one that wants no replies; and all of them while memory may be used up.
//!
//! The messages of other connections must be in order with the replies: a reply that follows a message was read after
//! what the message reports, and a reply ahead of it before. So a command on keys takes the messages out of the mailbox
//! while it holds the locks of its keys. A writer puts its message there under the same locks.

use larder_resp::Args;

use super::{answer, call, check, memory, refuse, serves};
use crate::cmd::admin::monitor;
use crate::cmd::blocking::serve::serve_ready;
use crate::cmd::connection::{client, pubsub};
use crate::cmd::rights;
use crate::cmd::session::Replies;
use crate::cmd::table::Command;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::KeyLocks;
use crate::spec::{CommandSpec, Flags};

/// Decides whether the command gets a reply, and goes on with [`admit`]. It is cold, so that the usual way stays small in
/// the caches of the processor: nearly all connections never come here.
#[cold]
pub(super) fn dispatch(cx: &mut Context<'_>, command: Option<&Command>, args: Args<'_>) {
    let replies = cx.session.replies();
    if replies == Replies::SkipNext {
        cx.session.set_replies(Replies::On);
    }
    // A transaction refuses it.
    let turns_on = cx.session.transaction().is_none()
        && command.is_some_and(|(spec, _)| client::turns_replies_on(spec, args));
    cx.session.is_muted = replies != Replies::On && !turns_on;
    admit(cx, command, args);
    cx.session.is_muted = false;
}

/// Writes the reply of a command, unless the connection wants none.
fn answer_unless_muted(
    cx: &mut Context<'_>,
    spec: Option<&CommandSpec>,
    run: impl FnOnce(&mut Context<'_>) -> Outcome,
) {
    let start = cx.out.len();
    answer(cx, spec, run);
    if cx.session.is_muted {
        cx.session.long_command.iter_mut().for_each(|command| command.is_muted = true);
        cx.truncate_replies(start);
    }
}

/// As [`answer_unless_muted`], for a reply that depends on no key.
fn answer_after_mail(
    cx: &mut Context<'_>,
    spec: Option<&CommandSpec>,
    run: impl FnOnce(&mut Context<'_>) -> Outcome,
) {
    if cx.session.receives_messages() {
        cx.take_mail(cx.out.len());
    }
    answer_unless_muted(cx, spec, run);
}

/// Refuses a command, queues it for `EXEC`, or calls it.
fn admit(cx: &mut Context<'_>, command: Option<&Command>, args: Args<'_>) {
    let Some(command) = command else {
        cx.abort_transaction();
        return answer_after_mail(cx, None, |_| Err(CommandError::unknown_command(args)));
    };
    let spec = command.0;
    if let Err(error) = check_all(spec, cx, args) {
        let error = refuse(cx, spec, error);
        cx.abort_transaction();
        return answer_after_mail(cx, Some(spec), |_| Err(error));
    }
    if cx.session.transaction().is_some() && !spec.is(Flags::NOT_QUEUED) {
        return answer_after_mail(cx, Some(spec), |cx| enqueue(cx, spec, args));
    }
    // What a script executes is shown after it.
    let is_script = spec.is(Flags::RUNS_BODY) || spec.is(Flags::RUNS_DIGEST);
    if is_script {
        cx.show_monitors(spec, args);
    }
    call_in_order(cx, command, args);
    if !is_script {
        cx.show_monitors(spec, args);
    }
    cx.write_own_invalidations();
    if cx.session.transaction().is_none()
        && !spec.is(Flags::KEEPS_CACHING)
        && let Some(tracking) = cx.session.tracking_mut()
    {
        tracking.end_caching();
    }
}

/// Whether a command may run at all.
fn check_all(spec: &'static CommandSpec, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    check(spec, cx, args)?;
    monitor::check(spec, cx)?;
    rights::check(spec, cx, args)?;
    pubsub::check(spec, cx)?;
    memory::check(spec, cx, args)
}

/// Checks a command and queues it.
fn enqueue(cx: &mut Context<'_>, spec: &'static CommandSpec, args: Args<'_>) -> Outcome {
    if spec.is(Flags::NO_MULTI) || client::changes_replies(spec, args) {
        cx.abort_transaction();
        cx.counters(spec).rejected.add(1);
        return Err(CommandError::Fixed("ERR Command not allowed inside a transaction"));
    }
    if !cx.session.transaction().is_none_or(|transaction| transaction.push(spec, args)) {
        return Err(CommandError::Fixed("ERR the transaction is too large"));
    }
    cx.reply().simple("QUEUED");
    Ok(())
}

/// Calls a command, and takes the messages of the mailbox where they belong: ahead of its reply, or behind it.
fn call_in_order(cx: &mut Context<'_>, command: &Command, args: Args<'_>) {
    let spec = command.0;
    let was_receiver = cx.session.receives_messages();
    let start = cx.out.len();
    if (was_receiver || serves(cx, spec))
        && let Some(locks) = lock_keys_of(cx, spec, args)
    {
        let mut cx = cx.with_locks(&locks);
        answer_unless_muted(&mut cx, Some(spec), |cx| call(command, cx, args));
        serve_ready(&mut cx);
        if !was_receiver {
            return;
        }
        cx.take_mail(start);
        // After the messages were taken: one about this key, because the table is full, must follow the reply.
        return cx.track(spec, args);
    }
    if spec.is(Flags::TAKES_MAIL) {
        // They may fail before they do.
        if was_receiver {
            cx.take_mail(start);
        }
        // What arrives after they did so follows their reply.
        if let Err(error) = call(command, cx, args) {
            answer_unless_muted(cx, Some(spec), |_| Err(error));
        }
        return;
    }
    answer_unless_muted(cx, Some(spec), |cx| call(command, cx, args));
    if was_receiver || cx.session.receives_messages() {
        cx.take_mail(start);
    }
}

/// Locks the keys of one command, if they are known and not locked yet.
fn lock_keys_of<'a>(cx: &Context<'a>, spec: &CommandSpec, args: Args<'_>) -> Option<KeyLocks<'a>> {
    if cx.held.is_some() || !spec.uses_keys() || spec.has_other_keys(args) || spec.is(Flags::BLOCKS) {
        return None;
    }
    let names = spec.keys_of(args).unwrap_or_default();
    let db = cx.db();
    Some(cx.state.store.lock(names.into_iter().map(|name| db.key(name))))
}
