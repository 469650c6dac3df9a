//! Changes of large values, as by `APPEND`, `SETRANGE` and `SETBIT`: the new value is built from the former one in slices,
//! without its lock, and other connections of the thread get their turns in between. It is stored if the former value is
//! still there. If not, it is built once more, and then at once, under the lock: a value that changes all the time would
//! change again.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use larder_engine::raw::SharedBytes;
use larder_resp::Args;

use crate::cmd::slices::{self, SlicedWork};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Database, EntryOp, Expiry, Record, StringEntry, UpdateError};
use crate::state::ServerState;
use crate::values::large::{Building, PartialValue, SLICE_BYTES, release};

/// An edit that is not at its end.
pub(crate) struct LargeEdit {
    name: Box<[u8]>,
    change: Change,
    limits: Limits,
    building: Building,
    former: Former,
    /// What is left to write.
    pieces: VecDeque<Piece>,
    value: PartialValue,
    /// Whether the change is the new value, without a copy.
    is_whole_change: bool,
    finish: Option<Finish>,
    /// Whether it has begun again, because the former value was replaced.
    is_repeated: bool,
}

/// The reply of a command that edits a value.
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

/// Limits on the length of a value, which are checked before it is allocated.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    string_bytes: usize,
    memory_bytes: u64,
}

impl Limits {
    pub(crate) fn of(state: &ServerState) -> Limits {
        Limits { string_bytes: state.max_bulk_bytes(), memory_bytes: state.store.max_memory() }
    }

    /// What a value of this length that grows gets, so that it is not copied at each step: a quarter more, unless that is much
    /// of the memory.
    pub(crate) fn capacity_for(self, length: usize) -> usize {
        let most = usize::try_from(self.memory_bytes / 16).unwrap_or(usize::MAX);
        length.saturating_add((length / 4).min(most))
    }

    pub(crate) fn check(self, length: usize) -> Outcome {
        match length {
            length if length > self.string_bytes => Err(CommandError::StringTooLong),
            length if length as u64 > self.memory_bytes => Err(CommandError::OutOfMemory),
            _ => Ok(()),
        }
    }
}

/// Changes the complete value before it is stored; what it returns is the reply.
pub(crate) type Finish = Box<dyn Fn(&mut [u8]) -> Numbers + Send>;

/// What is written, and where.
#[derive(Clone)]
pub(crate) struct Change {
    bytes: Arc<[u8]>,
    /// At the end without it.
    offset: Option<usize>,
}

/// The value from which a new one is built.
#[derive(Clone)]
pub(crate) enum Former {
    Missing,
    /// A short value, copied.
    Short(Box<[u8]>),
    Long(SharedBytes),
}

/// A part of the new value.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Former(Range<usize>),
    Zeros(usize),
    Change(Range<usize>),
}

impl Change {
    /// The argument at `index` is written, at an offset or at the end.
    pub(crate) fn new(args: Args<'_>, index: usize, offset: Option<usize>) -> Self {
        let bytes = args.shared(index).map_or_else(|| Arc::from(&args[index]), Arc::clone);
        Change { bytes, offset }
    }

    /// Nothing but zeros behind the value, up to this length.
    pub(crate) fn zeros_to(length: usize) -> Self {
        Change { bytes: Arc::from([]), offset: Some(length) }
    }

    /// The parts of the new value, if the former one has this length.
    fn pieces(&self, former_len: usize) -> VecDeque<Piece> {
        let offset = self.offset.unwrap_or(former_len);
        let head = offset.min(former_len);
        let tail = offset.saturating_add(self.bytes.len()).min(former_len);
        let pieces = [
            Piece::Former(0..head),
            Piece::Zeros(offset - head),
            Piece::Change(0..self.bytes.len()),
            Piece::Former(tail..former_len),
        ];
        pieces.into_iter().filter(|piece| piece.len() > 0).collect()
    }
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Former(range) | Piece::Change(range) => range.len(),
            Piece::Zeros(count) => *count,
        }
    }

    /// Takes up to `count` bytes from its start.
    fn split_off(&mut self, count: usize) -> Piece {
        let count = count.min(self.len());
        let split = |range: &mut Range<usize>| {
            let taken = range.start..range.start + count;
            range.start = taken.end;
            taken
        };
        match self {
            Piece::Former(range) => Piece::Former(split(range)),
            Piece::Change(range) => Piece::Change(split(range)),
            Piece::Zeros(left) => {
                *left -= count;
                Piece::Zeros(count)
            }
        }
    }
}

impl Former {
    /// The value of a locked entry.
    pub(crate) fn of(entry: Option<&StringEntry<'_>>) -> Self {
        match entry {
            None => Former::Missing,
            Some(entry) => entry.share().map_or_else(|| Former::Short(entry.value().into()), Former::Long),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Former::Missing => &[],
            Former::Short(bytes) => bytes,
            Former::Long(bytes) => bytes,
        }
    }

    /// Whether the locked entry still has this value.
    fn is_value_of(&self, entry: Option<&StringEntry<'_>>) -> bool {
        match (self, entry) {
            (Former::Missing, None) => true,
            (Former::Short(bytes), Some(entry)) => entry.value() == &bytes[..],
            (Former::Long(bytes), Some(entry)) => entry.is_value(bytes),
            _ => false,
        }
    }
}

impl LargeEdit {
    /// Begins to build a value. An error if it would be too long. Without `finish` the reply is its length.
    pub(crate) fn begin(
        cx: &mut Context<'_>,
        name: &[u8],
        change: Change,
        former: Former,
        limits: Limits,
        finish: Option<Finish>,
    ) -> Outcome {
        let building = cx.state.building.begin(0, limits.memory_bytes)?;
        let mut edit = LargeEdit {
            name: name.into(),
            change,
            limits,
            building,
            former,
            pieces: VecDeque::new(),
            value: PartialValue::new(0),
            is_whole_change: false,
            finish,
            is_repeated: false,
        };
        edit.restart()?;
        slices::begin(cx, edit)
    }

    /// Begins to build the value again, from another former one.
    fn restart(&mut self) -> Outcome {
        self.pieces = self.change.pieces(self.former.bytes().len());
        let length = self.pieces.iter().map(Piece::len).fold(0, usize::saturating_add);
        self.limits.check(length)?;
        self.building.resize(length)?;
        self.is_whole_change = self.pieces.len() == 1 && self.pieces[0] == Piece::Change(0..length);
        self.value = match length {
            _ if self.is_whole_change => PartialValue::new(0),
            // It grows: probably not for the last time.
            length if length > self.former.bytes().len() => {
                PartialValue::with_room(length, self.limits.capacity_for(length))
            }
            length => PartialValue::new(length),
        };
        Ok(())
    }

    /// Writes so many bytes of the new value. Returns whether these were the last ones.
    fn advance(&mut self, bytes: usize) -> bool {
        if self.is_whole_change {
            return true;
        }
        let mut left = bytes;
        while left > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let slice = piece.split_off(left);
            left -= slice.len();
            if piece.len() == 0 {
                self.pieces.pop_front();
            }
            let value = self.value.get_mut();
            match slice {
                Piece::Former(range) => value.push(&self.former.bytes()[range]),
                Piece::Change(range) => value.push(&self.change.bytes[range]),
                Piece::Zeros(count) => value.push_zeros(count),
            }
        }
        self.pieces.is_empty()
    }

    /// The value whose last bytes are written, and the reply.
    fn complete(&mut self) -> (SharedBytes, Numbers) {
        if self.is_whole_change {
            let value = Arc::clone(&self.change.bytes);
            return (value.into(), Numbers::One(self.change.bytes.len() as i64));
        }
        let mut value = std::mem::replace(&mut self.value, PartialValue::new(0)).into_shared();
        // The value has no other owner yet.
        let numbers = self.finish.as_ref().zip(value.get_mut()).map(|(finish, value)| finish(value));
        let length = value.len() as i64;
        (value, numbers.unwrap_or(Numbers::One(length)))
    }

    /// Stores the complete value, or returns the one that has replaced the former one meanwhile.
    fn store(&mut self, db: Database<'_>) -> Result<Result<Numbers, Former>, UpdateError> {
        let (value, numbers) = self.complete();
        let stored = db.update_string(&self.name, |entry| match self.former.is_value_of(entry.as_ref()) {
            true => {
                let record = Record::with_value(db.key(&self.name), value.clone());
                (EntryOp::Put(record, Expiry::Keep), Ok(()))
            }
            false => (EntryOp::Keep, Err(Former::of(entry.as_ref()))),
        });
        release(value);
        Ok(stored?.map(|()| numbers))
    }

    /// Builds the value from the one that is there now, and stores it, while the entry is locked.
    fn store_at_once(&mut self, db: Database<'_>) -> Result<Numbers, CommandError> {
        let name = std::mem::take(&mut self.name);
        db.update_string(&name, |entry| {
            self.former = Former::of(entry.as_ref());
            if let Err(error) = self.restart() {
                return (EntryOp::Keep, Err(error));
            }
            self.advance(usize::MAX);
            let (value, numbers) = self.complete();
            (EntryOp::Put(Record::with_value(db.key(&name), value), Expiry::Keep), Ok(numbers))
        })?
    }
}

impl SlicedWork for LargeEdit {
    /// Writes a slice of the new value, and at the end stores it.
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        if !self.advance(SLICE_BYTES) {
            return Ok(false);
        }
        let db = cx.db();
        let numbers = match self.store(db)? {
            Ok(numbers) => numbers,
            Err(_) if self.is_repeated => self.store_at_once(db)?,
            Err(former) => {
                self.is_repeated = true;
                self.former = former;
                return self.restart().map(|()| false);
            }
        };
        numbers.reply(cx).map(|()| true)
    }

    fn bytes(&self) -> usize {
        let copied = if let Former::Short(bytes) = &self.former { bytes.len() } else { 0 };
        copied + self.change.bytes.len()
    }

    fn removed_bytes(&mut self, db: Database<'_>) -> usize {
        match &self.former {
            Former::Long(value) if !db.has_value(&self.name, value) => value.len(),
            _ => 0,
        }
    }
}

impl Drop for LargeEdit {
    fn drop(&mut self) {
        if let Former::Long(value) = std::mem::replace(&mut self.former, Former::Missing) {
            release(value);
        }
        release(std::mem::replace(&mut self.change.bytes, Arc::from([])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(change_len: usize, offset: Option<usize>, former_len: usize) -> Vec<Piece> {
        Change { bytes: vec![1; change_len].into(), offset }.pieces(former_len).into()
    }

    #[test]
    fn pieces_are_the_new_value() {
        use Piece::{Change, Former, Zeros};
        assert_eq!(lengths(3, None, 5), [Former(0..5), Change(0..3)]);
        assert_eq!(lengths(3, Some(1), 5), [Former(0..1), Change(0..3), Former(4..5)]);
        assert_eq!(lengths(3, Some(3), 5), [Former(0..3), Change(0..3)]);
        assert_eq!(lengths(3, Some(7), 5), [Former(0..5), Zeros(2), Change(0..3)]);
        assert_eq!(lengths(3, Some(2), 0), [Zeros(2), Change(0..3)]);
        assert_eq!(super::Change::zeros_to(7).pieces(5), [Former(0..5), Zeros(2)]);
        assert_eq!(super::Change::zeros_to(3).pieces(5), [Former(0..3), Former(3..5)]);
        let mut piece = Former(2..10);
        assert_eq!((piece.split_off(3), piece.split_off(9), piece.len()), (Former(2..5), Former(5..10), 0));
    }
}
