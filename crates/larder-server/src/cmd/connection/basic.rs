//! `PING`, `ECHO`, `SELECT`, `RESET`, `QUIT`: commands on the connection.

use std::sync::Arc;

use larder_resp::{Args, Protocol};

use super::pubsub;
use crate::cmd::options::{database_index, refuse_in_cluster_mode};
use crate::cmd::session::{Replies, TurnEnd};
use crate::cmd::{CommandError, Context, Outcome};

pub(crate) fn ping(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if pubsub::is_limited(cx) && args.len() <= 2 {
        let mut reply = cx.reply();
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(args.get(1).unwrap_or_default());
        return Ok(());
    }
    match args.len() {
        1 => cx.reply().simple("PONG"),
        2 => cx.reply().bulk(&args[1]),
        _ => return Err(CommandError::Arity("ping")),
    }
    Ok(())
}

pub(crate) fn echo(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    cx.reply().bulk(&args[1]);
    Ok(())
}

pub(crate) fn select(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let index = database_index(&args[1])?;
    if index != 0 {
        refuse_in_cluster_mode(cx, "ERR SELECT is not allowed in cluster mode")?;
    }
    cx.session.select(index);
    cx.ok()
}

pub(crate) fn quit(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    cx.session.turn_end = Some(TurnEnd::Close);
    cx.ok()
}

pub(crate) fn reset(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    cx.session.set_transaction(None);
    cx.session.watches = None;
    cx.session.set_subscriptions(None);
    cx.session.set_tracking(None);
    cx.session.set_monitoring(None);
    // `CLIENT REPLY SKIP` holds for `RESET`, too.
    cx.session.is_muted &= cx.session.replies() == Replies::On;
    cx.session.set_replies(Replies::On);
    cx.session.select(0);
    cx.session.set_protocol(Protocol::Resp2);
    cx.session.authenticated = cx.state.users.is_open();
    cx.session.set_user(Arc::clone(cx.state.users.default_user()), &cx.state.users);
    cx.session.update_names(|names| names.name = Vec::new());
    cx.reply().simple("RESET");
    Ok(())
}
