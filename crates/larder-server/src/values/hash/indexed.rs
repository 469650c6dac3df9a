//! The form of a large hash: fields in slots, an index of their names, and the order of their deadlines.
//!
//! ```text
//! index: hash of the name ──► handle ──► slot: name, value, deadline
//! timed: B+-tree of handles by deadline ───┘
//! ```
//!
//! A lookup takes O(1), a change of a field with a deadline O(log n). A field whose names and values have 16 and 8 bytes
//! takes 36 to 40 bytes.
//!
//! ```text
//! slot: length of the name, 1 to 5 bytes; its top bit: has a deadline │ length of the value, likewise │ deadline, 8 │ name │ value
//! ```

use super::Field;
use super::packed::Packed;
use crate::values::table::{
    Content, Handle, Index, LENGTH_TAG, Order, Slots, hash_of, length_bytes, read_length, write_length,
};

const DEADLINE_BYTES: usize = size_of::<i64>();
/// From so many fields on, a processor's caches seldom have what a lookup reads.
const MIN_PREFETCHED: usize = 16_384;
/// The names for which memory is loaded at the same time: about as many as a processor can.
const PREFETCHES: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Indexed {
    slots: Slots<StoredField>,
    index: Index,
    /// The fields with deadlines: by deadline, then by handle.
    timed: Order,
}

/// A field in its slot.
#[derive(Debug)]
struct StoredField;

/// The offsets in a slot.
struct Shape {
    deadline_at: usize,
    name_at: usize,
    value_at: usize,
    end: usize,
}

impl Shape {
    #[inline]
    fn of(slot: &[u8]) -> Self {
        let (name_bytes, at) = read_length(slot);
        let (value_bytes, value_length_bytes) = read_length(&slot[at..]);
        let deadline_at = at + value_length_bytes;
        let name_at = deadline_at + if slot[0] & LENGTH_TAG == 0 { 0 } else { DEADLINE_BYTES };
        let value_at = name_at + name_bytes;
        Shape { deadline_at, name_at, value_at, end: value_at + value_bytes }
    }
}

impl Content for StoredField {
    fn bytes(slot: &[u8]) -> usize {
        Shape::of(slot).end
    }
}

/// The field in a slot.
#[inline]
fn field_in(slot: &[u8]) -> Field<'_> {
    let Shape { deadline_at, name_at, value_at, end } = Shape::of(slot);
    let deadline = slot[deadline_at..name_at].first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
    Field { name: &slot[name_at..value_at], value: &slot[value_at..end], deadline }
}

/// The bytes of a field in a slot.
fn slot_bytes(field: Field<'_>) -> usize {
    let deadline = field.deadline.map_or(0, |_| DEADLINE_BYTES);
    let (name, value) = (field.name.len(), field.value.len());
    length_bytes(name) + length_bytes(value) + deadline + name + value
}

fn write(slot: &mut [u8], field: Field<'_>) {
    let mut at = write_length(slot, field.name.len());
    at += write_length(&mut slot[at..], field.value.len());
    if let Some(deadline) = field.deadline {
        slot[0] |= LENGTH_TAG;
        slot[at..at + DEADLINE_BYTES].copy_from_slice(&deadline.to_le_bytes());
        at += DEADLINE_BYTES;
    }
    for part in [field.name, field.value] {
        slot[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

impl From<&Packed> for Indexed {
    fn from(packed: &Packed) -> Self {
        let mut indexed = Indexed { slots: Slots::new(), index: Index::new(), timed: Order::new() };
        packed.visit(|field| _ = indexed.insert(field));
        indexed
    }
}

impl Indexed {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The memory that was allocated, with this structure in a box.
    pub(super) fn bytes_allocated(&self) -> usize {
        size_of::<Self>()
            + self.slots.bytes_allocated()
            + self.index.bytes_allocated()
            + self.timed.bytes_allocated()
    }

    /// The field of this name.
    pub(super) fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        self.find(hash_of(name), name).map(|handle| self.field(handle))
    }

    /// Brings what lookups of the first of these names read into the processor's caches. A lookup alone waits for the index, and
    /// then for the slot; here these waits are those of all names at the same time. Does nothing where they are short.
    pub(super) fn prefetch<'n>(&self, names: impl Iterator<Item = &'n [u8]>) {
        if self.len() < MIN_PREFETCHED {
            return;
        }
        let (mut candidates, mut found) = ([0; PREFETCHES], 0);
        for candidate in names.take(PREFETCHES).filter_map(|name| self.index.candidate(hash_of(name))) {
            candidates[found] = candidate;
            found += 1;
        }
        let first_bytes = candidates[..found].iter().map(|handle| self.slots.get(*handle)[0]);
        std::hint::black_box(first_bytes.fold(0, |all, byte| all ^ byte));
    }

    /// Calls `f` with about `count` fields from a cursor on, and returns the next cursor. Zero starts a scan, and ends it
    /// when it is returned.
    pub(super) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(Field<'_>)) -> u64 {
        let hash = |handle| hash_of(self.field(handle).name);
        self.index.scan(cursor, count, hash, |handle| f(self.field(handle)))
    }

    /// Calls `f` with all fields.
    pub(super) fn visit(&self, mut f: impl FnMut(Field<'_>)) {
        self.index.visit(|handle| f(self.field(handle)));
    }

    /// The number of fields whose deadlines are not later than this time.
    pub(super) fn expired(&self, now: i64) -> usize {
        self.timed.rank(|handle| self.deadline(handle) <= now)
    }

    /// The earliest deadline.
    pub(super) fn first_deadline(&self) -> Option<i64> {
        (self.timed.len() > 0).then(|| self.deadline(self.timed.get(0)))
    }

    /// The names of so many fields with the earliest deadlines.
    pub(super) fn first_timed(&self, count: usize) -> Vec<Box<[u8]>> {
        let mut names = Vec::new();
        self.timed.visit(0..count.min(self.timed.len()), false, |handle| {
            names.push(self.field(handle).name.into());
            true
        });
        names
    }

    /// Calls `f` with the fields of these ranks, in an order that lasts until the next change. Cost: a visit of a part of
    /// the index, beside the fields.
    pub(super) fn visit_ranks(
        &self,
        ranks: impl IntoIterator<Item = usize>,
        mut f: impl FnMut(Field<'_>) -> bool,
    ) {
        let all = self.index.ranks();
        ranks.into_iter().filter_map(|rank| all.get(rank)).all(|handle| f(self.field(handle)));
    }

    /// Stores a field; returns whether it is new.
    pub(super) fn insert(&mut self, field: Field<'_>) -> bool {
        let (hash, bytes) = (hash_of(field.name), slot_bytes(field));
        let Some(former) = self.find(hash, field.name) else {
            let handle = self.slots.insert(bytes, |slot| write(slot, field));
            let slots = &self.slots;
            self.index.insert(hash, handle, |handle| hash_of(field_in(slots.get(handle)).name));
            self.add_deadline(handle);
            return true;
        };
        self.remove_deadline(former);
        let former_bytes = StoredField::bytes(self.slots.get(former));
        let handle = if Slots::<StoredField>::have_equal_slots(bytes, former_bytes) {
            write(&mut self.slots.get_mut(former)[..bytes], field);
            former
        } else {
            let handle = self.slots.insert(bytes, |slot| write(slot, field));
            self.index.replace(hash, former, handle);
            self.slots.remove(former);
            handle
        };
        self.add_deadline(handle);
        false
    }

    /// Removes a field; returns whether there was one.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let hash = hash_of(name);
        let Some(handle) = self.find(hash, name) else { return false };
        self.remove_deadline(handle);
        let slots = &self.slots;
        self.index.remove(hash, handle, |handle| hash_of(field_in(slots.get(handle)).name));
        self.slots.remove(handle);
        true
    }

    #[inline]
    fn find(&self, hash: u64, name: &[u8]) -> Option<Handle> {
        self.index.find(hash, |handle| self.field(handle).name == name)
    }

    #[inline]
    fn field(&self, handle: Handle) -> Field<'_> {
        field_in(self.slots.get(handle))
    }

    /// The deadline of a field that has one.
    fn deadline(&self, handle: Handle) -> i64 {
        self.field(handle).deadline.unwrap_or(i64::MAX)
    }

    /// The number of fields whose deadlines come before that of this one.
    fn rank_of(&self, handle: Handle, deadline: i64) -> usize {
        self.timed.rank(|other| (self.deadline(other), other) < (deadline, handle))
    }

    fn add_deadline(&mut self, handle: Handle) {
        if let Some(deadline) = self.field(handle).deadline {
            let slots = &self.slots;
            let deadline_of = |other| field_in(slots.get(other)).deadline.unwrap_or(i64::MAX);
            self.timed.insert(handle, |other| (deadline_of(other), other) < (deadline, handle));
        }
    }

    fn remove_deadline(&mut self, handle: Handle) {
        if let Some(deadline) = self.field(handle).deadline {
            self.timed.remove(self.rank_of(handle, deadline));
        }
    }
}
