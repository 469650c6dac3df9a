//! `MONITOR`: the connection gets a line for each command that the server executes, until `RESET` or its end.

use std::sync::Arc;

use larder_resp::Args;

use crate::client::Monitoring;
use crate::cmd::{CommandError, Context, Outcome};
use crate::spec::{CommandSpec, Flags};

pub(crate) fn monitor(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    if cx.held.is_some() {
        return Err(CommandError::Fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let start = cx.out.len();
    if !cx.session.is_monitor() {
        let monitoring = Monitoring::begin(Arc::clone(&cx.state.monitors), Arc::clone(&cx.session.client));
        cx.session.set_monitoring(Some(monitoring));
        cx.reply().simple("OK");
    }
    // Lines that have arrived follow the reply.
    cx.drop_muted_reply(start);
    Ok(())
}

/// Whether a command may run on a connection that monitors the server, if it is one: none on keys, as in Redis.
pub(crate) fn check(spec: &CommandSpec, cx: &Context<'_>) -> Outcome {
    if cx.session.is_monitor() && (spec.uses_keys() || spec.is(Flags::MAY_WRITE)) {
        cx.counters(spec).rejected.add(1);
        return Err(CommandError::Fixed("ERR Replica can't interact with the keyspace"));
    }
    Ok(())
}
