//! `PFADD`, `PFCOUNT`, `PFMERGE`: estimates of the number of different elements.

use larder_resp::Args;

use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{EntryOp, Expiry};
use crate::values::hyperloglog as hll;
use crate::values::hyperloglog::HllError;

impl From<HllError> for CommandError {
    fn from(error: HllError) -> Self {
        CommandError::Fixed(match error {
            HllError::NotValid => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            HllError::Corrupted => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

pub(crate) fn pfadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let elements = || args.skip(2).iter();
    let changed = db.update_string(&args[1], |entry| {
        let Some(mut entry) = entry else {
            let mut value = hll::empty();
            let added = hll::add(&mut value, elements());
            // A new value has changed, with or without elements.
            hll::invalidate(&mut value);
            return (EntryOp::Put(db.record(&args[1], &[&value]), Expiry::Never), added.map(|_| true));
        };
        if let Err(error) = hll::check(entry.value()) {
            return (EntryOp::Keep, Err(error));
        }
        if hll::is_dense(entry.value()) {
            let changed = hll::add_to_dense(entry.value_mut(), elements());
            return (if changed { EntryOp::Edited } else { EntryOp::Keep }, Ok(changed));
        }
        let mut value = entry.value().to_vec();
        match hll::add(&mut value, elements()) {
            Ok(true) => (EntryOp::Put(db.record(&args[1], &[&value]), Expiry::Keep), Ok(true)),
            unchanged => (EntryOp::Keep, unchanged),
        }
    })??;
    cx.integer(i64::from(changed))
}

pub(crate) fn pfcount(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 2 {
        return count_union(cx, args);
    }
    let counted = cx.db().update_string(&args[1], |entry| {
        let Some(mut entry) = entry else { return (EntryOp::Keep, Ok(None)) };
        if let Err(error) = hll::check(entry.value()) {
            return (EntryOp::Keep, Err(error));
        }
        if let Some(estimate) = hll::cached(entry.value()) {
            return (EntryOp::Keep, Ok(Some(estimate)));
        }
        let mut registers = hll::no_registers();
        if let Err(error) = hll::merge_into(&mut registers, entry.value()) {
            return (EntryOp::Keep, Err(error));
        }
        let estimate = hll::estimate(&registers);
        hll::set_cached(entry.value_mut(), estimate);
        (EntryOp::Edited, Ok(Some(estimate)))
    })??;
    cx.count_lookup(&args[1], counted.is_some());
    cx.integer(counted.unwrap_or(0) as i64)
}

fn count_union(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut registers = hll::no_registers();
    let (db, mut locked) = cx.lock(args.skip(1).iter());
    for name in args.skip(1).iter() {
        let merged = locked.get(db.key(name), |value| {
            hll::check(value).and_then(|()| hll::merge_into(&mut registers, value))
        })?;
        cx.count_lookup(name, merged.is_some());
        merged.transpose()?;
    }
    drop(locked);
    cx.integer(hll::estimate(&registers) as i64)
}

pub(crate) fn pfmerge(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (mut registers, mut is_any_dense) = (hll::no_registers(), false);
    let (db, mut locked) = cx.lock(args.skip(1).iter());
    let to = db.key(&args[1]);
    for name in args.skip(1).iter() {
        let merged = locked.get(db.key(name), |value| {
            hll::check(value)?;
            is_any_dense |= hll::is_dense(value);
            hll::merge_into(&mut registers, value)
        })?;
        merged.transpose()?;
    }
    let mut value = locked.get(to, <[u8]>::to_vec)?.unwrap_or_else(hll::empty);
    hll::raise_all(&mut value, &registers, is_any_dense)?;
    locked.put(db.record(&args[1], &[&value]), Expiry::Keep)?;
    drop(locked);
    cx.ok()
}
