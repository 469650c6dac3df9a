//! `SETBIT`, `GETBIT`, `BITCOUNT`, `BITPOS`: strings as arrays of bits, the highest bit of a byte first.

use larder_resp::{Args, parse_integer};

use std::ops::Range;

use super::edit::{Limits, Step, begin_large, is_large_and_read, lengthened, value_of};
use super::large_edit::{Change, Former};
use super::large_read::{LargeRead, Work};
use super::words;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{EntryOp, Expiry, Found};
use crate::values::large::LARGE_BYTES;

/// The reply of a command that changes bits.
#[derive(Debug)]
pub(crate) enum Numbers {
    One(i64),
    /// `None` for a number that does not fit.
    Each(Vec<Option<i64>>),
}

impl Numbers {
    pub(crate) fn reply(&self, cx: &mut Context<'_>) -> Outcome {
        let mut reply = cx.reply();
        match self {
            Numbers::One(number) => reply.integer(*number),
            Numbers::Each(numbers) => {
                reply.array(numbers.len());
                for number in numbers {
                    match number {
                        Some(number) => reply.integer(*number),
                        None => reply.null(),
                    }
                }
            }
        }
        Ok(())
    }
}

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
    let db = cx.db();
    let step = db.update_string(name, |mut entry| {
        let grows = length > value_of(&entry).len();
        let unchanged =
            change.without_effect(value_of(&entry)).filter(|unchanged| !(grows && unchanged.writes));
        if let Some(unchanged) = unchanged {
            return (EntryOp::Keep, Step::Done(unchanged.numbers));
        }
        if grows && let Some(value) = lengthened(entry.as_mut(), length) {
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
            begin_large(cx, name, Change::zeros_to(length), former, limits, Some(finish))
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

/// A range of bits of a string.
#[derive(Debug)]
pub(crate) struct BitRange {
    start: usize,
    end: usize,
}

impl BitRange {
    /// All bits of a value. `None` if there are none.
    fn whole(value: &[u8]) -> Option<BitRange> {
        (!value.is_empty()).then_some(BitRange { start: 0, end: 8 * value.len() })
    }

    /// From one unit to another one, which is included. Negative numbers count from the end; beyond the start they mean the
    /// first unit. `None` if the range is empty.
    fn new(start: i64, end: i64, bits_per_unit: usize, value: &[u8]) -> Option<BitRange> {
        let units = (value.len() * 8 / bits_per_unit) as i64;
        let from_start = |number: i64| if number < 0 { number.saturating_add(units).max(0) } else { number };
        let (start, end) = (from_start(start), from_start(end).min(units - 1));
        (start <= end).then(|| BitRange {
            start: start as usize * bits_per_unit,
            end: (end as usize + 1) * bits_per_unit,
        })
    }

    /// The byte at `index` of the value, without the bits outside of the range.
    fn masked(&self, value: &[u8], index: usize, outside: u8) -> u8 {
        let head = if index == self.start / 8 { 0xff >> (self.start % 8) } else { 0xff };
        let tail = if index == self.end / 8 { !(0xff >> (self.end % 8)) } else { 0xff };
        let mask: u8 = head & tail;
        value[index] & mask | outside & !mask
    }

    /// The bytes that have them.
    fn bytes(&self) -> Range<usize> {
        self.start / 8..self.end.div_ceil(8)
    }

    /// How many are set in these bytes, which are some of its own.
    pub(crate) fn count_ones(&self, value: &[u8], bytes: Range<usize>) -> u64 {
        let (start, inner, end) = self.split(bytes);
        let at_edges: u32 = start.chain(end).map(|index| self.masked(value, index, 0).count_ones()).sum();
        u64::from(at_edges) + words::count_ones(&value[inner])
    }

    /// The first bit of this value in these bytes, which are some of its own.
    pub(crate) fn find(&self, value: &[u8], bit: bool, bytes: Range<usize>) -> Option<usize> {
        let (start, inner, end) = self.split(bytes);
        let flip = if bit { 0 } else { 0xff };
        let in_byte = |index: usize| {
            let byte = self.masked(value, index, flip) ^ flip;
            (byte != 0).then(|| 8 * index + byte.leading_zeros() as usize)
        };
        let in_words =
            || words::find_other(&value[inner.clone()], flip).and_then(|index| in_byte(inner.start + index));
        start.into_iter().find_map(in_byte).or_else(in_words).or_else(|| end.into_iter().find_map(in_byte))
    }

    /// The bytes that may have bits outside of the range, at its start and its end, and those in between.
    fn split(&self, bytes: Range<usize>) -> (Range<usize>, Range<usize>, Range<usize>) {
        let first = bytes.end.min(bytes.start + 1);
        let last = first.max(bytes.end.saturating_sub(1));
        (bytes.start..first, first..last, last..bytes.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_are_counted_and_searched_as_bit_by_bit() {
        let value: Vec<u8> = (0..700u32).map(|n| if n < 300 { 0 } else { (n * n / 8) as u8 }).collect();
        let flipped: Vec<u8> = value.iter().map(|byte| !byte).collect();
        let is_set = |value: &[u8], at: usize| value[at / 8] & 0x80 >> (at % 8) != 0;
        for (start, end) in
            [(0, 5_600), (0, 1), (7, 9), (8, 8 * 699 + 3), (3, 2_403), (2_399, 2_420), (5_592, 5_600)]
        {
            let range = BitRange { start, end };
            for value in [&value, &flipped] {
                let ones = (start..end).filter(|at| is_set(value, *at)).count() as u64;
                assert_eq!(range.count_ones(value, range.bytes()), ones, "{start}..{end}");
                for bit in [false, true] {
                    let first = (start..end).find(|at| is_set(value, *at) == bit);
                    assert_eq!(range.find(value, bit, range.bytes()), first, "{bit} in {start}..{end}");
                }
            }
        }
    }
}
