//! `MGET`, `MSET`, `MSETNX`, `DEL`, `EXISTS`, `TOUCH`: several keys in one atomic step.

use std::sync::Arc;

use larder_resp::Args;

use super::{CommandError, Context, Outcome};
use crate::db::{Database, LockedKeys, PrefetchBatch, Record};

/// Keys that are prefetched at a time.
const PREFETCHED_KEYS: usize = 16;

pub(super) fn mget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    cx.reply().array(args.len() - 1);
    let mut long_values = LongValues::default();
    for_each_key(db, args, |locked, key| {
        // A request may repeat the key of a long value a million times.
        if cx.is_reply_too_large_with(long_values.bytes) {
            return;
        }
        let mut reply = cx.reply();
        let long = locked.read(db.key(key), |record| {
            let long = record.share();
            match (&long, record.bytes()) {
                (Some(_), _) => {}
                (None, Some(value)) => reply.bulk(value),
                (None, None) => reply.null(),
            }
            long
        });
        match &long {
            None => reply.null(),
            Some(None) => {}
            Some(Some(value)) => long_values.push(cx.out.len(), value),
        }
        cx.count_lookup(key, long.is_some());
    });
    long_values.insert_into(cx);
    Ok(())
}

/// Long values of a reply that is written without them while their keys are locked.
#[derive(Default)]
struct LongValues {
    /// Each with its position in the reply.
    values: Vec<(usize, Arc<[u8]>)>,
    bytes: u64,
}

impl LongValues {
    fn push(&mut self, position: usize, value: &Arc<[u8]>) {
        self.bytes += value.len() as u64;
        self.values.push((position, value.clone()));
    }

    /// Inserts the values into the reply.
    fn insert_into(self, cx: &mut Context<'_>) {
        let Some((first, _)) = self.values.first() else { return };
        let (mut from, rest) = (*first, cx.out.split_off(*first));
        let start = from;
        for (position, value) in &self.values {
            cx.out.extend_from_slice(&rest[from - start..position - start]);
            cx.reply_part(Arc::clone(value), 0..value.len());
            from = *position;
        }
        cx.out.extend_from_slice(&rest[from - start..]);
    }
}

/// Also `UNLINK`: both free the values after the locks are released.
pub(super) fn del(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    if args.len() == 2 {
        return cx.integer(i64::from(db.remove(&args[1])));
    }
    let mut removed = 0;
    for_each_key(db, args, |locked, key| removed += i64::from(locked.remove(db.key(key))));
    cx.integer(removed)
}

pub(super) fn exists(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    count(cx, args, |locked, key| locked.contains(db.key(key)))
}

pub(super) fn touch(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    count(cx, args, |locked, key| locked.read(db.key(key), |_| ()).is_some())
}

fn count(
    cx: &mut Context<'_>,
    args: Args<'_>,
    is_present: impl Fn(&mut LockedKeys<'_>, &[u8]) -> bool,
) -> Outcome {
    let (db, mut number) = (cx.db(), 0);
    for_each_key(db, args, |locked, key| {
        let found = is_present(locked, key);
        cx.count_lookup(key, found);
        number += i64::from(found);
    });
    cx.integer(number)
}

/// Locks the keys of a command, which are all its arguments, and calls `f` with each.
fn for_each_key(db: Database<'_>, args: Args<'_>, mut f: impl FnMut(&mut LockedKeys<'_>, &[u8])) {
    let keys = args.skip(1);
    let mut locked = db.lock(keys.iter());
    for (index, key) in keys.iter().enumerate() {
        if index % PREFETCHED_KEYS == 0 {
            prefetch(db, keys.skip(index));
        }
        f(&mut locked, key);
    }
}

/// Prefetches the memory of the next keys.
fn prefetch(db: Database<'_>, keys: Args<'_>) {
    let mut batch = PrefetchBatch::new();
    keys.iter().take(PREFETCHED_KEYS).for_each(|key| db.add_to_batch(&mut batch, key));
    db.prefetch(&batch);
}

pub(super) fn mset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pairs = pairs(args, "mset")?;
    let records = records(cx, pairs)?;
    cx.db().lock(names(pairs)).put_all(records)?;
    cx.ok()
}

pub(super) fn msetnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pairs = pairs(args, "msetnx")?;
    let db = cx.db();
    let records = records(cx, pairs)?;
    let mut locked = db.lock(names(pairs));
    let is_free = !names(pairs).any(|name| locked.contains(db.key(name)));
    if is_free {
        locked.put_all(records)?;
    }
    drop(locked);
    cx.integer(i64::from(is_free))
}

/// The records of all pairs, made before the keys are locked. An error if they cannot be in the store together: nothing
/// has changed then.
fn records(cx: &Context<'_>, pairs: Args<'_>) -> Result<Vec<Record>, CommandError> {
    let db = cx.db();
    let values = (1..pairs.len()).step_by(2);
    let records: Vec<Record> =
        names(pairs).zip(values).map(|(name, value)| db.record_of_argument(name, pairs, value)).collect();
    if cx.state.store.can_hold(&records) { Ok(records) } else { Err(CommandError::OutOfMemory) }
}

fn names<'a>(pairs: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    pairs.iter().step_by(2)
}

fn pairs<'a>(args: Args<'a>, command: &'static str) -> Result<Args<'a>, CommandError> {
    let pairs = args.skip(1);
    if pairs.len().is_multiple_of(2) { Ok(pairs) } else { Err(CommandError::Arity(command)) }
}
