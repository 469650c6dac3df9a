//! `OBJECT`, `RANDOMKEY`: what the server knows about its entries.

use larder_resp::Args;

use crate::cmd::help::help;
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
            match cx.state.store.policy().is_lfu() {
                true => {
                    let frequency = found.then(|| frequency(cx.state.stats.hits_of(key)));
                    reply_or_null(cx, frequency, |cx, frequency| cx.reply().integer(frequency));
                    Ok(())
                }
                false => not_tracked(cx, found, LFU_NOT_SELECTED),
            }
        }
        (b"help", None) => help(
            cx,
            "OBJECT",
            &[
                (
                    "ENCODING <key>",
                    "The representation that Redis would choose: int, embstr, raw, listpack, hashtable …",
                ),
                (
                    "FREQ <key>",
                    "Eight times the binary logarithm of the sampled hits, up to 255; 0 if it is not among the most used keys.",
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

/// Eight times the binary logarithm of the hits, in the range of Redis: programs look for the highest ones.
fn frequency(hits: u64) -> i64 {
    const HIGHEST: i64 = 255;
    ((8.0 * (hits as f64 + 1.0).log2()) as i64).min(HIGHEST)
}

fn not_tracked(cx: &mut Context<'_>, found: bool, text: &'static str) -> Outcome {
    if found {
        return Err(CommandError::Fixed(text));
    }
    cx.reply().null();
    Ok(())
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
