//! `OBJECT`, `MEMORY`, `RANDOMKEY`: what the server knows about its entries.

use larder_resp::Args;

use crate::cmd::help::help;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::encoding;

/// The texts of Redis for a policy that does not record what was asked for.
const LFU_SELECTED: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
     switching between policies at runtime LRU and LFU data will take some time to adjust.";
const LFU_NOT_SELECTED: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
     note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";

pub(crate) fn object(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), args.get(2)) {
        (b"encoding", Some(key)) if args.len() == 3 => {
            let encoding = cx.db().peek(key, encoding);
            reply_or_null(cx, encoding, |cx, encoding| cx.reply().bulk(encoding.as_bytes()));
            Ok(())
        }
        (b"refcount", Some(key)) if args.len() == 3 => {
            let found = cx.db().peek(key, |_| ());
            reply_or_null(cx, found, |cx, ()| cx.reply().integer(1));
            Ok(())
        }
        (b"idletime", Some(key)) if args.len() == 3 => {
            let found = cx.db().contains(key);
            let text = match cx.state.store.policy().is_lfu() {
                true => LFU_SELECTED,
                false => "ERR idle times are not available: uses are not recorded by time.",
            };
            not_tracked(cx, found, text)
        }
        (b"freq", Some(key)) if args.len() == 3 => {
            let found = cx.db().contains(key);
            let text = match cx.state.store.policy().is_lfu() {
                true => "ERR access frequencies are not available: they are kept for groups of keys.",
                false => LFU_NOT_SELECTED,
            };
            not_tracked(cx, found, text)
        }
        (b"help", None) => help(
            cx,
            "OBJECT",
            &[
                (
                    "ENCODING <key>",
                    "The representation that Redis would choose: int, embstr, raw, listpack, hashtable …",
                ),
                ("REFCOUNT <key>", "1 if the key exists."),
            ],
        ),
        (b"help", _) => Err(CommandError::Arity("object|help")),
        (b"encoding", _) => Err(CommandError::Arity("object|encoding")),
        (b"refcount", _) => Err(CommandError::Arity("object|refcount")),
        (b"idletime", _) => Err(CommandError::Arity("object|idletime")),
        (b"freq", _) => Err(CommandError::Arity("object|freq")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "OBJECT")),
    }
}

fn not_tracked(cx: &mut Context<'_>, found: bool, text: &'static str) -> Outcome {
    if found {
        return Err(CommandError::Fixed(text));
    }
    cx.reply().null();
    Ok(())
}

pub(crate) fn memory(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), args.get(2)) {
        (b"usage", Some(key)) => {
            let mut options = args.skip(3).iter();
            while let Some(option) = options.next() {
                // Samples are for values of many parts.
                let count = options.next().filter(|_| option.eq_ignore_ascii_case(b"SAMPLES"));
                if integer(count.ok_or(CommandError::Syntax)?)? < 0 {
                    return Err(CommandError::Syntax);
                }
            }
            let charge = cx.db().charge(key);
            reply_or_null(cx, charge, |cx, charge| cx.reply().integer(charge as i64));
            Ok(())
        }
        (b"usage", None) => Err(CommandError::Arity("memory|usage")),
        (b"help", None) => {
            help(cx, "MEMORY", &[("USAGE <key> [SAMPLES <count>]", "The bytes that the entry is charged.")])
        }
        (b"help", _) => Err(CommandError::Arity("memory|help")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "MEMORY")),
    }
}

fn reply_or_null<T>(cx: &mut Context<'_>, value: Option<T>, reply: impl FnOnce(&mut Context<'_>, T)) {
    match value {
        Some(value) => reply(cx, value),
        None => cx.reply().null(),
    }
}

pub(crate) fn randomkey(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    cx.require_all_keys()?;
    let name = cx.db().random_name();
    reply_or_null(cx, name, |cx, name| cx.reply().bulk(&name));
    Ok(())
}
