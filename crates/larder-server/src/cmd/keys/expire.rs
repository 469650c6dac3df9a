//! Deadlines: `EXPIRE` and `TTL` in seconds and milliseconds, relative and in Unix time, and `PERSIST`.

use larder_resp::Args;

use crate::cmd::options::{TimeUnit, integer};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{EntryOp, Expiry};

pub(crate) fn expire(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_deadline(cx, args, TimeUnit::Seconds, "expire")
}

pub(crate) fn pexpire(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_deadline(cx, args, TimeUnit::Millis, "pexpire")
}

pub(crate) fn expireat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_deadline(cx, args, TimeUnit::UnixSeconds, "expireat")
}

pub(crate) fn pexpireat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_deadline(cx, args, TimeUnit::UnixMillis, "pexpireat")
}

pub(crate) fn ttl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = cx.now_ms();
    reply_deadline(cx, args, |deadline| round_to_seconds(deadline.saturating_sub(now_ms).max(0)))
}

pub(crate) fn pttl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_ms = cx.now_ms();
    reply_deadline(cx, args, |deadline| deadline.saturating_sub(now_ms).max(0))
}

pub(crate) fn expiretime(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply_deadline(cx, args, round_to_seconds)
}

pub(crate) fn pexpiretime(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply_deadline(cx, args, |deadline| deadline)
}

pub(crate) fn persist(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let had_deadline =
        cx.db().update(&args[1], |entry| match entry.and_then(|entry| entry.expires_at()) {
            Some(_) => (EntryOp::Expire(Expiry::Never), true),
            None => (EntryOp::Keep, false),
        })?;
    cx.integer(i64::from(had_deadline))
}

/// Rounds to the nearest second, as Redis does.
fn round_to_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}

fn reply_deadline(cx: &mut Context<'_>, args: Args<'_>, convert: impl Fn(i64) -> i64) -> Outcome {
    const NO_KEY: i64 = -2;
    const NO_DEADLINE: i64 = -1;
    let deadline = cx.db().deadline(&args[1]);
    cx.count_lookup(&args[1], deadline.is_some());
    cx.integer(match deadline {
        None => NO_KEY,
        Some(None) => NO_DEADLINE,
        Some(Some(deadline)) => convert(deadline),
    })
}

fn set_deadline(cx: &mut Context<'_>, args: Args<'_>, unit: TimeUnit, command: &'static str) -> Outcome {
    let condition = Condition::parse(args.skip(3))?;
    let now_ms = cx.now_ms();
    let number = integer(&args[2])?;
    let deadline = unit.to_unix_ms(number, now_ms).ok_or(CommandError::InvalidExpire(command))?;
    let updated = cx.db().update(&args[1], |entry| match entry {
        Some(entry) if condition.allows(entry.expires_at(), deadline) => {
            let operation =
                if deadline <= now_ms { EntryOp::Remove } else { EntryOp::Expire(Expiry::At(deadline)) };
            (operation, true)
        }
        _ => (EntryOp::Keep, false),
    })?;
    cx.integer(i64::from(updated))
}

/// The condition under which a new deadline replaces the old one.
#[derive(Default)]
struct Condition {
    missing: bool,
    present: bool,
    greater: bool,
    less: bool,
}

impl Condition {
    fn parse(options: Args<'_>) -> Result<Condition, CommandError> {
        let mut condition = Condition::default();
        for option in options.iter() {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" => condition.missing = true,
                b"XX" => condition.present = true,
                b"GT" => condition.greater = true,
                b"LT" => condition.less = true,
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(CommandError::Other(format!("Unsupported option {option}")));
                }
            }
        }
        if condition.missing && (condition.present || condition.greater || condition.less) {
            return Err(CommandError::Fixed(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.greater && condition.less {
            return Err(CommandError::Fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// An entry without a deadline counts as one with an infinite deadline.
    fn allows(&self, before: Option<i64>, after: i64) -> bool {
        let is_greater = before.is_some_and(|before| after > before);
        let is_less = before.is_none_or(|before| after < before);
        !(self.missing && before.is_some()
            || self.present && before.is_none()
            || self.greater && !is_greater
            || self.less && !is_less)
    }
}
