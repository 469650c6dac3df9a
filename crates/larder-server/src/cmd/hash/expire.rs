//! `HEXPIRE`, `HTTL`, `HPERSIST` and their relatives: the deadlines of single fields, as in Valkey 9.

use larder_resp::Args;

use super::{WRONG_COUNT, fields, look_up};
use crate::cmd::options::{TimeUnit, integer};
use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::FieldEvents;
use crate::values::hash::{Field, Hash};

/// The reply for a field that does not exist.
const NO_FIELD: i64 = -2;
/// The reply for a field without a deadline.
const NO_DEADLINE: i64 = -1;
/// The reply for a field whose deadline stays because of a condition.
const REFUSED: i64 = 0;
const SET: i64 = 1;
/// The reply for a field that is removed, because its new deadline is past.
const REMOVED: i64 = 2;

pub(crate) fn hexpire(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire(cx, args, TimeUnit::Seconds, "hexpire")
}

pub(crate) fn hpexpire(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire(cx, args, TimeUnit::Millis, "hpexpire")
}

pub(crate) fn hexpireat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire(cx, args, TimeUnit::UnixSeconds, "hexpireat")
}

pub(crate) fn hpexpireat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire(cx, args, TimeUnit::UnixMillis, "hpexpireat")
}

/// On which former deadlines a new one is set.
#[derive(Clone, Copy, Default)]
struct Conditions {
    /// Only on none.
    missing: bool,
    /// Only on any.
    present: bool,
    /// Only on an earlier one; none is later than any.
    greater: bool,
    /// Only on a later one, or none.
    less: bool,
}

impl Conditions {
    /// Parses the words before `FIELDS`. Returns what follows it.
    fn parse(args: Args<'_>) -> Result<(Conditions, Args<'_>), CommandError> {
        let mut conditions = Conditions::default();
        for at in 0..args.len() {
            match args[at].to_ascii_uppercase().as_slice() {
                b"NX" => conditions.missing = true,
                b"XX" => conditions.present = true,
                b"GT" => conditions.greater = true,
                b"LT" => conditions.less = true,
                b"FIELDS" => return conditions.check().map(|()| (conditions, args.skip(at + 1))),
                _ => break,
            }
        }
        conditions.check()?;
        Err(WRONG_COUNT)
    }

    fn check(self) -> Outcome {
        if self.missing && (self.present || self.greater || self.less) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(CommandError::Fixed(text));
        }
        if self.greater && self.less {
            let text = "ERR GT and LT options at the same time are not compatible";
            return Err(CommandError::Fixed(text));
        }
        Ok(())
    }

    fn allow(self, former: Option<i64>, deadline: i64) -> bool {
        match former {
            None => !self.present && !self.greater,
            Some(former) => {
                !(self.missing || self.greater && deadline <= former || self.less && deadline >= former)
            }
        }
    }
}

/// Parses a time of fields as a deadline. Zero is allowed: fields are removed at once.
pub(super) fn deadline(
    unit: TimeUnit,
    text: &[u8],
    now: i64,
    command: &'static str,
) -> Result<i64, CommandError> {
    let number = integer(text)?;
    let deadline = unit.to_unix_ms(number, now).filter(|_| number >= 0);
    deadline.ok_or(CommandError::InvalidExpire(command))
}

/// Sets the deadline of a field that exists, or removes the field if the deadline is past. Returns what has happened.
pub(super) fn set_deadline(hash: &mut Hash, name: &[u8], deadline: Option<i64>, now: i64) -> FieldEvents {
    if deadline.is_some_and(|deadline| deadline <= now) {
        hash.take(name, now);
        return FieldEvents::EXPIRED;
    }
    let Some((value, former)) = hash.read(name, now, |field| (field.value.to_vec(), field.deadline)) else {
        return FieldEvents::NONE;
    };
    if deadline != former {
        hash.put(Field { name, value: &value, deadline }, now);
    }
    match deadline {
        Some(_) => FieldEvents::TIMED,
        None => FieldEvents::PERSISTED.when(former.is_some()),
    }
}

fn expire(cx: &mut Context<'_>, args: Args<'_>, unit: TimeUnit, command: &'static str) -> Outcome {
    let (conditions, rest) = Conditions::parse(args.skip(3))?;
    let db = cx.db();
    let now = db.now_ms();
    let names = fields(rest, 1, WRONG_COUNT)?;
    let deadline = deadline(unit, &args[2], now, command)?;
    let replies = db.edit_hash(&args[1], false, |hash| {
        let (mut events, mut replies) = (FieldEvents::NONE, Vec::with_capacity(names.len()));
        for name in names.iter() {
            let reply = match hash.read(name, now, |field| field.deadline) {
                None => NO_FIELD,
                Some(former) if !conditions.allow(former, deadline) => REFUSED,
                Some(_) => {
                    let event = set_deadline(hash, name, Some(deadline), now);
                    events = events.and(event);
                    if event == FieldEvents::EXPIRED { REMOVED } else { SET }
                }
            };
            replies.push(reply);
        }
        (events, replies)
    })?;
    reply_integers(cx, names, replies);
    Ok(())
}

pub(crate) fn hpersist(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let names = named_fields(args, WRONG_COUNT)?;
    let db = cx.db();
    let now = db.now_ms();
    let replies = db.edit_hash(&args[1], false, |hash| {
        let (mut events, mut replies) = (FieldEvents::NONE, Vec::with_capacity(names.len()));
        for name in names.iter() {
            replies.push(match hash.read(name, now, |field| field.deadline) {
                None => NO_FIELD,
                Some(None) => NO_DEADLINE,
                Some(Some(_)) => {
                    events = events.and(set_deadline(hash, name, None, now));
                    SET
                }
            });
        }
        (events, replies)
    })?;
    reply_integers(cx, names, replies);
    Ok(())
}

pub(crate) fn httl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    times(cx, args, |deadline, now| seconds(deadline - now))
}

pub(crate) fn hpttl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    times(cx, args, |deadline, now| deadline - now)
}

pub(crate) fn hexpiretime(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    times(cx, args, |deadline, _| seconds(deadline))
}

pub(crate) fn hpexpiretime(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    times(cx, args, |deadline, _| deadline)
}

/// Rounded to the nearest.
fn seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1_000
}

/// Replies with what `f` makes of each deadline and the current time.
fn times(cx: &mut Context<'_>, args: Args<'_>, f: fn(i64, i64) -> i64) -> Outcome {
    let names = named_fields(args, CommandError::Syntax)?;
    let now = cx.now_ms();
    let replies = look_up(cx, &args[1], |hash| {
        let reply = |name: &[u8]| match hash.read(name, now, |field| field.deadline) {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => f(deadline, now),
        };
        names.iter().map(reply).collect()
    })?;
    reply_integers(cx, names, replies);
    Ok(())
}

/// The names of `COMMAND key FIELDS number name …`.
fn named_fields(args: Args<'_>, wrong_count: CommandError) -> Result<Args<'_>, CommandError> {
    if !args[2].eq_ignore_ascii_case(b"FIELDS") {
        return Err(CommandError::Syntax);
    }
    fields(args.skip(3), 1, wrong_count)
}

/// One number for each field; without a hash there is none of them.
fn reply_integers(cx: &mut Context<'_>, names: Args<'_>, numbers: Option<Vec<i64>>) {
    let numbers = numbers.unwrap_or_else(|| vec![NO_FIELD; names.len()]);
    let mut reply = cx.reply();
    reply.array(numbers.len());
    numbers.into_iter().for_each(|number| reply.integer(number));
}
