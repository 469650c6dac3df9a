//! `HINCRBY` and `HINCRBYFLOAT`: change a number, which is stored as text. The deadline of the field is kept.

use larder_resp::{Args, parse_integer};

use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::FieldEvents;
use crate::values::decimal::Decimal;
use crate::values::hash::Field;

pub(crate) fn hincrby(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let amount = integer(&args[3])?;
    let sum = change(cx, args, |before| {
        let before = before.map_or(Some(0), parse_integer);
        let before = before.ok_or(CommandError::Fixed("ERR hash value is not an integer"))?;
        before.checked_add(amount).ok_or(CommandError::Overflow)
    })?;
    cx.integer(sum)
}

pub(crate) fn hincrbyfloat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let amount = Decimal::parse(&args[3]).ok_or(CommandError::NotFloat)?;
    if !amount.is_finite() {
        return Err(CommandError::Fixed("ERR value is NaN or Infinity"));
    }
    let sum = change(cx, args, |before| {
        let before = before.map_or(Some(Decimal::ZERO), Decimal::parse);
        let before = before.ok_or(CommandError::Fixed("ERR hash value is not a float"))?;
        let not_finite = CommandError::Fixed("ERR increment would produce NaN or Infinity");
        before.add(amount).ok_or(not_finite)
    })?;
    cx.reply().bulk(sum.to_string().as_bytes());
    Ok(())
}

/// Stores what `sum` makes of the former value of a field, as text.
fn change<N: std::fmt::Display>(
    cx: &mut Context<'_>,
    args: Args<'_>,
    sum: impl Fn(Option<&[u8]>) -> Result<N, CommandError>,
) -> Result<N, CommandError> {
    let (db, name) = (cx.db(), &args[2]);
    let now = db.now_ms();
    let changed = db.edit_hash(&args[1], true, |hash| {
        let found = hash.read(name, now, |field| (sum(Some(field.value)), field.deadline));
        let (number, deadline) = found.unwrap_or_else(|| (sum(None), None));
        if let Ok(number) = &number {
            hash.put(Field { name, value: number.to_string().as_bytes(), deadline }, now);
        }
        (FieldEvents::OWN.when(number.is_ok()), number)
    })?;
    changed.expect("a missing hash is created")
}
