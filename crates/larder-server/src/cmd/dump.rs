//! `DUMP` and `RESTORE` of strings, in the format of Redis.

use larder_resp::{Args, parse_integer};

use super::large_read::{LargeRead, Work};
use super::options::integer;
use super::{CommandError, Context, Outcome};
use crate::db::{EntryOp, Expiry, Found};
use crate::rdb::{self, LongDump, RdbError};

pub(super) fn dump(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = match cx.db().get_or_share(&args[1], rdb::dump) {
        Ok(found) => found,
        Err(_) => return Err(CommandError::Fixed("ERR only strings can be serialized")),
    };
    cx.count_lookup(&args[1], found.is_some());
    match found {
        None => cx.reply().null(),
        Some(Found::Read(payload)) => cx.reply().bulk(&payload),
        Some(Found::Large(value)) => {
            let (all, work) = (0..value.len(), Work::Dump(LongDump::new(value.len())));
            return LargeRead::begin(cx, value, all, work);
        }
    }
    Ok(())
}

pub(super) fn restore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Options { replaces, is_absolute } = Options::parse(args.skip(4))?;
    let (db, name) = (cx.db(), &args[1]);
    if !replaces && db.contains(name) {
        return Err(BUSY_KEY);
    }
    let ttl_ms = integer(&args[2])?;
    if ttl_ms < 0 {
        return Err(CommandError::Fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let max_memory = usize::try_from(cx.state.store.max_memory()).unwrap_or(usize::MAX);
    let most = cx.state.max_bulk_bytes().min(max_memory);
    let value = rdb::restore(&args[3], most).map_err(|error| match error {
        RdbError::Checksum => CommandError::Fixed("ERR DUMP payload version or checksum are wrong"),
        RdbError::Format => CommandError::Fixed("ERR Bad data format"),
        RdbError::TooLong => CommandError::OutOfMemory,
    })?;
    let now_ms = cx.now_ms();
    let deadline = if is_absolute { ttl_ms } else { ttl_ms.saturating_add(now_ms) };
    let expiry = if ttl_ms == 0 { Expiry::Never } else { Expiry::At(deadline) };
    let is_expired = ttl_ms != 0 && deadline <= now_ms;
    let record = db.record(name, &[&value]);
    // Another thread may have created the key meanwhile.
    let stored = db.update(name, |entry| match entry {
        Some(_) if !replaces => (EntryOp::Keep, false),
        _ if is_expired => (EntryOp::Remove, true),
        _ => (EntryOp::Put(record, expiry), true),
    })?;
    if stored { cx.ok() } else { Err(BUSY_KEY) }
}

const BUSY_KEY: CommandError = CommandError::Fixed("BUSYKEY Target key name already exists.");

#[derive(Default)]
struct Options {
    replaces: bool,
    /// Whether the time to live is a deadline in milliseconds of Unix time.
    is_absolute: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let (mut has_idle_time, mut has_frequency) = (false, false);
        let mut words = args.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"REPLACE" => options.replaces = true,
                b"ABSTTL" => options.is_absolute = true,
                // Uses are not recorded by time or number: the value is checked and not used.
                b"IDLETIME" if words.len() > 0 && !has_frequency => {
                    has_idle_time = true;
                    if words.next().map(integer).transpose()?.is_some_and(|seconds| seconds < 0) {
                        return Err(CommandError::Fixed("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                }
                b"FREQ" if words.len() > 0 && !has_idle_time => {
                    has_frequency = true;
                    let frequency = words.next().and_then(parse_integer).ok_or(CommandError::NotInteger)?;
                    if !(0..=255).contains(&frequency) {
                        return Err(CommandError::Fixed("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                    }
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }
}
