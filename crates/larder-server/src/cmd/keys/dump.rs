//! `DUMP` and `RESTORE`, in the format of Redis. A large string is checked and copied in slices, and other connections
//! of the thread get their turns in between.

use larder_resp::{Args, parse_integer};

use crate::cmd::options::integer;
use crate::cmd::slices::{self, SlicedWork};
use crate::cmd::strings::large_read::{LargeRead, Work};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Database, EntryOp, Expiry, Found, Record};
use crate::values::large::{Building, SLICE_BYTES, release};
use crate::values::rdb::{self, LongDump, LongRestore, RdbError};

pub(crate) fn dump(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = match cx.db().get_or_share(&args[1], rdb::dump) {
        Ok(found) => found,
        Err(_) => return dump_object(cx, &args[1]),
    };
    cx.count_lookup(&args[1], found.is_some());
    match found {
        None => cx.reply().null(),
        Some(Found::Read(payload)) => cx.reply().bulk(&payload),
        Some(Found::Large(value)) => {
            cx.check_reply(value.len() as u64)?;
            let (all, work) = (0..value.len(), Work::Dump(LongDump::new(value.len())));
            return LargeRead::begin(cx, &args[1], value, all, work);
        }
    }
    Ok(())
}

/// Serializes what is not a string.
fn dump_object(cx: &mut Context<'_>, key: &[u8]) -> Outcome {
    // It becomes a string only between two lookups.
    let found = cx.db().dump_object(key);
    cx.count_lookup(key, found.is_some());
    let mut reply = cx.reply();
    match found {
        Some(payload) => reply.bulk(&payload),
        None => reply.null(),
    }
    Ok(())
}

pub(crate) fn restore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
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
    let deadline = if is_absolute { ttl_ms } else { ttl_ms.saturating_add(cx.now_ms()) };
    let place = Place { replaces, deadline: (ttl_ms != 0).then_some(deadline) };
    if let Some(payload) = args.shared(3) {
        let _building = cx.state.building.begin(payload.len(), cx.state.store.max_memory())?;
        let restore = LongRestore::new(payload, most);
        return slices::begin(cx, LargeRestore { name: name.into(), restore, place, _building });
    }
    let value = rdb::restore(&args[3], most)?;
    place.store(cx, db, name, db.restored_record(name, value))
}

impl From<RdbError> for CommandError {
    fn from(error: RdbError) -> Self {
        match error {
            RdbError::Checksum => CommandError::Fixed("ERR DUMP payload version or checksum are wrong"),
            RdbError::Format => CommandError::Fixed("ERR Bad data format"),
            RdbError::TooLong => CommandError::OutOfMemory,
            RdbError::Groups => {
                CommandError::Fixed("ERR the stream has consumer groups, which this server does not have")
            }
        }
    }
}

/// A large value that is being restored.
struct LargeRestore {
    name: Box<[u8]>,
    restore: LongRestore,
    place: Place,
    _building: Building,
}

impl SlicedWork for LargeRestore {
    /// Checks and copies a slice, and at the end stores the value.
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let Some(value) = self.restore.advance(SLICE_BYTES)? else { return Ok(false) };
        let (db, shared) = (cx.db(), value.shared());
        let record = db.restored_record(&self.name, value);
        let stored = self.place.store(cx, db, &self.name, record);
        shared.into_iter().for_each(release);
        stored.map(|()| true)
    }

    fn bytes(&self) -> usize {
        self.restore.payload_bytes()
    }
}

/// How a restored value is stored.
#[derive(Clone, Copy)]
struct Place {
    replaces: bool,
    /// In milliseconds of Unix time.
    deadline: Option<i64>,
}

impl Place {
    /// Stores a value and replies.
    fn store(self, cx: &mut Context<'_>, db: Database<'_>, name: &[u8], record: Record) -> Outcome {
        let is_expired = self.deadline.is_some_and(|deadline| deadline <= cx.now_ms());
        let expiry = self.deadline.map_or(Expiry::Never, Expiry::At);
        // Another client may have created the key meanwhile.
        let stored = db.update(name, |entry| match entry {
            Some(_) if !self.replaces => (EntryOp::Keep, false),
            _ if is_expired => (EntryOp::Remove, true),
            _ => (EntryOp::Put(record, expiry), true),
        })?;
        if stored { cx.ok() } else { Err(BUSY_KEY) }
    }
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
