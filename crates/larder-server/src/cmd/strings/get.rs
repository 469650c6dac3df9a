//! `GET` and other commands that return a value, a part of it or its length.

use std::ops::Range;

use larder_resp::Args;

use crate::cmd::options::{TimeUnit, integer};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{EntryOp, Expiry, Found};

pub(crate) fn get(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (db, key) = (cx.db(), &args[1]);
    let mut reply = cx.reply();
    let found = match db.get_or_share(key, |value| reply.bulk(value))? {
        None => {
            reply.null();
            false
        }
        Some(Found::Read(())) => true,
        Some(Found::Large(value)) => {
            let all = 0..value.len();
            cx.check_reply(all.len() as u64)?;
            cx.reply_part(value, all);
            true
        }
    };
    cx.count_lookup(key, found);
    Ok(())
}

pub(crate) fn getdel(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply_and_update(cx, &args[1], || Ok(EntryOp::Remove))
}

pub(crate) fn getex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = cx.now_ms();
    let (mut time, mut persists) = (None, false);
    let mut words = args.skip(2).iter();
    while let Some(word) = words.next() {
        if time.is_none() && word.eq_ignore_ascii_case(b"PERSIST") {
            persists = true;
        } else if persists {
            return Err(CommandError::Syntax);
        } else {
            time = Some(TimeUnit::with_argument(word, &mut words, time)?);
        }
    }
    match time {
        Some((unit, text)) => reply_and_update(cx, &args[1], || {
            let deadline = unit.deadline(text, now_ms, "getex")?;
            Ok(if deadline <= now_ms { EntryOp::Remove } else { EntryOp::Expire(Expiry::At(deadline)) })
        }),
        None if persists => reply_and_update(cx, &args[1], || Ok(EntryOp::Expire(Expiry::Never))),
        None => get(cx, args),
    }
}

/// The limit of a reply, which is checked before a value is changed that is the reply.
#[derive(Clone, Copy)]
pub(crate) struct TooLarge {
    bytes_left: u64,
    limit: u64,
}

impl TooLarge {
    pub(crate) fn of(cx: &Context<'_>) -> Self {
        TooLarge { bytes_left: cx.reply_bytes_left(), limit: cx.state.max_reply_bytes() }
    }

    pub(crate) fn is(self, value: &[u8]) -> bool {
        value.len() as u64 + FRAME_BYTES > self.bytes_left
    }

    pub(crate) fn error(self) -> CommandError {
        CommandError::ReplyTooLarge(self.limit)
    }
}

/// Bytes of a reply beside its value, at most.
const FRAME_BYTES: u64 = 32;

/// Replies with a value and changes its entry atomically. If there is no entry, `operation` is not called and cannot
/// fail, as in Redis.
fn reply_and_update(
    cx: &mut Context<'_>,
    key: &[u8],
    operation: impl FnOnce() -> Result<EntryOp, CommandError>,
) -> Outcome {
    let (db, too_large) = (cx.db(), TooLarge::of(cx));
    let mut reply = cx.reply();
    let mut long = None;
    let found = db.update_string(key, |entry| match entry.map(|entry| (entry, operation())) {
        Some((entry, Ok(_))) if too_large.is(entry.value()) => (EntryOp::Keep, Err(too_large.error())),
        Some((entry, Ok(operation))) => {
            long = entry.share();
            if long.is_none() {
                reply.bulk(entry.value());
            }
            (operation, Ok(true))
        }
        Some((_, Err(error))) => (EntryOp::Keep, Err(error)),
        None => (EntryOp::Keep, Ok(false)),
    })??;
    match (found, long) {
        (true, Some(long)) => {
            let all = 0..long.len();
            cx.reply_part(long, all);
        }
        (true, None) => {}
        (false, _) => reply.null(),
    }
    cx.count_lookup(key, found);
    Ok(())
}

pub(crate) fn strlen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let length = cx.db().get(&args[1], <[u8]>::len)?;
    cx.count_lookup(&args[1], length.is_some());
    cx.integer(length.unwrap_or(0) as i64)
}

pub(crate) fn getrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    let db = cx.db();
    let mut reply = cx.reply();
    let found = match db.get_or_share(&args[1], |value| reply.bulk(&value[range(value, start, end)]))? {
        None => {
            reply.bulk(b"");
            false
        }
        Some(Found::Read(())) => true,
        Some(Found::Large(value)) => {
            let part = range(&value, start, end);
            cx.check_reply(part.len() as u64)?;
            cx.reply_part(value, part);
            true
        }
    };
    cx.count_lookup(&args[1], found);
    Ok(())
}

/// Where the bytes from `start` to `end` inclusive are; negative offsets count from the end.
fn range(value: &[u8], start: i64, end: i64) -> Range<usize> {
    let length = value.len() as i64;
    let absolute = |offset: i64| if offset < 0 { (offset + length).max(0) } else { offset };
    if value.is_empty() || (start < 0 && end < 0 && start > end) {
        return 0..0;
    }
    let (start, end) = (absolute(start), absolute(end).min(length - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn range_is_clamped_to_value() {
        for (start, end, expected) in [
            (0, -1, "hello"),
            (1, 3, "ell"),
            (-3, -1, "llo"),
            (-100, 100, "hello"),
            (3, 1, ""),
            (5, 10, ""),
            (i64::MIN, i64::MAX, "hello"),
            (-1, -5, ""),
            (0, -100, "h"),
        ] {
            assert_eq!(&b"hello"[range(b"hello", start, end)], expected.as_bytes(), "{start} {end}");
        }
    }
}
