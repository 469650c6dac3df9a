//! A key and its value in one block of memory, behind a pointer of four bytes.
//!
//! ```text
//! block: kind and space, 1 byte │ length of the name, varint │ length of the field, varint │ name │ field
//! field: the value │ pointer, capacity and length of a shared value │ a pointer to an object
//! ```
//!
//! For names and values below 128 bytes the header takes three bytes. Blocks come from the [`super::arena`]. A value above
//! [`MAX_INLINE_BYTES`] has an allocation of its own, whose owners are counted, so that a reader copies it after it has
//! released the lock of the shard. A block that is too long for the arena, for its name is, lies outside, and so do blocks
//! above 64 bytes when the arena is nearly full: the one in the arena points there.

#[cfg(test)]
mod tests;

use super::arena::{self, Block, MAX_BLOCK_BYTES};
use super::long_value::LongValue;
use super::shared_bytes::{RawShared, SharedBytes};
use crate::layout::prefetch::prefetch_lines;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// A borrowed key: a name in one of [`SPACES`] spaces. Spaces share the capacity and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The number of the space, below [`SPACES`].
    pub space: u8,
    /// The name, any bytes.
    pub name: &'a [u8],
}

/// The number of spaces.
pub const SPACES: u8 = 64;

/// Values up to this length lie in the block of their record and are copied under the lock of their shard; longer ones
/// have a block of their own. A copy of this length takes about a tenth of a microsecond.
pub const MAX_INLINE_BYTES: usize = 4096;

impl Hash for Key<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.name);
        // After the name: it also separates keys for hashers that see only a stream of bytes.
        state.write_u8(self.space);
    }
}

impl<O> crate::Equivalent<Record<O>> for Key<'_> {
    #[inline]
    fn equivalent(&self, record: &Record<O>) -> bool {
        *self == record.key()
    }
}

/// A stored key with its value: bytes, or an object of type `O`, a structure with more than one part.
pub struct Record<O = Infallible> {
    block: Block,
    object: PhantomData<Box<O>>,
}

/// The value of a record.
#[derive(Debug)]
pub enum Value<'a, O> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// An object.
    Object(&'a O),
}

// SAFETY: a record is the only owner of its block and its object, as a `Box` would be; a shared value is a `SharedBytes`.
unsafe impl<O: Send> Send for Record<O> {}
// SAFETY: likewise; through a shared reference the block and the object are only read.
unsafe impl<O: Sync> Sync for Record<O> {}

/// What [`Record::lengthen`] has done.
#[derive(Debug)]
pub enum Lengthened {
    /// Nothing: the value is short, an object, or a reader shares it.
    Unchanged,
    /// The value has more bytes at the same place.
    InPlace,
    /// The value is at another place. What was there has no meaning any more: the caller decides where it is freed.
    Moved(SharedBytes),
}

/// A record would be longer than an allocation may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the record is longer than an allocation may be")
    }
}

impl std::error::Error for TooLong {}

/// The offsets in a block.
#[derive(Clone, Copy)]
struct Shape {
    /// Where the header begins.
    start: NonNull<u8>,
    /// Its first byte.
    head: u8,
    name_at: usize,
    field_at: usize,
    end: usize,
}

/// The bits of the first byte that are the space; the others are the kind of the field.
const SPACE_MASK: u8 = SPACES - 1;
/// The kind of a field that is a [`RawShared`].
const SHARED: u8 = SPACES;
/// The kind of a field that is a `*mut O`, from a `Box`.
const OBJECT: u8 = 2 * SPACES;
/// The first byte of a block that only points to the one with header, name and field, which lies outside of the arena.
const OUTSIDE: u8 = 3 * SPACES;
/// The length of such a block.
const OUTSIDE_BYTES: usize = 1 + size_of::<*mut u8>();

/// Lines of a block that are prefetched: values up to a hundred bytes end in the third.
const PREFETCHED_LINES: usize = 3;
/// The longest header: the space and two varints of 64 bits.
const MAX_HEAD_BYTES: usize = 1 + 2 * 10;
/// What an `Arc` needs beside its bytes: two counts.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

impl<O> Record<O> {
    /// A record whose value is the concatenation of `parts`. Cost: one allocation, one copy; for a value above
    /// [`MAX_INLINE_BYTES`] two allocations.
    ///
    /// # Panics
    /// If the record is longer than an allocation may be: see [`Record::try_new`]. If there is no such space.
    #[must_use]
    pub fn new(key: Key<'_>, parts: &[&[u8]]) -> Self {
        Self::try_new(key, parts).expect("a record fits into an allocation")
    }

    /// As [`Record::new`], for parts whose total length is not bounded: parts may overlap, so a few bytes of a request can
    /// ask for more than there is memory.
    ///
    /// # Errors
    /// [`TooLong`] if the record is longer than an allocation may be. Nothing was allocated then.
    ///
    /// # Panics
    /// If there is no such space.
    pub fn try_new(key: Key<'_>, parts: &[&[u8]]) -> Result<Self, TooLong> {
        let value_len = total_len(parts.iter().map(|part| part.len()))?;
        if value_len > MAX_INLINE_BYTES {
            return Ok(Self::with_shared(key, concatenated(parts, value_len).into()));
        }
        let (record, mut at) = Self::with_field(key, 0, value_len)?;
        for bytes in parts {
            // SAFETY: the field is as long as all parts together, and no other reference to it exists yet.
            unsafe {
                at.copy_from_nonoverlapping(NonNull::from(*bytes).cast(), bytes.len());
                at = at.add(bytes.len());
            }
        }
        Ok(record)
    }

    /// A record whose value are these bytes, without a copy if they are more than [`MAX_INLINE_BYTES`].
    ///
    /// # Panics
    /// If there is no such space, or no memory for the record.
    #[must_use]
    pub fn with_value(key: Key<'_>, value: impl Into<SharedBytes>) -> Self {
        let value = value.into();
        if value.len() > MAX_INLINE_BYTES { Self::with_shared(key, value) } else { Self::new(key, &[&value]) }
    }

    /// A record whose value is an object. Cost: one allocation.
    ///
    /// # Panics
    /// If there is no such space, or no memory for its name.
    #[must_use]
    pub fn with_object(key: Key<'_>, object: Box<O>) -> Self {
        let (record, field) =
            Self::with_field(key, OBJECT, size_of::<*mut O>()).expect("a name fits into an allocation");
        // SAFETY: the field has room for the pointer, which need not be aligned.
        unsafe { field.cast().write_unaligned(Box::into_raw(object)) };
        record
    }

    fn with_shared(key: Key<'_>, value: SharedBytes) -> Self {
        let (record, field) =
            Self::with_field(key, SHARED, size_of::<RawShared>()).expect("a name fits into an allocation");
        // SAFETY: as in `with_object`.
        unsafe { field.cast().write_unaligned(value.into_raw()) };
        record
    }

    /// A record with its header and name, and where its field begins, which the caller must write.
    #[inline]
    fn with_field(key: Key<'_>, kind: u8, field_len: usize) -> Result<(Self, NonNull<u8>), TooLong> {
        assert!(key.space < SPACES, "space {} does not exist", key.space);
        let mut head = [0; MAX_HEAD_BYTES];
        head[0] = kind | key.space;
        let mut head_len = 1;
        for number in [key.name.len(), field_len] {
            head_len += write_varint(&mut head[head_len..], number);
        }
        let (block, mut at) = allocate(total_len([head_len, key.name.len(), field_len].into_iter())?);
        for bytes in [&head[..head_len], key.name] {
            // SAFETY: the block is as long as header, name and field together, and no other reference to it exists yet.
            unsafe {
                at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
                at = at.add(bytes.len());
            }
        }
        Ok((Record { block, object: PhantomData }, at))
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> Key<'_> {
        let shape = self.shape();
        // SAFETY: `with_field` wrote header and name, and the shape is what it wrote there.
        unsafe {
            Key { space: shape.head & SPACE_MASK, name: self.slice(shape, shape.name_at, shape.field_at) }
        }
    }

    /// The space of the key.
    #[inline]
    pub fn space(&self) -> u8 {
        self.head() & SPACE_MASK
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> Value<'_, O> {
        let shape = self.shape();
        match shape.head & !SPACE_MASK {
            // SAFETY: the field was written by `try_new`.
            0 => Value::Bytes(unsafe { self.slice(shape, shape.field_at, shape.end) }),
            // SAFETY: the field is the share of this record, which is borrowed.
            SHARED => Value::Bytes(unsafe { shape.field::<RawShared>().read_unaligned().bytes() }),
            // SAFETY: the field is a pointer to the object, which this record owns.
            _ => Value::Object(unsafe { &*shape.field::<*const O>().read_unaligned() }),
        }
    }

    /// The value, if it is bytes.
    #[inline]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self.value() {
            Value::Bytes(bytes) => Some(bytes),
            Value::Object(_) => None,
        }
    }

    /// The value, if it lies in the block of the record, as bytes up to [`MAX_INLINE_BYTES`] do.
    #[inline]
    pub fn inline_bytes(&self) -> Option<&[u8]> {
        let shape = self.shape();
        // SAFETY: as in `value`.
        (shape.head < SPACES).then(|| unsafe { self.slice(shape, shape.field_at, shape.end) })
    }

    /// The value, if it is an object.
    pub fn object(&self) -> Option<&O> {
        match self.value() {
            Value::Bytes(_) => None,
            Value::Object(object) => Some(object),
        }
    }

    /// The value, if it is bytes with a block of their own: for a reader that copies them after the lock is released. It
    /// does not change; a change in place while it exists copies the value first.
    #[inline]
    pub fn share(&self) -> Option<SharedBytes> {
        // SAFETY: the record is an owner, and is borrowed.
        self.raw_shared().map(|shared| unsafe { shared.share() })
    }

    /// Its share of a shared value.
    fn raw_shared(&self) -> Option<RawShared> {
        // SAFETY: the kind says what the field is.
        (self.kind() == SHARED).then(|| unsafe { self.field::<RawShared>().read_unaligned() })
    }

    /// Mutable access to the value, if it is bytes; their length stays, and the memory that they take. Cost: the copy of a
    /// value above [`MAX_INLINE_BYTES`] that a reader [shares](Self::share).
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self.kind() {
            SHARED => Some(self.unshared()),
            _ => self.inline_bytes_mut(),
        }
    }

    /// Mutable access to the value, if it lies in the block of the record, as bytes up to [`MAX_INLINE_BYTES`] do.
    #[inline]
    pub fn inline_bytes_mut(&mut self) -> Option<&mut [u8]> {
        let Shape { start, head, field_at, end, .. } = self.shape();
        // SAFETY: as in `value`, and the record is borrowed exclusively.
        (head & !SPACE_MASK == 0)
            .then(|| unsafe { std::slice::from_raw_parts_mut(start.add(field_at).as_ptr(), end - field_at) })
    }

    /// Mutable access to the value, if it is an object.
    pub fn object_mut(&mut self) -> Option<&mut O> {
        // SAFETY: as in `value`, and the record is borrowed exclusively.
        (self.kind() == OBJECT).then(|| unsafe { &mut *self.field::<*mut O>().read_unaligned() })
    }

    /// The bytes of a shared value, of which this record becomes the only owner.
    fn unshared(&mut self) -> &mut [u8] {
        let bytes = self.edit_shared(|value| std::ptr::from_mut(value.make_mut()));
        // SAFETY: the bytes live as long as the record, which is borrowed exclusively.
        unsafe { &mut *bytes }
    }

    /// Changes what this record owns of a shared value, which it must have.
    fn edit_shared<R>(&mut self, edit: impl FnOnce(&mut SharedBytes) -> R) -> R {
        let field = self.field::<RawShared>();
        // SAFETY: the record is an owner, whose share it gets back below; if the edit panics, it has kept it.
        let mut value = ManuallyDrop::new(unsafe { SharedBytes::from_raw(field.read_unaligned()) });
        let result = edit(&mut value);
        // SAFETY: as in `with_shared`.
        unsafe { field.write_unaligned(ManuallyDrop::into_inner(value).into_raw()) };
        result
    }

    /// Appends zeros to the value until it has `length` bytes, if it is a byte string above [`MAX_INLINE_BYTES`] that no
    /// reader [shares](Self::share). Nothing changes if it is longer already. A value that outgrows its room gets this
    /// capacity, or `length` if that is more: with a share of the length as room, a byte costs the same on average however a value
    /// grows. Cost: the zeros; if it outgrows its room, as [`LongValue::push_moved`] also.
    pub fn lengthen(&mut self, length: usize, capacity: usize) -> Lengthened {
        let Some(shared) = self.raw_shared() else { return Lengthened::Unchanged };
        if length <= shared.capacity() {
            let is_longer = self.edit_shared(|value| value.extend_by_zeros(length));
            return if is_longer { Lengthened::InPlace } else { Lengthened::Unchanged };
        }
        self.edit_shared(|value| {
            let Some(bytes) = value.get_mut() else { return Lengthened::Unchanged };
            let mut longer = LongValue::with_room(length, capacity.max(length));
            longer.push_moved(bytes);
            longer.push_zeros(longer.missing());
            Lengthened::Moved(std::mem::replace(value, longer.into_shared()))
        })
    }

    /// Whether [`Record::lengthen`] would not have to move the value.
    #[must_use]
    pub fn has_room(&self, length: usize) -> bool {
        self.raw_shared().is_some_and(|shared| length <= shared.capacity())
    }

    /// The same value under another key. Cost: the copy of a value up to [`MAX_INLINE_BYTES`]; others are moved.
    ///
    /// # Panics
    /// If there is no such space.
    #[must_use]
    pub fn with_key(mut self, key: Key<'_>) -> Self {
        if let Some(value) = self.share() {
            return Record::with_shared(key, value);
        }
        match self.take_object() {
            Some(object) => Record::with_object(key, object),
            None => Record::new(key, &[self.bytes().unwrap_or_default()]),
        }
    }

    /// A copy under another key. Cost: the copy of a value up to [`MAX_INLINE_BYTES`], or of an object; longer values are
    /// shared until one of the records is edited.
    ///
    /// # Panics
    /// If there is no such space.
    #[must_use]
    pub fn copy_with_key(&self, key: Key<'_>) -> Self
    where
        O: Clone,
    {
        match (self.share(), self.value()) {
            (Some(value), _) => Record::with_shared(key, value),
            (None, Value::Bytes(bytes)) => Record::new(key, &[bytes]),
            (None, Value::Object(object)) => Record::with_object(key, Box::new(object.clone())),
        }
    }

    /// Takes the object out; the value is any bytes afterwards.
    fn take_object(&mut self) -> Option<Box<O>> {
        (self.kind() == OBJECT).then(|| {
            let space = self.space();
            // SAFETY: the record owns the object, and forgets it with its kind: the field is then bytes that have been
            // written.
            unsafe {
                self.start().write(space);
                Box::from_raw(self.field::<*mut O>().read_unaligned())
            }
        })
    }

    /// Prefetches the start of the block: header, name, and a short value.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch_lines(self.block.address().as_ptr(), PREFETCHED_LINES);
    }

    /// Moves the block, if it is to leave its page. The former address is not used any more.
    pub(super) fn compact(&mut self) {
        if !arena::is_leaving(self.block) {
            return;
        }
        let bytes = if self.is_outside() { OUTSIDE_BYTES } else { self.shape().end };
        // Without memory it stays.
        let Some(block) = arena::allocate(bytes) else { return };
        let former = std::mem::replace(&mut self.block, block);
        // SAFETY: both blocks have so many bytes, and the new one is not used yet; what the bytes point to has one owner before
        // and after.
        unsafe {
            block.address().copy_from_nonoverlapping(former.address(), bytes);
            arena::leave(former, bytes);
        }
    }

    /// The bytes of its blocks, without the bytes of an object.
    pub fn bytes_allocated(&self) -> usize {
        let shared = match self.kind() {
            SHARED => COUNTS_BYTES + self.raw_shared().map_or(0, RawShared::capacity),
            _ => 0,
        };
        let end = self.shape().end;
        let block =
            if self.is_outside() { arena::block_bytes(OUTSIDE_BYTES) + end } else { arena::block_bytes(end) };
        block + shared
    }

    /// Where the header begins.
    #[inline]
    fn start(&self) -> NonNull<u8> {
        let block = self.block.address();
        // SAFETY: a block has at least three bytes, and one with this mark a pointer behind it.
        unsafe { if block.read() < OUTSIDE { block } else { block.add(1).cast().read_unaligned() } }
    }

    fn is_outside(&self) -> bool {
        // SAFETY: a block has at least three bytes.
        unsafe { self.block.address().read() >= OUTSIDE }
    }

    /// The first byte of the header.
    #[inline]
    fn head(&self) -> u8 {
        // SAFETY: a header has at least three bytes.
        unsafe { self.start().read() }
    }

    #[inline]
    fn kind(&self) -> u8 {
        self.head() & !SPACE_MASK
    }

    /// Where the field begins.
    #[inline]
    fn field<T>(&self) -> NonNull<T> {
        self.shape().field()
    }

    /// # Safety
    /// The range lies in the block and has been written.
    #[inline]
    unsafe fn slice(&self, shape: Shape, from: usize, to: usize) -> &[u8] {
        // SAFETY: the caller guarantees the range, and the block lives as long as the record.
        unsafe { std::slice::from_raw_parts(shape.start.add(from).as_ptr(), to - from) }
    }

    #[inline]
    fn shape(&self) -> Shape {
        let start = self.start();
        // SAFETY: `with_field` wrote two varints behind the first byte.
        let (head, (name_len, field_len_at)) = unsafe { (start.read(), read_varint(start, 1)) };
        // SAFETY: likewise.
        let (field_len, name_at) = unsafe { read_varint(start, field_len_at) };
        let field_at = name_at + name_len;
        Shape { start, head, name_at, field_at, end: field_at + field_len }
    }
}

impl Shape {
    /// Where the field begins.
    #[inline]
    fn field<T>(self) -> NonNull<T> {
        // SAFETY: the field lies in the block.
        unsafe { self.start.add(self.field_at).cast() }
    }
}

/// The number at offset `at` behind `start`, and the offset behind it.
///
/// # Safety
/// A varint begins there.
#[inline]
unsafe fn read_varint(start: NonNull<u8>, mut at: usize) -> (usize, usize) {
    let (mut number, mut shift) = (0, 0);
    loop {
        // SAFETY: the caller guarantees that a varint begins here, and its last byte is the first below 128.
        let byte = unsafe { start.add(at).read() };
        at += 1;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (number, at);
        }
        shift += 7;
    }
}

/// Writes seven bits per byte, lowest first; all bytes but the last have the top bit set. Returns the length.
fn write_varint(to: &mut [u8], mut number: usize) -> usize {
    let mut at = 0;
    while number >= 0x80 {
        to[at] = number as u8 | 0x80;
        number >>= 7;
        at += 1;
    }
    to[at] = number as u8;
    at + 1
}

/// The sum of some lengths, unless it exceeds the longest allocation.
fn total_len(mut lengths: impl Iterator<Item = usize>) -> Result<usize, TooLong> {
    lengths
        .try_fold(0usize, |sum, len| sum.checked_add(len))
        .filter(|sum| *sum <= isize::MAX as usize)
        .ok_or(TooLong)
}

fn layout(bytes: usize) -> Layout {
    Layout::array::<u8>(bytes).expect("`total_len` refused what does not fit")
}

/// A block for header, name and field of so many bytes, and where they begin. The process ends if there is no memory.
#[inline]
fn allocate(bytes: usize) -> (Block, NonNull<u8>) {
    if bytes > MAX_BLOCK_BYTES || arena::is_scarce_for(bytes) {
        return allocate_outside(bytes);
    }
    let block = arena::allocate(bytes).unwrap_or_else(|| handle_alloc_error(layout(bytes)));
    (block, block.address())
}

#[cold]
fn allocate_outside(bytes: usize) -> (Block, NonNull<u8>) {
    let layout = layout(bytes);
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc(layout) };
    let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
    let (block, at) = allocate(OUTSIDE_BYTES);
    // SAFETY: the block has room for the mark and the pointer.
    unsafe {
        at.write(OUTSIDE);
        at.add(1).cast().write_unaligned(start);
    }
    (block, start)
}

/// The parts, whose total length is `len`, one after the other.
fn concatenated(parts: &[&[u8]], len: usize) -> Arc<[u8]> {
    if let [part] = parts {
        return Arc::from(*part);
    }
    let mut value = Arc::new_uninit_slice(len);
    let bytes = Arc::get_mut(&mut value).expect("the only owner");
    let mut at = 0;
    for part in parts {
        for (to, from) in bytes[at..].iter_mut().zip(*part) {
            to.write(*from);
        }
        at += part.len();
    }
    // SAFETY: the parts have this total length, so every byte was written.
    unsafe { value.assume_init() }
}

impl<O> Drop for Record<O> {
    fn drop(&mut self) {
        let end = self.shape().end;
        match self.kind() {
            0 => {}
            // SAFETY: the record is an owner, and the field is not read again.
            SHARED => drop(unsafe { SharedBytes::from_raw(self.field::<RawShared>().read_unaligned()) }),
            // SAFETY: the record owns the object, and the field is not read again.
            _ => drop(unsafe { Box::from_raw(self.field::<*mut O>().read_unaligned()) }),
        }
        let block_bytes = if self.is_outside() {
            // SAFETY: `allocate_outside` made it with this layout, and it is not used again.
            unsafe { dealloc(self.start().as_ptr(), layout(end)) };
            OUTSIDE_BYTES
        } else {
            end
        };
        // SAFETY: the block was allocated for so many bytes, and it is not used again.
        unsafe { arena::free(self.block, block_bytes) }
    }
}

impl<O> Hash for Record<O> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Records are equal if their keys are.
impl<O> PartialEq for Record<O> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<O> Eq for Record<O> {}

impl<O> std::fmt::Debug for Record<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("key", &self.key())
            .field("value_len", &self.bytes().map(<[u8]>::len))
            .finish()
    }
}
