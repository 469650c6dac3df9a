//! `BITFIELD` and `BITFIELD_RO`: integers of any width at any bit of a string, the highest bit first.

use larder_resp::{Args, parse_integer};

use super::bits::{BitChange, Unchanged, change_bits};
use super::large_edit::Numbers;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};

/// The width and sign of an integer: 1 to 64 bits if it is signed, 1 to 63 bits if not.
#[derive(Clone, Copy)]
struct Kind {
    is_signed: bool,
    bits: u32,
}

/// What happens to a number that does not fit.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// One subcommand.
struct Operation {
    kind: Kind,
    /// The offset of the first bit.
    offset: usize,
    action: Action,
}

pub(crate) fn bitfield(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let operations = parse(cx, args.skip(2))?;
    let written = operations.iter().filter(|operation| !matches!(operation.action, Action::Get));
    let Some(bytes) = written.map(Operation::end_byte).max() else { return read(cx, &args[1], &operations) };
    change_bits(cx, &args[1], bytes, operations)
}

impl BitChange for Vec<Operation> {
    fn without_effect(&self, value: &[u8]) -> Option<Unchanged> {
        let (mut numbers, mut writes) = (Vec::with_capacity(self.len()), false);
        // Until one changes a bit, all of them see this value.
        for operation in self {
            let Effect { result, written } = operation.effect(value);
            if written.is_some_and(|number| number != operation.kind.read(value, operation.offset)) {
                return None;
            }
            writes |= written.is_some();
            numbers.push(result);
        }
        Some(Unchanged { numbers: Numbers::Each(numbers), writes })
    }

    fn apply(&self, value: &mut [u8]) -> Numbers {
        Numbers::Each(self.iter().map(|operation| operation.run(value)).collect())
    }
}

pub(crate) fn bitfield_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let operations = parse(cx, args.skip(2))?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err(CommandError::Fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(cx, &args[1], &operations)
}

fn read(cx: &mut Context<'_>, key: &[u8], operations: &[Operation]) -> Outcome {
    let get = |value: &[u8]| -> Vec<Option<i64>> {
        operations.iter().map(|operation| Some(operation.kind.read(value, operation.offset) as i64)).collect()
    };
    let found = cx.db().get(key, get)?;
    cx.count_lookup(key, found.is_some());
    Numbers::Each(found.unwrap_or_else(|| get(&[]))).reply(cx)
}

fn parse(cx: &Context<'_>, args: Args<'_>) -> Result<Vec<Operation>, CommandError> {
    let (mut operations, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if is(b"OVERFLOW") && words.len() >= 1 {
            overflow = match words.next().map(|word| word.to_ascii_uppercase()).as_deref() {
                Some(b"WRAP") => Overflow::Wrap,
                Some(b"SAT") => Overflow::Saturate,
                Some(b"FAIL") => Overflow::Fail,
                _ => return Err(CommandError::Fixed("ERR Invalid OVERFLOW type specified")),
            };
            continue;
        }
        let (is_get, is_set) = (is(b"GET"), is(b"SET"));
        if !(is_get || is_set || is(b"INCRBY")) {
            return Err(CommandError::Syntax);
        }
        let (kind, offset) = words.next().zip(words.next()).ok_or(CommandError::Syntax)?;
        let number = if is_get { None } else { Some(words.next().ok_or(CommandError::Syntax)?) };
        let kind = Kind::parse(kind)?;
        let offset = kind.offset(offset, cx.state.max_bulk_bytes())?;
        let action = match number.map(integer).transpose()? {
            None => Action::Get,
            Some(number) if is_set => Action::Set(number, overflow),
            Some(number) => Action::Add(number, overflow),
        };
        operations.push(Operation { kind, offset, action });
    }
    Ok(operations)
}

impl Operation {
    /// The number of bytes that a value needs for it.
    fn end_byte(&self) -> usize {
        (self.offset + self.kind.bits as usize).div_ceil(8)
    }

    /// What it does with a value.
    fn effect(&self, value: &[u8]) -> Effect {
        let before = self.kind.read(value, self.offset);
        let (wanted, overflow) = match self.action {
            Action::Get => return Effect { result: Some(before as i64), written: None },
            // Of an unsigned integer, a negative number is one above the largest.
            Action::Set(number, overflow) if self.kind.is_signed => (number.into(), overflow),
            Action::Set(number, overflow) => (i128::from(number as u64), overflow),
            Action::Add(number, overflow) => (before + i128::from(number), overflow),
        };
        let written = self.kind.fit(wanted, overflow);
        let result = if matches!(self.action, Action::Set(..)) { written.map(|_| before) } else { written };
        Effect { result: result.map(|number| number as i64), written }
    }

    /// Returns its result.
    fn run(&self, value: &mut [u8]) -> Option<i64> {
        let Effect { result, written } = self.effect(value);
        if let Some(number) = written {
            self.kind.write(value, self.offset, number);
        }
        result
    }
}

/// What an operation does with a value.
struct Effect {
    /// `None` if the number does not fit.
    result: Option<i64>,
    /// The number that it writes.
    written: Option<i128>,
}

impl Kind {
    fn parse(text: &[u8]) -> Result<Kind, CommandError> {
        let kind = text.split_first().and_then(|(sign, bits)| {
            let is_signed = match sign {
                b'i' => true,
                b'u' => false,
                _ => return None,
            };
            let bits =
                parse_integer(bits).filter(|bits| (1..=if is_signed { 64 } else { 63 }).contains(bits))?;
            Some(Kind { is_signed, bits: bits as u32 })
        });
        kind.ok_or(CommandError::Fixed(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))
    }

    /// Parses an offset in bits or, after `#`, in integers of this kind.
    fn offset(self, text: &[u8], max_bytes: usize) -> Result<usize, CommandError> {
        let offset = match text {
            [b'#', number @ ..] => {
                parse_integer(number).and_then(|number| number.checked_mul(self.bits.into()))
            }
            number => parse_integer(number),
        };
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.filter(|offset| offset / 8 < max_bytes);
        offset.ok_or(CommandError::Fixed("ERR bit offset is not an integer or out of range"))
    }

    fn range(self) -> (i128, i128) {
        if self.is_signed {
            let end = 1i128 << (self.bits - 1);
            (-end, end - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        }
    }

    /// The number as it is stored, if it is.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = self.range();
        if (min..=max).contains(&number) {
            return Some(number);
        }
        match overflow {
            Overflow::Wrap => Some(self.extend(number as u64)),
            Overflow::Saturate => Some(number.clamp(min, max)),
            Overflow::Fail => None,
        }
    }

    /// The number with these low bits.
    fn extend(self, bits: u64) -> i128 {
        let unused = 64 - self.bits;
        let high = bits << unused;
        if self.is_signed { (high as i64 >> unused).into() } else { (high >> unused).into() }
    }

    /// Behind the end of a value are zeros.
    fn read(self, value: &[u8], offset: usize) -> i128 {
        let bits = (offset..offset + self.bits as usize).fold(0u64, |bits, at| {
            let byte = value.get(at / 8).copied().unwrap_or(0);
            bits << 1 | u64::from(byte >> (7 - at % 8) & 1)
        });
        self.extend(bits)
    }

    fn write(self, value: &mut [u8], offset: usize, number: i128) {
        for (index, at) in (offset..offset + self.bits as usize).enumerate() {
            let bit = (number >> (self.bits as usize - 1 - index)) as u8 & 1;
            let (byte, shift) = (&mut value[at / 8], 7 - at % 8);
            *byte = *byte & !(1 << shift) | bit << shift;
        }
    }
}
