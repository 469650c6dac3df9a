//! `XLEN`, `XRANGE`, `XREVRANGE`: what a stream has.

use larder_resp::Args;

use super::reply::{Selection, encode};
use super::{id, look_up};
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::stream::Stream;

pub(crate) fn xlen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let entries = look_up(cx, &args[1], Stream::len)?;
    cx.integer(entries.unwrap_or(0) as i64)
}

pub(crate) fn xrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range(cx, args, false)
}

pub(crate) fn xrevrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range(cx, args, true)
}

fn range(cx: &mut Context<'_>, args: Args<'_>, reversed: bool) -> Outcome {
    let (first, last) = if reversed { (&args[3], &args[2]) } else { (&args[2], &args[3]) };
    let ids = id::range(first, last)?;
    let most = count(args.skip(4))?;
    let most_bytes = cx.reply_bytes_left();
    let selection = Selection { ids, reversed, most };
    let found = look_up(cx, &args[1], |stream| encode(stream, selection, most_bytes))?;
    match (found, most) {
        (None, _) => cx.reply().array(0),
        // As in Redis.
        (Some(_), Some(0)) => cx.reply().null_array(),
        (Some(entries), _) => entries.ok_or_else(|| cx.reply_too_large())?.reply(cx),
    }
    Ok(())
}

/// The option `COUNT`. A negative number counts as 0.
fn count(options: Args<'_>) -> Result<Option<usize>, CommandError> {
    let (mut count, mut words) = (None, options.iter());
    while let Some(word) = words.next() {
        let number = words.next().filter(|_| word.eq_ignore_ascii_case(b"COUNT"));
        count = Some(integer(number.ok_or(CommandError::Syntax)?)?.max(0) as usize);
    }
    Ok(count)
}
