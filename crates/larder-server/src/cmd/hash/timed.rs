//! `HGETEX`, `HSETEX`, `HGETDEL`: read, store or remove fields together with their deadlines, as in Valkey 9.

use larder_resp::Args;

use super::expire::{deadline, set_deadline};
use super::{WRONG_COUNT, fields};
use crate::cmd::options::TimeUnit;
use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::FieldEvents;
use crate::values::hash::{Field, Hash};

/// What a command does with deadlines.
#[derive(Clone, Copy, Default)]
enum Timing<'a> {
    /// What it does without an option.
    #[default]
    Usual,
    /// `PERSIST` or `KEEPTTL`.
    Other,
    Set(TimeUnit, &'a [u8]),
}

/// The options before `FIELDS`.
#[derive(Clone, Copy, Default)]
struct Options<'a> {
    timing: Timing<'a>,
    /// Only if the key does not exist, or only if it does.
    key_missing: bool,
    key_present: bool,
    /// Only if none of the fields exists, or only if all do.
    fields_missing: bool,
    fields_present: bool,
}

impl<'a> Options<'a> {
    /// Parses the options, and returns what follows `FIELDS`. `other` is the option beside times; `stores` if there are
    /// conditions.
    fn parse(args: Args<'a>, other: &[u8], stores: bool) -> Result<(Self, Args<'a>), CommandError> {
        if !args.iter().any(|word| word.eq_ignore_ascii_case(b"FIELDS")) {
            return Err(WRONG_COUNT);
        }
        let (mut options, mut at) = (Options::default(), 0);
        while let Some(word) = args.get(at) {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            at += 1;
            if is(b"FIELDS") {
                return Ok((options, args.skip(at)));
            } else if is(other) && !matches!(options.timing, Timing::Set(..)) {
                options.timing = Timing::Other;
            } else if stores && is(b"NX") && !options.key_present {
                options.key_missing = true;
            } else if stores && is(b"XX") && !options.key_missing {
                options.key_present = true;
            } else if stores && is(b"FNX") && !options.fields_present {
                options.fields_missing = true;
            } else if stores && is(b"FXX") && !options.fields_missing {
                options.fields_present = true;
            } else {
                let before = match options.timing {
                    Timing::Usual => None,
                    Timing::Set(unit, text) => Some((unit, text)),
                    Timing::Other => return Err(CommandError::Syntax),
                };
                let mut rest = args.skip(at).iter();
                let (unit, text) = TimeUnit::with_argument(word, &mut rest, before)?;
                options.timing = Timing::Set(unit, text);
                at += 1;
            }
        }
        Err(CommandError::Syntax)
    }

    /// The deadline to set, if it is one.
    fn deadline(&self, now: i64, command: &'static str) -> Result<Option<i64>, CommandError> {
        match self.timing {
            Timing::Set(unit, text) => deadline(unit, text, now, command).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether its conditions hold.
    fn allow(&self, hash: &Hash, names: Args<'_>, now: i64) -> bool {
        let exists = hash.len(now) > 0;
        let names = || names.iter().step_by(2);
        !(self.key_missing && exists
            || self.key_present && !exists
            || self.fields_missing && names().any(|name| hash.contains(name, now))
            || self.fields_present && !names().all(|name| hash.contains(name, now)))
    }
}

pub(crate) fn hgetex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (options, rest) = Options::parse(args.skip(2), b"PERSIST", false)?;
    let names = fields(rest, 1, WRONG_COUNT)?;
    let now = cx.now_ms();
    // The type of the value is checked before it.
    let deadline = options.deadline(now, "hgetex");
    let is_valid = deadline.clone().map(drop);
    take_each(cx, &args[1], names, is_valid, |hash, name| match (options.timing, &deadline) {
        (Timing::Other, _) => set_deadline(hash, name, None, now),
        (Timing::Set(..), Ok(deadline)) => set_deadline(hash, name, *deadline, now),
        _ => FieldEvents::NONE,
    })
}

pub(crate) fn hgetdel(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !args[2].eq_ignore_ascii_case(b"FIELDS") {
        return Err(CommandError::Syntax);
    }
    let names = fields(args.skip(3), 1, WRONG_COUNT)?;
    let now = cx.now_ms();
    take_each(cx, &args[1], names, Ok(()), |hash, name| FieldEvents::OWN.when(hash.take(name, now)))
}

/// Replies with the values of fields, and changes each that exists by `change` after it was read. Nothing is changed if
/// `is_valid` is an error, or if the reply would be too large.
fn take_each(
    cx: &mut Context<'_>,
    key: &[u8],
    names: Args<'_>,
    is_valid: Outcome,
    change: impl Fn(&mut Hash, &[u8]) -> FieldEvents,
) -> Outcome {
    let (db, bytes_left) = (cx.db(), cx.reply_bytes_left());
    let now = db.now_ms();
    let too_large = cx.check_reply(u64::MAX);
    let mut values: Vec<Option<Vec<u8>>> = Vec::new();
    let found = db.edit_hash(key, false, |hash| {
        let bytes = |name: &[u8]| hash.read(name, now, |field| field.value.len()).unwrap_or(0) as u64;
        let is_too_large = names.iter().map(bytes).sum::<u64>() > bytes_left;
        let checked = if is_too_large { is_valid.clone().and(too_large) } else { is_valid.clone() };
        let mut events = FieldEvents::NONE;
        if checked.is_ok() {
            for name in names.iter() {
                let value = hash.read(name, now, |field| field.value.to_vec());
                if value.is_some() {
                    events = events.and(change(hash, name));
                }
                values.push(value);
            }
        }
        (events, checked)
    })?;
    cx.count_lookup(key, found.is_some());
    found.unwrap_or(is_valid)?;
    values.resize(names.len(), None);
    let mut reply = cx.reply();
    reply.array(values.len());
    for value in values {
        match value {
            Some(value) => reply.bulk(&value),
            None => reply.null(),
        }
    }
    Ok(())
}

pub(crate) fn hsetex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (options, rest) = Options::parse(args.skip(2), b"KEEPTTL", true)?;
    let pairs = fields(rest, 2, WRONG_COUNT)?;
    let db = cx.db();
    let now = db.now_ms();
    let deadline = options.deadline(now, "hsetex");
    let stored = db.edit_hash(&args[1], true, |hash| {
        let deadline = match deadline {
            Ok(deadline) => deadline,
            Err(error) => return (FieldEvents::NONE, Err(error)),
        };
        if !options.allow(hash, pairs, now) {
            return (FieldEvents::NONE, Ok(false));
        }
        let is_past = deadline.is_some_and(|deadline| deadline <= now);
        for (name, value) in pairs.iter().step_by(2).zip(pairs.iter().skip(1).step_by(2)) {
            let deadline = match options.timing {
                Timing::Other => hash.read(name, now, |field| field.deadline).flatten(),
                _ => deadline,
            };
            match is_past {
                true => _ = hash.take(name, now),
                false => _ = hash.put(Field { name, value, deadline }, now),
            }
        }
        let timed = FieldEvents::TIMED.when(deadline.is_some());
        (FieldEvents::OWN.and(timed).and(FieldEvents::EXPIRED.when(is_past)), Ok(true))
    })?;
    cx.integer(stored.unwrap_or(Ok(false))?.into())
}
