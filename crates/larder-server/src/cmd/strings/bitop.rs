//! `BITOP`: combines strings bit by bit. If one of them is large, they are combined in slices, without their locks, and other
//! connections of the thread get their turns in between.

use std::ops::Range;
use std::sync::Arc;

use larder_engine::raw::{LongValue, SharedBytes};
use larder_resp::Args;

use crate::cmd::slices::{self, SlicedWork};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Database, Expiry, LockedKeys, Record, WrongType, is_value_of};
use crate::values::large::{Building, LARGE_BYTES, PartialValue, release};

/// Bytes of all sources that are read in one slice: less than half a millisecond.
const SLICE_BYTES: usize = 512 << 10;
/// Sources of which it is looked up after a slice whether they are in the store still.
const LOOKUPS_PER_SLICE: usize = 64;

pub(crate) fn bitop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let operation = match args[1].to_ascii_lowercase().as_slice() {
        b"and" => Operation::And,
        b"or" => Operation::Or,
        b"xor" => Operation::Xor,
        b"not" if args.len() == 4 => Operation::Not,
        b"not" => return Err(CommandError::Fixed("ERR BITOP NOT must be called with a single source key.")),
        _ => return Err(CommandError::Syntax),
    };
    let (db, mut locked) = cx.lock(args.skip(2).iter());
    let combined = operation.combine_all(&mut locked, db, args.skip(3).iter(), LARGE_BYTES)?;
    let Some(result) = combined else {
        let sources = args.skip(3).iter().map(|name| Source::read(&mut locked, db, name));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        drop(locked);
        let combination = LargeCombination::new(cx, operation, &args[2], sources)?;
        return slices::begin(cx, combination);
    };
    let length = result.len();
    match length {
        0 => _ = locked.remove(db.key(&args[2])),
        _ => locked.put(Record::with_value(db.key(&args[2]), result), Expiry::Never)?,
    }
    drop(locked);
    cx.integer(length as i64)
}

/// What `BITOP` does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    /// Of one value.
    Not,
}

impl Operation {
    /// Combines the values of these keys; a missing one is empty. `None` if one of them has `large` bytes or more.
    ///
    /// The result is made where it will be stored: to copy it would take as long as to combine.
    fn combine_all<'n>(
        self,
        locked: &mut LockedKeys<'_>,
        db: Database<'_>,
        names: impl Iterator<Item = &'n [u8]>,
        large: usize,
    ) -> Result<Option<Arc<[u8]>>, WrongType> {
        let mut result = LongValue::new(0);
        for (index, name) in names.enumerate() {
            let mut combine = |value: &[u8]| {
                if value.len() >= large {
                    return false;
                }
                if value.len() > result.len() {
                    let mut longer = LongValue::new(value.len());
                    longer.push(if index == 0 { value } else { result.written_mut() });
                    longer.push_zeros(longer.missing());
                    result = longer;
                }
                if index > 0 || self == Operation::Not {
                    self.combine(result.written_mut(), value, index == 0);
                }
                true
            };
            let is_small = match locked.get(db.key(name), &mut combine)? {
                Some(is_small) => is_small,
                None => combine(&[]),
            };
            if !is_small {
                return Ok(None);
            }
        }
        Ok(Some(result.finish()))
    }

    /// Combines `result` with another value that is not longer, and counts as followed by zeros. With the first value,
    /// `result` consists of zeros.
    fn combine(self, result: &mut [u8], other: &[u8], is_first: bool) {
        let (both, alone) = result.split_at_mut(other.len());
        // The loops are apart, so that each handles many bytes at a time.
        let pairs = both.iter_mut().zip(other);
        match self {
            Operation::Not => pairs.for_each(|(byte, other)| *byte = !other),
            _ if is_first => both.copy_from_slice(other),
            Operation::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                alone.fill(0);
            }
            Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Operation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
        }
    }
}

/// A value as it was at the start.
struct Source {
    name: Box<[u8]>,
    value: Value,
    /// Whether the key had another value when that was looked up last.
    is_removed: bool,
}

enum Value {
    Missing,
    /// A short value, copied.
    Short(Box<[u8]>),
    /// Whoever changes it meanwhile makes another one.
    Long(SharedBytes),
}

impl Source {
    fn read(locked: &mut LockedKeys<'_>, db: Database<'_>, name: &[u8]) -> Result<Self, WrongType> {
        let read = locked.read(db.key(name), |record| match record.share() {
            Some(value) => Ok(Value::Long(value)),
            None => record.bytes().map(|value| Value::Short(value.into())).ok_or(WrongType),
        });
        let value = read.transpose()?.unwrap_or(Value::Missing);
        Ok(Source { name: name.into(), value, is_removed: false })
    }

    fn bytes(&self) -> &[u8] {
        match &self.value {
            Value::Missing => &[],
            Value::Short(bytes) => bytes,
            Value::Long(bytes) => bytes,
        }
    }

    /// Whether the key has this value still.
    fn is_current(&self, locked: &mut LockedKeys<'_>, db: Database<'_>) -> bool {
        let is_same = |record: &Record| match &self.value {
            Value::Missing => false,
            Value::Short(bytes) => record.share().is_none() && record.bytes() == Some(bytes),
            Value::Long(bytes) => is_value_of(record, bytes),
        };
        locked.read(db.key(&self.name), is_same).unwrap_or(matches!(self.value, Value::Missing))
    }
}

/// A combination of values that is not at its end.
struct LargeCombination {
    operation: Operation,
    destination: Box<[u8]>,
    sources: Vec<Source>,
    /// The source that was looked up last.
    looked_up: usize,
    result: PartialValue,
    _building: Building,
}

impl LargeCombination {
    fn new(
        cx: &Context<'_>,
        operation: Operation,
        destination: &[u8],
        sources: Vec<Source>,
    ) -> Result<Self, CommandError> {
        let length = sources.iter().map(|source| source.bytes().len()).max().unwrap_or(0);
        if length as u64 > cx.state.store.max_memory() {
            return Err(CommandError::OutOfMemory);
        }
        let _building = cx.state.building.begin(length, cx.state.store.max_memory())?;
        let (destination, result) = (destination.into(), PartialValue::new(length));
        Ok(LargeCombination { operation, destination, sources, looked_up: 0, result, _building })
    }

    /// Stores the result and returns its length.
    fn store(&self, cx: &Context<'_>, result: Arc<[u8]>) -> Result<usize, CommandError> {
        let names = self.sources.iter().map(|source| &*source.name);
        let (db, mut locked) = cx.lock(names.clone().chain([&*self.destination]));
        let is_current = self.sources.iter().all(|source| source.is_current(&mut locked, db));
        let result = if is_current {
            result
        } else {
            release(result);
            // A value that changes all the time would change again: what there is now is combined at once.
            let combined = self.operation.combine_all(&mut locked, db, names, usize::MAX)?;
            combined.unwrap_or_else(|| Arc::from([]))
        };
        let length = result.len();
        match length {
            0 => _ = locked.remove(db.key(&self.destination)),
            _ => {
                let record = Record::with_value(db.key(&self.destination), Arc::clone(&result));
                locked.put(record, Expiry::Never)?;
            }
        }
        drop(locked);
        release(result);
        Ok(length)
    }
}

impl SlicedWork for LargeCombination {
    fn bytes(&self) -> usize {
        let copied = |source: &Source| if let Value::Short(bytes) = &source.value { bytes.len() } else { 0 };
        self.sources.iter().map(copied).sum::<usize>()
    }

    /// Looks some sources up.
    fn removed_bytes(&mut self, db: Database<'_>) -> usize {
        for _ in 0..self.sources.len().min(LOOKUPS_PER_SLICE) {
            self.looked_up = (self.looked_up + 1) % self.sources.len();
            let source = &mut self.sources[self.looked_up];
            if let Value::Long(value) = &source.value {
                source.is_removed = !db.has_value(&source.name, value);
            }
        }
        self.sources.iter().filter(|source| source.is_removed).map(|source| source.bytes().len()).sum()
    }

    /// Combines a slice, and at the end stores the result.
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let count = (SLICE_BYTES / self.sources.len()).max(1).min(self.result.missing());
        let slice = self.result.len()..self.result.len() + count;
        self.result.get_mut().push_zeros(count);
        for (index, source) in self.sources.iter().enumerate() {
            let bytes = part(source.bytes(), &slice);
            let result = &mut self.result.get_mut().written_mut()[slice.clone()];
            self.operation.combine(result, bytes, index == 0);
        }
        if self.result.missing() > 0 {
            return Ok(false);
        }
        let result = std::mem::replace(&mut self.result, PartialValue::new(0)).finish();
        let length = self.store(cx, result)?;
        cx.integer(length as i64).map(|()| true)
    }
}

impl Drop for LargeCombination {
    fn drop(&mut self) {
        for source in self.sources.drain(..) {
            if let Value::Long(value) = source.value {
                release(value);
            }
        }
    }
}

/// What a value has of a range.
fn part<'b>(value: &'b [u8], range: &Range<usize>) -> &'b [u8] {
    &value[range.start.min(value.len())..range.end.min(value.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_value_counts_as_followed_by_zeros() {
        for (operation, expected) in [
            (Operation::And, [0b1000, 0, 0]),
            (Operation::Or, [0b1110, 0b0011, 0b0101]),
            (Operation::Xor, [0b0110, 0b0011, 0b0101]),
        ] {
            for (first, second) in
                [(&[0b1100, 0b0011, 0b0101][..], &[0b1010][..]), (&[0b1010], &[0b1100, 0b0011, 0b0101])]
            {
                let mut result = [0; 3];
                operation.combine(&mut result, first, true);
                operation.combine(&mut result, second, false);
                assert_eq!(result, expected);
            }
        }
        let mut result = [0];
        Operation::Not.combine(&mut result, &[0b1010], true);
        assert_eq!(result, [!0b1010]);
        assert_eq!((part(b"abc", &(1..5)), part(b"abc", &(4..6))), (&b"bc"[..], &b""[..]));
    }
}
