//! `SET` with all its options, and the older commands that are special cases of it.

use larder_resp::Args;

use super::options::TimeUnit;
use super::{CommandError, Context, Outcome};
use crate::db::{Entry, EntryOp, Expiry};

/// When `SET` is to store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition<'a> {
    Always,
    /// Only if there is no such key.
    Missing,
    /// Only if there is one.
    Present,
    /// Only if there is one and its value is this: compare and set, as Valkey has it since 8.1.
    Equal(&'a [u8]),
}

impl Condition<'_> {
    fn allows(self, before: Option<&[u8]>) -> bool {
        match self {
            Condition::Always => true,
            Condition::Missing => before.is_none(),
            Condition::Present => before.is_some(),
            Condition::Equal(expected) => before == Some(expected),
        }
    }
}

#[derive(Clone, Copy)]
struct Options<'a> {
    condition: Condition<'a>,
    expiry: Expiry,
    /// Whether the reply is the former value.
    get: bool,
}

impl Options<'_> {
    const NONE: Options<'static> =
        Options { condition: Condition::Always, expiry: Expiry::Never, get: false };
}

pub(super) fn set(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 3 {
        cx.db().set(&args[1], &args[2], Expiry::Never)?;
        return cx.ok();
    }
    let options = parse(cx, args.skip(3))?;
    if options.condition == Condition::Always && !options.get {
        cx.db().set(&args[1], &args[2], options.expiry)?;
        return cx.ok();
    }
    set_if(cx, &args[1], &args[2], options)
}

pub(super) fn setex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_for(cx, args, TimeUnit::Seconds, "setex")
}

pub(super) fn psetex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_for(cx, args, TimeUnit::Millis, "psetex")
}

pub(super) fn setnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let stored = db.update(&args[1], |entry| match entry {
        Some(_) => (EntryOp::Keep, 0),
        None => (EntryOp::Put(db.record(&args[1], &[&args[2]]), Expiry::Never), 1),
    })?;
    cx.integer(stored)
}

pub(super) fn getset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_if(cx, &args[1], &args[2], Options { get: true, ..Options::NONE })
}

fn set_for(cx: &mut Context<'_>, args: Args<'_>, unit: TimeUnit, command: &'static str) -> Outcome {
    let deadline = unit.deadline(&args[2], cx.now_ms(), command)?;
    cx.db().set(&args[1], &args[3], Expiry::At(deadline))?;
    cx.ok()
}

/// Looks at the former entry and stores in one step.
fn set_if(cx: &mut Context<'_>, key: &[u8], value: &[u8], options: Options<'_>) -> Outcome {
    let db = cx.db();
    let mut reply = cx.reply();
    let (present, stored) = db.update(key, |entry| {
        let present = entry.is_some();
        if options.get {
            match &entry {
                Some(entry) => reply.bulk(entry.value()),
                None => reply.null(),
            }
        }
        let store = options.condition.allows(entry.as_ref().map(Entry::value));
        let change =
            if store { EntryOp::Put(db.record(key, &[value]), options.expiry) } else { EntryOp::Keep };
        (change, (present, store))
    })?;
    match (options.get, stored) {
        (true, _) => cx.looked_up(present),
        (false, true) => reply.simple("OK"),
        (false, false) => reply.null(),
    }
    Ok(())
}

/// Reads the options in any order; kinds that exclude each other are syntax errors.
fn parse<'a>(cx: &Context<'_>, options: Args<'a>) -> Result<Options<'a>, CommandError> {
    let mut parsed = Options::NONE;
    let mut time: Option<(TimeUnit, &[u8])> = None;
    let mut keep = false;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        let may_be =
            |condition| matches!(parsed.condition, Condition::Always) || parsed.condition == condition;
        if is(b"NX") && may_be(Condition::Missing) {
            parsed.condition = Condition::Missing;
        } else if is(b"XX") && may_be(Condition::Present) {
            parsed.condition = Condition::Present;
        } else if is(b"IFEQ") && parsed.condition == Condition::Always {
            parsed.condition = Condition::Equal(words.next().ok_or(CommandError::Syntax)?);
        } else if is(b"GET") {
            parsed.get = true;
        } else if is(b"KEEPTTL") && time.is_none() {
            keep = true;
        } else {
            // The same unit again replaces the first time; another one is an error.
            let is_free = |unit: &TimeUnit| !keep && time.is_none_or(|(before, _)| before == *unit);
            let unit = TimeUnit::of_option(word).filter(is_free);
            time = Some(unit.zip(words.next()).ok_or(CommandError::Syntax)?);
        }
    }
    parsed.expiry = match time {
        Some((unit, text)) => Expiry::At(unit.deadline(text, cx.now_ms(), "set")?),
        None if keep => Expiry::Keep,
        None => Expiry::Never,
    };
    Ok(parsed)
}
