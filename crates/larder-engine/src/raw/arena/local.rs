//! The free blocks of a thread: taking one and putting it back needs no lock.
//!
//! A thread keeps some kilobytes of each size. When it has none it takes several from the pages at once, and when it has too
//! many it returns half.

use super::classes::{CLASSES, Class};
use super::pages::{Chain, Pages};
use super::range::Range;
use super::{BASE, Block, poison};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The most that a thread keeps of a size: this many bytes, and blocks.
const MAX_LOCAL_BYTES: usize = 8192;
const MAX_LOCAL_BLOCKS: usize = 64;

/// Blocks up to this length lie in the arena as long as it has any room.
const MAX_SCARCE_BYTES: usize = 64;

/// The pages of the process, and `None` if the system reserves no range.
static PAGES: OnceLock<Option<Pages>> = OnceLock::new();

thread_local! {
    static LOCAL: Local = const { Local { lists: [const { Cell::new(EMPTY) }; CLASSES] } };
}

const EMPTY: Chain = Chain { first: 0, len: 0 };

struct Local {
    lists: [Cell<Chain>; CLASSES],
}

/// A block of at least this many bytes; `None` if there is no memory.
///
/// # Panics
/// If `bytes` exceeds [`MAX_BLOCK_BYTES`](super::MAX_BLOCK_BYTES).
#[inline]
pub(in crate::raw) fn allocate(bytes: usize) -> Option<Block> {
    let class = Class::of(bytes);
    // A thread that is ending has no lists any more.
    let first = LOCAL.try_with(|local| local.take(class)).unwrap_or_else(|_| take(class, 1).first);
    let block = NonZeroU32::new(first).map(Block)?;
    poison::allow(block, bytes);
    Some(block)
}

/// Puts a block back.
///
/// # Safety
/// It was allocated for this many bytes, and nobody uses it.
#[inline]
pub(in crate::raw) unsafe fn free(block: Block, bytes: usize) {
    let class = Class::of(bytes);
    poison::forbid(block, class.bytes());
    if LOCAL.try_with(|local| local.put(class, block)).is_err() {
        put(class, Chain { first: block.0.get(), len: 1 });
    }
}

/// Whether blocks of this length should lie outside of the arena, because it has not much room left: such a block needs a
/// short one here that points to it, so that 32 GiB are enough for a billion of them.
#[inline]
pub(in crate::raw) fn is_scarce_for(bytes: usize) -> bool {
    bytes > MAX_SCARCE_BYTES && PAGES.get().and_then(Option::as_ref).is_some_and(Pages::is_scarce)
}

/// Whether a block is to leave its page.
#[inline]
pub(in crate::raw) fn is_leaving(block: Block) -> bool {
    PAGES.get().and_then(Option::as_ref).is_some_and(|pages| pages.is_leaving(block.0.get()))
}

/// As [`free`], for a block that is to leave its page: it is not used again.
///
/// # Safety
/// As for [`free`].
pub(in crate::raw) unsafe fn leave(block: Block, bytes: usize) {
    let class = Class::of(bytes);
    poison::forbid(block, class.bytes());
    put(class, Chain { first: block.0.get(), len: 1 });
}

/// Puts the free blocks of this thread back.
pub(super) fn flush() {
    // Without lists there is nothing to put back.
    let _ = LOCAL.try_with(Local::flush);
}

pub(super) fn pages() -> Option<&'static Pages> {
    let reserve = || {
        let pages = Pages::new(Range::longest()?);
        BASE.store(pages.range().base().as_ptr(), Ordering::Relaxed);
        Some(pages)
    };
    PAGES.get_or_init(reserve).as_ref()
}

fn take(class: Class, most: u32) -> Chain {
    pages().map_or(EMPTY, |pages| pages.take(class, most))
}

fn put(class: Class, blocks: Chain) {
    // SAFETY: `free` was promised that the block is of this class and unused; a chain of a thread consists of such blocks.
    pages().into_iter().for_each(|pages| unsafe { pages.put(class, blocks) });
}

/// The most blocks of a class that a thread keeps.
#[inline]
fn limit(class: Class) -> u32 {
    (MAX_LOCAL_BYTES / class.bytes()).clamp(2, MAX_LOCAL_BLOCKS) as u32
}

impl Local {
    #[inline]
    fn take(&self, class: Class) -> u32 {
        let list = &self.lists[class.index()];
        let mut blocks = list.get();
        if blocks.len == 0 {
            blocks = take(class, limit(class) / 2);
            if blocks.len == 0 {
                return 0;
            }
        }
        list.set(Chain { first: next_of(blocks.first), len: blocks.len - 1 });
        blocks.first
    }

    #[inline]
    fn put(&self, class: Class, block: Block) {
        let list = &self.lists[class.index()];
        let blocks = list.get();
        // SAFETY: nobody uses the block, which has at least a granule.
        unsafe { block.address().cast().write(blocks.first) };
        list.set(Chain { first: block.0.get(), len: blocks.len + 1 });
        if blocks.len + 1 > limit(class) {
            self.return_half(class);
        }
    }

    #[cold]
    fn return_half(&self, class: Class) {
        let list = &self.lists[class.index()];
        let blocks = list.get();
        let kept = blocks.len / 2;
        // What was freed last is in the processor's cache, and stays.
        let rest = (0..kept).fold(blocks.first, |block, _| next_of(block));
        list.set(Chain { first: blocks.first, len: kept });
        put(class, Chain { first: rest, len: blocks.len - kept });
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Local {
    fn flush(&self) {
        for class in Class::all() {
            let blocks = self.lists[class.index()].replace(EMPTY);
            if blocks.len > 0 {
                put(class, blocks);
            }
        }
    }
}

/// The block after one that is free and in a chain; any number after the last one.
#[inline]
fn next_of(block: u32) -> u32 {
    // SAFETY: a free block is memory of the range, and was linked, or is the last of its chain and holds any bytes.
    NonZeroU32::new(block).map_or(0, |block| unsafe { Block(block).address().cast().read() })
}
