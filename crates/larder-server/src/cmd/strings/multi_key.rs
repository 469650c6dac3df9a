//! `MGET`, `MSET`, `MSETNX`, `DEL`, `EXISTS`, `TOUCH`: several keys in one atomic step.

use larder_engine::raw::SharedBytes;
use larder_resp::Args;

use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Database, Key, LockedKeys, PrefetchBatch, Record};

/// Keys that are prefetched at a time.
const PREFETCHED_KEYS: usize = 16;

pub(crate) fn mget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    cx.reply().array(args.len() - 1);
    let mut long_values = LongValues::default();
    for_each_key(cx, args, |cx, locked, key| {
        // A request may repeat the key of a long value a million times.
        if cx.check_reply(long_values.bytes).is_err() {
            return;
        }
        let mut reply = cx.reply();
        let long = locked.read(key, |record| {
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
        cx.count_lookup(key.name, long.is_some());
    });
    cx.check_reply(long_values.bytes)?;
    long_values.insert_into(cx);
    Ok(())
}

/// Long values of a reply that is written without them while their keys are locked.
#[derive(Default)]
struct LongValues {
    /// Each with its position in the reply.
    values: Vec<(usize, SharedBytes)>,
    bytes: u64,
}

impl LongValues {
    fn push(&mut self, position: usize, value: &SharedBytes) {
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
            cx.reply_part(value.clone(), 0..value.len());
            from = *position;
        }
        cx.out.extend_from_slice(&rest[from - start..]);
    }
}

/// Also `UNLINK`: both free the values after the locks are released.
pub(crate) fn del(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 2 {
        return cx.integer(i64::from(cx.db().remove(&args[1])));
    }
    let mut removed = 0;
    for_each_key(cx, args, |_, locked, key| removed += i64::from(locked.remove(key)));
    cx.integer(removed)
}

pub(crate) fn exists(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    count(cx, args, |locked, key| locked.contains(key))
}

pub(crate) fn touch(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    count(cx, args, |locked, key| locked.read(key, |_| ()).is_some())
}

fn count(
    cx: &mut Context<'_>,
    args: Args<'_>,
    is_present: impl Fn(&mut LockedKeys<'_>, Key<'_>) -> bool,
) -> Outcome {
    let mut number = 0;
    for_each_key(cx, args, |cx, locked, key| {
        let found = is_present(locked, key);
        cx.count_lookup(key.name, found);
        number += i64::from(found);
    });
    cx.integer(number)
}

/// Locks the keys of a command, which are all its arguments, and calls `f` with each.
fn for_each_key<'a>(
    cx: &mut Context<'a>,
    args: Args<'_>,
    mut f: impl FnMut(&mut Context<'a>, &mut LockedKeys<'_>, Key<'_>),
) {
    let names = args.skip(1);
    let (db, mut locked) = cx.lock(names.iter());
    for (index, name) in names.iter().enumerate() {
        if index % PREFETCHED_KEYS == 0 {
            prefetch(db, names.skip(index));
        }
        f(cx, &mut locked, db.key(name));
    }
}

/// Prefetches the memory of the next keys.
fn prefetch(db: Database<'_>, keys: Args<'_>) {
    let mut batch = PrefetchBatch::new();
    keys.iter().take(PREFETCHED_KEYS).for_each(|key| db.add_to_batch(&mut batch, key));
    db.prefetch(&batch);
}

pub(crate) fn mset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pairs = pairs(args, "mset")?;
    let (_, mut locked, records) = lock_and_record(cx, pairs)?;
    locked.put_all(records)?;
    drop(locked);
    cx.ok()
}

pub(crate) fn msetnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pairs = pairs(args, "msetnx")?;
    let (db, mut locked, records) = lock_and_record(cx, pairs)?;
    let is_free = !names(pairs).any(|name| locked.contains(db.key(name)));
    if is_free {
        locked.put_all(records)?;
    }
    drop(locked);
    cx.integer(i64::from(is_free))
}

/// Locks the keys of all pairs. Their records are made before.
fn lock_and_record<'a>(
    cx: &Context<'a>,
    pairs: Args<'_>,
) -> Result<(Database<'a>, LockedKeys<'a>, Vec<Record>), CommandError> {
    let db = cx.db();
    let records = records(cx, db, pairs)?;
    Ok((db, db.lock(names(pairs)), records))
}

/// The records of all pairs. An error if they cannot be in the store together: nothing has changed then.
fn records(cx: &Context<'_>, db: Database<'_>, pairs: Args<'_>) -> Result<Vec<Record>, CommandError> {
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
