//! `INCR`, `DECR` and related commands: change a number, which is stored as text, atomically. The deadline is kept.

use larder_resp::{Args, parse_integer};

use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Database, EntryOp, Expiry, StringEntry};
use crate::values::decimal::Decimal;

pub(crate) fn incr(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, &args[1], 1)
}

pub(crate) fn decr(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, &args[1], -1)
}

pub(crate) fn incrby(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, &args[1], integer(&args[2])?)
}

pub(crate) fn decrby(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let amount = integer(&args[2])?;
    add(cx, &args[1], amount.checked_neg().ok_or(CommandError::Fixed("ERR decrement would overflow"))?)
}

pub(crate) fn incrbyfloat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    // The type of the value is checked before.
    let amount = Decimal::parse(&args[2]);
    let db = cx.db();
    let sum = db.update_string(&args[1], |entry| {
        let before = entry.as_ref().map_or(Some(Decimal::ZERO), |entry| Decimal::parse(entry.value()));
        let not_finite = CommandError::Fixed("ERR increment would produce NaN or Infinity");
        let sum = before
            .zip(amount)
            .ok_or(CommandError::NotFloat)
            .and_then(|(before, amount)| before.add(amount).ok_or(not_finite));
        match sum {
            Ok(sum) => {
                let text = sum.to_string();
                (write(db, &args[1], entry, text.as_bytes()), Ok(text))
            }
            Err(error) => (EntryOp::Keep, Err(error)),
        }
    })??;
    cx.reply().bulk(sum.as_bytes());
    Ok(())
}

fn add(cx: &mut Context<'_>, key: &[u8], amount: i64) -> Outcome {
    let db = cx.db();
    let sum = db.update_string(key, |entry| {
        let before = entry.as_ref().map_or(Some(0), |entry| parse_integer(entry.value()));
        let sum = before
            .ok_or(CommandError::NotInteger)
            .and_then(|before| before.checked_add(amount).ok_or(CommandError::Overflow));
        match sum {
            Ok(sum) => (write(db, key, entry, itoa::Buffer::new().format(sum).as_bytes()), Ok(sum)),
            Err(error) => (EntryOp::Keep, Err(error)),
        }
    })??;
    cx.integer(sum)
}

/// Writes a number, in place if the former one has the same length.
fn write(db: Database<'_>, key: &[u8], entry: Option<StringEntry<'_>>, text: &[u8]) -> EntryOp {
    match entry {
        Some(mut entry) if entry.value().len() == text.len() => {
            entry.value_mut().copy_from_slice(text);
            EntryOp::Edited
        }
        _ => EntryOp::Put(db.record(key, &[text]), Expiry::Keep),
    }
}
