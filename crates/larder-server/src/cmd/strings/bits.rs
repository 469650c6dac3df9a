//! `SETBIT`, `GETBIT`, `BITCOUNT`, `BITPOS`: strings as arrays of bits, the highest bit of a byte first.

use larder_resp::{Args, parse_integer};

use super::bit_range::BitRange;
use super::edit::{Step, is_large_and_read, lengthened, value_of};
use super::large_edit::{Change, Former, LargeEdit, Limits, Numbers};
use super::large_read::{LargeRead, Work};
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{EntryOp, Expiry, Found};
use crate::values::large::LARGE_BYTES;

/// A change of bits in a string, after which zeros follow.
pub(crate) trait BitChange: Send + 'static {
    /// The reply, if no bit of the value would change.
    fn without_effect(&self, value: &[u8]) -> Option<Unchanged>;

    /// Changes a value that is long enough.
    fn apply(&self, value: &mut [u8]) -> Numbers;
}

/// What a change does with a value that has the bits already.
pub(crate) struct Unchanged {
    pub(crate) numbers: Numbers,
    /// Whether it writes at all. If so, a value that is too short grows, which is a change.
    pub(crate) writes: bool,
}

/// Changes bits of a string, which has at least this length afterwards. A large string that grows, or that a client receives
/// now, is built in slices. If nothing changes, it is no write: nobody is told.
pub(crate) fn change_bits(
    cx: &mut Context<'_>,
    name: &[u8],
    length: usize,
    change: impl BitChange,
) -> Outcome {
    if length as u64 > cx.state.store.max_memory() {
        return Err(CommandError::OutOfMemory);
    }
    let limits = Limits::of(cx.state);
    let db = cx.db();
    let step = db.update_string(name, |mut entry| {
        let grows = length > value_of(&entry).len();
        let unchanged =
            change.without_effect(value_of(&entry)).filter(|unchanged| !(grows && unchanged.writes));
        if let Some(unchanged) = unchanged {
            return (EntryOp::Keep, Step::Done(unchanged.numbers));
        }
        if grows && let Some(value) = lengthened(entry.as_mut(), length, limits) {
            return (EntryOp::Edited, Step::Done(change.apply(value)));
        }
        if grows && length >= LARGE_BYTES || is_large_and_read(entry.as_ref()) {
            return (EntryOp::Keep, Step::Build(Former::of(entry.as_ref())));
        }
        match entry {
            Some(mut entry) if !grows => (EntryOp::Edited, Step::Done(change.apply(entry.value_mut()))),
            _ => {
                let mut value = value_of(&entry).to_vec();
                value.resize(length, 0);
                let numbers = change.apply(&mut value);
                (EntryOp::Put(db.record(name, &[&value]), Expiry::Keep), Step::Done(numbers))
            }
        }
    })?;
    match step {
        Step::Done(numbers) => numbers.reply(cx),
        Step::Build(former) => {
            let limits = Limits::of(cx.state);
            let finish = Box::new(move |value: &mut [u8]| change.apply(value));
            LargeEdit::begin(cx, name, Change::zeros_to(length), former, limits, Some(finish))
        }
    }
}

/// Sets or clears one bit.
struct SetBit {
    byte: usize,
    mask: u8,
    is_set: bool,
}

impl BitChange for SetBit {
    fn without_effect(&self, value: &[u8]) -> Option<Unchanged> {
        let was_set = value.get(self.byte).is_some_and(|byte| byte & self.mask != 0);
        let numbers = Numbers::One(was_set.into());
        (was_set == self.is_set).then_some(Unchanged { numbers, writes: true })
    }

    fn apply(&self, value: &mut [u8]) -> Numbers {
        let byte = &mut value[self.byte];
        let was_set = *byte & self.mask != 0;
        *byte = if self.is_set { *byte | self.mask } else { *byte & !self.mask };
        Numbers::One(was_set.into())
    }
}

pub(crate) fn setbit(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (byte, mask) = position(cx, &args[2])?;
    let is_set = match parse_integer(&args[3]) {
        Some(bit @ (0 | 1)) => bit == 1,
        _ => return Err(CommandError::Fixed("ERR bit is not an integer or out of range")),
    };
    change_bits(cx, &args[1], byte + 1, SetBit { byte, mask, is_set })
}

pub(crate) fn getbit(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (byte, mask) = position(cx, &args[2])?;
    let found = cx.db().get(&args[1], |value| value.get(byte).is_some_and(|byte| byte & mask != 0))?;
    cx.count_lookup(&args[1], found.is_some());
    cx.integer(i64::from(found.unwrap_or(false)))
}

/// The byte of a bit, and its mask there.
fn position(cx: &Context<'_>, offset: &[u8]) -> Result<(usize, u8), CommandError> {
    let offset = parse_integer(offset).and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < cx.state.max_bulk_bytes());
    let offset = offset.ok_or(CommandError::Fixed("ERR bit offset is not an integer or out of range"))?;
    Ok((offset / 8, 0x80 >> (offset % 8)))
}

pub(crate) fn bitcount(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let range_of = |value: &[u8]| match args.len() {
        2 => Ok(BitRange::whole(value)),
        4 | 5 => {
            let (start, end) = (integer(&args[2])?, integer(&args[3])?);
            // Nothing, whatever the length and the unit are. `BITPOS` finds the first one then.
            if start < 0 && end < 0 && start > end {
                return Ok(None);
            }
            Ok(BitRange::new(start, end, bits_per_unit(args.get(4))?, value))
        }
        _ => Err(CommandError::Syntax),
    };
    let count = |value: &[u8]| {
        let range = range_of(value)?;
        Ok::<_, CommandError>(range.map_or(0, |range| range.count_ones(value, range.bytes())))
    };
    let found = cx.db().get_or_share(&args[1], count)?;
    cx.count_lookup(&args[1], found.is_some());
    match found {
        None => cx.integer(0),
        Some(Found::Read(count)) => cx.integer(count? as i64),
        Some(Found::Large(value)) => match range_of(&value)? {
            Some(range) => {
                LargeRead::begin(cx, &args[1], value, range.bytes(), Work::Count { range, ones: 0 })
            }
            None => cx.integer(0),
        },
    }
}

pub(crate) fn bitpos(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let bit = match integer(&args[2])? {
        bit @ (0 | 1) => bit == 1,
        _ => return Err(CommandError::Fixed("ERR The bit argument must be 1 or 0.")),
    };
    let range_of = |value: &[u8]| match args.len() {
        3 => Ok(BitRange::whole(value)),
        4..=6 => {
            let (start, unit) = (integer(&args[3])?, bits_per_unit(args.get(5))?);
            Ok(BitRange::new(start, args.get(4).map_or(Ok(-1), integer)?, unit, value))
        }
        _ => Err(CommandError::Syntax),
    };
    // Without an end, the string counts as followed by zeros.
    let after = |range: &BitRange| if bit || args.len() > 4 { -1 } else { range.end as i64 };
    let find = |value: &[u8]| {
        let Some(range) = range_of(value)? else { return Ok(-1) };
        let found = range.find(value, bit, range.bytes());
        Ok::<_, CommandError>(found.map_or(after(&range), |position| position as i64))
    };
    let found = cx.db().get_or_share(&args[1], find)?;
    cx.count_lookup(&args[1], found.is_some());
    match found {
        None => cx.integer(if bit { -1 } else { 0 }),
        Some(Found::Read(position)) => cx.integer(position?),
        Some(Found::Large(value)) => match range_of(&value)? {
            Some(range) => {
                let (bytes, after) = (range.bytes(), after(&range));
                LargeRead::begin(cx, &args[1], value, bytes, Work::Find { range, bit, after })
            }
            None => cx.integer(-1),
        },
    }
}

/// The bits of the unit of a range, which is a byte if none is given.
fn bits_per_unit(unit: Option<&[u8]>) -> Result<usize, CommandError> {
    match unit {
        None => Ok(8),
        Some(unit) if unit.eq_ignore_ascii_case(b"BYTE") => Ok(8),
        Some(unit) if unit.eq_ignore_ascii_case(b"BIT") => Ok(1),
        Some(_) => Err(CommandError::Syntax),
    }
}
