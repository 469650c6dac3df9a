//! `SET` with all its options, and the older commands that are special cases of `SET`.

use larder_resp::Args;

use super::get::TooLarge;
use crate::cmd::options::TimeUnit;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Entry, EntryOp, Expiry, StringEntry, WrongType};

/// The condition under which `SET` stores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition<'a> {
    Always,
    /// Only if the key does not exist.
    Missing,
    /// Only if the key exists.
    Present,
    /// Only if the key has this value: compare-and-set, as in Valkey since 8.1.
    Equal(&'a [u8]),
}

impl Condition<'_> {
    /// Whether to store, if there is an entry or not, which has this value if it is a string.
    fn allows(self, is_present: bool, before: Option<&[u8]>) -> bool {
        match self {
            Condition::Always => true,
            Condition::Missing => !is_present,
            Condition::Present => is_present,
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

pub(crate) fn set(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 3 {
        cx.db().set_argument(&args[1], args, 2, Expiry::Never)?;
        return cx.ok();
    }
    let options = parse(cx, args.skip(3))?;
    if options.condition == Condition::Always && !options.get {
        cx.db().set_argument(&args[1], args, 2, options.expiry)?;
        return cx.ok();
    }
    set_if(cx, args, options)
}

pub(crate) fn setex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_with_ttl(cx, args, TimeUnit::Seconds, "setex")
}

pub(crate) fn psetex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_with_ttl(cx, args, TimeUnit::Millis, "psetex")
}

pub(crate) fn setnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let long = db.record_of_long(&args[1], args, 2);
    let stored = db.update(&args[1], |entry| match entry {
        Some(_) => (EntryOp::Keep, 0),
        None => {
            let record = long.unwrap_or_else(|| db.record(&args[1], &[&args[2]]));
            (EntryOp::Put(record, Expiry::Never), 1)
        }
    })?;
    cx.integer(stored)
}

pub(crate) fn getset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_if(cx, args, Options { get: true, ..Options::NONE })
}

fn set_with_ttl(cx: &mut Context<'_>, args: Args<'_>, unit: TimeUnit, command: &'static str) -> Outcome {
    let deadline = unit.deadline(&args[2], cx.now_ms(), command)?;
    cx.db().set_argument(&args[1], args, 3, Expiry::At(deadline))?;
    cx.ok()
}

/// Checks the condition and stores atomically.
fn set_if(cx: &mut Context<'_>, args: Args<'_>, options: Options<'_>) -> Outcome {
    let (key, value) = (&args[1], &args[2]);
    let (db, too_large) = (cx.db(), TooLarge::of(cx));
    let mut reply = cx.reply();
    let (record, mut long) = (db.record_of_long(key, args, 2), None);
    let (present, stored) = db.update(key, |entry| {
        let present = entry.is_some();
        let string = entry.map(Entry::into_string);
        let needs_string = options.get || matches!(options.condition, Condition::Equal(_));
        if let (true, Some(Err(WrongType))) = (needs_string, &string) {
            return (EntryOp::Keep, Err(WrongType.into()));
        }
        let string = string.and_then(Result::ok);
        if options.get {
            if string.as_ref().is_some_and(|string| too_large.is(string.value())) {
                return (EntryOp::Keep, Err(too_large.error()));
            }
            long = string.as_ref().and_then(StringEntry::share);
            match &string {
                Some(_) if long.is_some() => {}
                Some(string) => reply.bulk(string.value()),
                None => reply.null(),
            }
        }
        let store = options.condition.allows(present, string.as_ref().map(StringEntry::value));
        let put = || {
            let record = record.unwrap_or_else(|| db.record(key, &[value]));
            EntryOp::Put(record, options.expiry)
        };
        (if store { put() } else { EntryOp::Keep }, Ok((present, store)))
    })??;
    match (options.get, stored) {
        (true, _) => cx.count_lookup(key, present),
        (false, true) => reply.simple("OK"),
        (false, false) => reply.null(),
    }
    if let Some(long) = long {
        let all = 0..long.len();
        cx.reply_part(long, all);
    }
    Ok(())
}

/// Parses the options in any order. Options that exclude each other are syntax errors.
fn parse<'a>(cx: &Context<'_>, options: Args<'a>) -> Result<Options<'a>, CommandError> {
    let mut parsed = Options::NONE;
    let mut time: Option<(TimeUnit, &[u8])> = None;
    let mut keep_ttl = false;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        let is_compatible =
            |condition| matches!(parsed.condition, Condition::Always) || parsed.condition == condition;
        if is(b"NX") && is_compatible(Condition::Missing) {
            parsed.condition = Condition::Missing;
        } else if is(b"XX") && is_compatible(Condition::Present) {
            parsed.condition = Condition::Present;
        } else if is(b"IFEQ") && parsed.condition == Condition::Always {
            parsed.condition = Condition::Equal(words.next().ok_or(CommandError::Syntax)?);
        } else if is(b"GET") {
            parsed.get = true;
        } else if is(b"KEEPTTL") && time.is_none() {
            keep_ttl = true;
        } else if keep_ttl {
            return Err(CommandError::Syntax);
        } else {
            time = Some(TimeUnit::with_argument(word, &mut words, time)?);
        }
    }
    parsed.expiry = match time {
        Some((unit, text)) => Expiry::At(unit.deadline(text, cx.now_ms(), "set")?),
        None if keep_ttl => Expiry::Keep,
        None => Expiry::Never,
    };
    Ok(parsed)
}
