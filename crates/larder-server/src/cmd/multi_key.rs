//! `MGET`, `MSET`, `MSETNX`: several strings. The two that store run exclusively, so that no client sees a partial
//! write.

use larder_resp::Args;

use super::{CommandError, Context, Outcome};
use crate::db::{Database, Expiry, PrefetchBatch};

/// Keys that are prefetched at a time.
const PREFETCHED_KEYS: usize = 16;

pub(super) fn mget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    cx.reply().array(args.len() - 1);
    let keys = args.skip(1);
    for (index, key) in keys.iter().enumerate() {
        if index % PREFETCHED_KEYS == 0 {
            prefetch(db, keys.skip(index));
        }
        // A request may repeat the key of a large value a million times.
        if cx.is_reply_too_large() {
            break;
        }
        let mut reply = cx.reply();
        let found = db.get(key, |value| reply.bulk(value)).is_some();
        if !found {
            reply.null();
        }
        cx.count_lookup(found);
    }
    Ok(())
}

/// Prefetches the memory of the next keys.
fn prefetch(db: Database<'_>, keys: Args<'_>) {
    let mut batch = PrefetchBatch::new();
    keys.iter().take(PREFETCHED_KEYS).for_each(|key| db.add_to_batch(&mut batch, key));
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
