//! `SUBSCRIBE`, `PUBLISH` and `PUBSUB`, for channels, patterns, and the channels of shards.

use std::sync::Arc;

use larder_glob::{Pattern, PatternError};
use larder_resp::{Args, Protocol};

use crate::cmd::help::help;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::HeldLocks;
use crate::observers::{Kind, Notice, Subscriptions};
use crate::spec::{CommandSpec, Flags};

/// Refuses a command whose reply a subscriber could not tell from a message.
pub(crate) fn check(spec: &CommandSpec, cx: &Context<'_>) -> Outcome {
    if !is_limited(cx) || spec.is(Flags::FOR_SUBSCRIBERS) {
        return Ok(());
    }
    cx.counters(spec).rejected.add(1);
    Err(CommandError::Other(format!(
        "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        spec.name
    )))
}

/// Whether the connection is a subscriber with RESP2.
pub(crate) fn is_limited(cx: &Context<'_>) -> bool {
    cx.session.subscriptions().is_some() && cx.session.protocol() == Protocol::Resp2
}

pub(crate) fn subscribe(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, args, Kind::Channel)
}

pub(crate) fn psubscribe(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    // A pattern is refused before the first one is confirmed.
    let patterns = args.skip(1).iter().map(|name| Ok((name, Pattern::new(name)?)));
    let patterns: Vec<_> = patterns.collect::<Result<_, PatternError>>()?;
    change(cx, |subscriptions| {
        patterns.into_iter().for_each(|(name, pattern)| subscriptions.subscribe_to_pattern(name, pattern));
    })
}

pub(crate) fn ssubscribe(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, args, Kind::Shard)
}

pub(crate) fn unsubscribe(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, args, Kind::Channel)
}

pub(crate) fn punsubscribe(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, args, Kind::Pattern)
}

pub(crate) fn sunsubscribe(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(cx, args, Kind::Shard)
}

fn add(cx: &mut Context<'_>, args: Args<'_>, kind: Kind) -> Outcome {
    change(cx, |subscriptions| args.skip(1).iter().for_each(|name| subscriptions.subscribe(kind, name)))
}

fn remove(cx: &mut Context<'_>, args: Args<'_>, kind: Kind) -> Outcome {
    change(cx, |subscriptions| match args.len() {
        1 => subscriptions.unsubscribe_all(kind),
        _ => args.skip(1).iter().for_each(|name| subscriptions.unsubscribe(kind, name)),
    })
}

/// The reply is one confirmation for each name. It comes out of the mailbox, in order with the messages of channels.
fn change(cx: &mut Context<'_>, change: impl FnOnce(&mut Subscriptions)) -> Outcome {
    // Without subscriptions the mailbox may have messages from before the replies of this turn: about keys that another
    // connection tracks.
    if !cx.session.receives_messages() {
        cx.take_mail(0);
    }
    let mut subscriptions = take(cx);
    change(&mut subscriptions);
    cx.session.set_subscriptions(Some(subscriptions).filter(|subscriptions| !subscriptions.is_empty()));
    cx.take_mail(cx.out.len());
    Ok(())
}

fn take(cx: &mut Context<'_>) -> Box<Subscriptions> {
    let channels = &cx.state.store.observers.channels;
    let client = Arc::clone(&cx.session.client);
    cx.session
        .set_subscriptions(None)
        .unwrap_or_else(|| Box::new(Subscriptions::new(Arc::clone(channels), client)))
}

pub(crate) fn publish(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    send(cx, args, Kind::Channel)
}

pub(crate) fn spublish(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    send(cx, args, Kind::Shard)
}

fn send(cx: &mut Context<'_>, args: Args<'_>, kind: Kind) -> Outcome {
    let (channels, channel, message) = (&cx.state.store.observers.channels, &args[1], &args[2]);
    let receivers = match cx.held.and_then(HeldLocks::deferred) {
        None => channels.publish(kind, channel, message),
        // Those who receive it are the same, unless they subscribe or unsubscribe meanwhile.
        Some(deferred) => {
            let (channel, message) = (channel.into(), message.into());
            deferred.push(Notice::Published { kind, channel, message });
            channels.receivers(kind, &args[1])
        }
    };
    cx.integer(receivers as i64)
}

pub(crate) fn pubsub(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let channels = &cx.state.store.observers.channels;
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"channels", 2 | 3) => names(cx, Kind::Channel, args.get(2)),
        (b"shardchannels", 2 | 3) => names(cx, Kind::Shard, args.get(2)),
        (b"numsub", _) => counts(cx, Kind::Channel, args.skip(2)),
        (b"shardnumsub", _) => counts(cx, Kind::Shard, args.skip(2)),
        (b"numpat", 2) => cx.integer(channels.counts()[Kind::Pattern as usize] as i64),
        (b"help", 2) => help(
            cx,
            "PUBSUB",
            &[
                ("CHANNELS [<pattern>]", "The channels that have subscribers."),
                ("NUMPAT", "The number of patterns that have subscribers."),
                ("NUMSUB [<channel> ...]", "The number of subscribers of each channel."),
                ("SHARDCHANNELS [<pattern>]", "The channels of shards that have subscribers."),
                ("SHARDNUMSUB [<channel> ...]", "The number of subscribers of each channel of a shard."),
            ],
        ),
        (b"channels" | b"shardchannels", _) => Err(CommandError::Other(format!(
            "unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
            String::from_utf8_lossy(&args[1])
        ))),
        (b"numpat", _) => Err(CommandError::Arity("pubsub|numpat")),
        (b"help", _) => Err(CommandError::Arity("pubsub|help")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "PUBSUB")),
    }
}

fn names(cx: &mut Context<'_>, kind: Kind, pattern: Option<&[u8]>) -> Outcome {
    let pattern = pattern.map(Pattern::new).transpose()?;
    let names = cx.state.store.observers.channels.names(kind, pattern.as_ref());
    let mut reply = cx.reply();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

fn counts(cx: &mut Context<'_>, kind: Kind, names: Args<'_>) -> Outcome {
    let channels = &cx.state.store.observers.channels;
    let mut reply = cx.reply();
    reply.array(2 * names.len());
    for name in names.iter() {
        reply.bulk(name);
        reply.integer(channels.subscribers(kind, name) as i64);
    }
    Ok(())
}
