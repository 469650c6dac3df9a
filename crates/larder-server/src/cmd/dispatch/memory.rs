//! Which commands are refused because memory is used up, as in Redis: only under a policy that may find nothing to evict; and
//! which because a Redis is being copied: those that write.
//!
//! A command, a transaction or a script is refused before it changes anything, and what has begun is not stopped. What a
//! command that stores a string needs is known exactly when it stores it: see [`crate::db`]. Here is what can be told
//! before: that the limit is exceeded already, by a transaction or because it was lowered, or will be by the request alone.

use larder_resp::Args;

use crate::cmd::queue::Transaction;
use crate::cmd::{CommandError, Context, Outcome};
#[cfg(feature = "scripts")]
use crate::script::{self, Script, parse_digest};
use crate::spec::{CommandSpec, Flags};
use crate::state::ServerState;

/// Refuses a command that writes while a Redis is being copied, or that may need memory if it is used up. Counts it then.
pub(super) fn check(spec: &CommandSpec, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !cx.session.is_limited() {
        return Ok(());
    }
    let store = &cx.state.store;
    if store.is_copying() && spec.is(Flags::WRITE) {
        cx.counters(spec).rejected.add(1);
        return Err(CommandError::ReadOnly);
    }
    // Memory may be used up for a moment under any policy: what comes next evicts.
    if store.evicts_all() {
        return Ok(());
    }
    let is_full = store.is_full();
    cx.session.is_full = is_full;
    let is_refused = match cx.session.transaction() {
        _ if spec.is(Flags::ENDS_TRANSACTION) => false,
        Some(transaction) if spec.is(Flags::EXECUTES_QUEUE) => {
            may_need_memory(cx.state, transaction) && (is_full || !store.has_room(transaction.bytes()))
        }
        // Also those that need none: the queue needs memory.
        Some(_) => is_full,
        None if !spec.is(Flags::DENYOOM) => false,
        None => is_full || spec.is(Flags::GROWS_IN_PLACE) && !store.has_room(bytes(args)),
    };
    if is_refused {
        cx.counters(spec).rejected.add(1);
        return Err(CommandError::OutOfMemory);
    }
    Ok(())
}

/// The bytes of the arguments.
fn bytes(args: Args<'_>) -> usize {
    args.iter().map(<[u8]>::len).sum()
}

/// Whether a transaction has a command that may need memory for entries.
fn may_need_memory(state: &ServerState, transaction: &Transaction) -> bool {
    transaction.iter().any(|(spec, args)| spec.is(Flags::DENYOOM) || script_needs_memory(state, spec, args))
}

/// Whether a request of this command runs a script that may not start while memory is used up.
#[cfg(feature = "scripts")]
fn script_needs_memory(state: &ServerState, spec: &CommandSpec, args: Args<'_>) -> bool {
    if spec.is(Flags::RUNS_BODY) {
        return Script::needs_memory_by(&args[1]);
    }
    let known = || script::find(&state.scripts, &parse_digest(&args[1])?);
    spec.is(Flags::RUNS_DIGEST) && known().is_some_and(|script| script.needs_memory())
}

#[cfg(not(feature = "scripts"))]
fn script_needs_memory(_: &ServerState, _: &CommandSpec, _: Args<'_>) -> bool {
    false
}
