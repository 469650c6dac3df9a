//! `MGET`, `MSET`, `MSETNX`: several strings at once. The two that store run alone, so that nobody sees half of it.

use larder_resp::Args;

use super::{CommandError, Context, Outcome};
use crate::db::{Database, Expiry, PrefetchBatch};

/// How many keys are fetched ahead at a time.
const FETCHED_KEYS: usize = 16;

pub(super) fn mget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    cx.reply().array(args.len() - 1);
    let keys = args.skip(1);
    for (index, key) in keys.iter().enumerate() {
        if index % FETCHED_KEYS == 0 {
            fetch(db, keys.skip(index));
        }
        // The same large value may be asked for a million times.
        if cx.is_reply_too_large() {
            break;
        }
        let mut reply = cx.reply();
        let found = db.get(key, |value| reply.bulk(value)).is_some();
        if !found {
            reply.null();
        }
        cx.looked_up(found);
    }
    Ok(())
}

/// Asks for the memory of the next keys.
fn fetch(db: Database<'_>, keys: Args<'_>) {
    let mut batch = PrefetchBatch::new();
    keys.iter().take(FETCHED_KEYS).for_each(|key| db.add_to_batch(&mut batch, key));
    db.prefetch(&batch);
}

pub(super) fn mset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pairs = pairs(args, "mset")?;
    set_all(cx, pairs)?;
    cx.ok()
}

pub(super) fn msetnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pairs = pairs(args, "msetnx")?;
    let db = cx.db();
    if pairs.iter().step_by(2).any(|key| db.contains(key)) {
        return cx.integer(0);
    }
    set_all(cx, pairs)?;
    cx.integer(1)
}

fn set_all(cx: &mut Context<'_>, pairs: Args<'_>) -> Outcome {
    let db = cx.db();
    for index in (0..pairs.len()).step_by(2) {
        db.set(&pairs[index], &pairs[index + 1], Expiry::Never)?;
    }
    Ok(())
}

fn pairs<'a>(args: Args<'a>, command: &'static str) -> Result<Args<'a>, CommandError> {
    let pairs = args.skip(1);
    if pairs.len().is_multiple_of(2) { Ok(pairs) } else { Err(CommandError::Arity(command)) }
}
