//! Whether the user of a connection may do what a request asks for: when it arrives, when it is queued and again when it is
//! executed, in a script, and when a wait ends.
//!
//! A connection whose user may do everything has no rights to check: none of its commands is special because of them.

use larder_resp::Args;

use super::{CommandError, Context, Outcome};
use crate::observers::{Pop, Wait, Waiter};
use crate::spec::CommandSpec;
use crate::users::{Denied, Event};

/// Refuses a request that the user has no right to. It is recorded and counted then.
pub(super) fn check(spec: &'static CommandSpec, cx: &Context<'_>, args: Args<'_>) -> Outcome {
    check_with(spec, cx, args).map_err(|denied| {
        cx.counters(spec).rejected.add(1);
        if let Some(name) = cx.state.users.unknown_subcommand(spec, args) {
            return CommandError::unknown_subcommand(name, &spec.name.to_uppercase());
        }
        let context = if cx.session.queued_commands().is_some() { "multi" } else { "toplevel" };
        let command = record(cx, spec, args, &denied, context);
        CommandError::NoPermission(denied.error(&command))
    })
}

/// Refuses a queued command that the user has lost the right to.
pub(super) fn check_in_exec(spec: &'static CommandSpec, cx: &Context<'_>, args: Args<'_>) -> Outcome {
    check_with(spec, cx, args).map_err(|denied| {
        record(cx, spec, args, &denied, "multi");
        CommandError::NoPermission(denied.error_of_exec())
    })
}

/// Refuses a command of a script.
#[cfg(feature = "scripts")]
pub(super) fn check_in_script(
    spec: &'static CommandSpec,
    cx: &Context<'_>,
    args: Args<'_>,
) -> Result<(), &'static str> {
    check_with(spec, cx, args).map_err(|denied| {
        record(cx, spec, args, &denied, "lua");
        denied.error_in_script()
    })
}

/// Whether the user has the right to a request. Nothing is recorded.
#[cfg(feature = "scripts")]
pub(super) fn allow(spec: &'static CommandSpec, cx: &Context<'_>, args: Args<'_>) -> bool {
    check_with(spec, cx, args).is_ok()
}

/// Whether the user may let a request read keys that its arguments do not name, as `SORT` does with `BY` and `GET`.
pub(super) fn may_read_all_keys(spec: &'static CommandSpec, cx: &Context<'_>, args: Args<'_>) -> bool {
    cx.session.rights().is_none_or(|rights| cx.state.users.read_all_keys(rights, spec, args))
}

/// Whether a connection that waits may still take what is there now.
pub(super) fn check_waiting(cx: &Context<'_>, waiter: &Waiter) -> Result<(), Denied> {
    let Some((rights, spec)) = waiter.client.user().limits().zip(waiter.command) else { return Ok(()) };
    let target =
        if let Wait::Pop(Pop::Move { target, .. }) = &waiter.wait { Some(&target[..]) } else { None };
    let names = waiter.names.iter().map(|name| (&name[..], spec.key_access(0, None)));
    let target = target.map(|name| (name, spec.key_access(1, None)));
    cx.state.users.check_keys(&rights, spec, names.chain(target))
}

/// The error of a command whose user has lost the right to it while the connection waited.
pub(super) fn denied_while_waiting(cx: &Context<'_>, denied: Denied) -> CommandError {
    let Some(spec) = cx.session.last_command else { return CommandError::NoAuth };
    let object = object(&denied, spec.name);
    record_event(cx, reason(&denied), "toplevel", object, cx.session.client.user().name());
    CommandError::NoPermission(denied.error(spec.name))
}

/// Records that somebody has tried to log in as this user.
pub(super) fn record_login(cx: &Context<'_>, args: Args<'_>, user: &[u8]) {
    let context = if cx.session.queued_commands().is_some() { "multi" } else { "toplevel" };
    record_event(cx, "auth", context, args[0].to_vec(), user);
}

fn check_with(spec: &'static CommandSpec, cx: &Context<'_>, args: Args<'_>) -> Result<(), Denied> {
    match cx.session.rights() {
        None => Ok(()),
        Some(rights) => cx.state.users.check(rights, spec, args),
    }
}

/// Records what was denied. Returns the full name of the command.
fn record(
    cx: &Context<'_>,
    spec: &'static CommandSpec,
    args: Args<'_>,
    denied: &Denied,
    context: &'static str,
) -> String {
    let command = cx.state.users.full_name(spec, args);
    let object = object(denied, &command);
    record_event(cx, reason(denied), context, object, cx.session.client.user().name());
    command
}

fn reason(denied: &Denied) -> &'static str {
    match denied {
        Denied::Command => "command",
        Denied::Key(..) => "key",
        Denied::Channel(..) => "channel",
    }
}

fn object(denied: &Denied, command: &str) -> Vec<u8> {
    match denied {
        Denied::Command => command.into(),
        Denied::Key(_, name) | Denied::Channel(_, name) => name.to_vec(),
    }
}

fn record_event(cx: &Context<'_>, reason: &'static str, context: &'static str, object: Vec<u8>, user: &[u8]) {
    let mut client = String::new();
    cx.session.client.write_line(&mut client, cx.state.stats.specs);
    let client = client.trim_end().to_owned();
    cx.state.users.record(Event { reason, context, object, user: user.to_vec() }, client);
}
