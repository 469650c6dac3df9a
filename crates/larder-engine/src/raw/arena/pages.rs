//! The pages of the range: which are free, and the free blocks of those that are not.
//!
//! A free block holds the number of the next one in its first bytes. A page is on the list of its class while it has a free
//! block, and leaves it when the last block came back.

use super::classes::{CLASSES, Class};
use super::range::Range;
use super::{GRANULE, PAGE_BYTES, poison};
use crate::mutex::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

const GRANULES_PER_PAGE: u32 = (PAGE_BYTES / GRANULE) as u32;
/// How many free pages stay with the process: what is about to be used again should not be cleared by the system first.
const KEPT_PAGES: usize = 64;
/// How many pages of a class are looked at to choose those that are left: others wait for its lock meanwhile.
const MAX_CONSIDERED: usize = 2048;
/// Not a page, and not a block: the first page holds descriptions of pages.
const NONE: u32 = 0;

/// Free blocks, each linked to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    pub(super) first: u32,
    pub(super) len: u32,
}

/// A page that belongs to a class.
#[derive(Debug, Default)]
struct Page {
    free: Chain,
    /// Blocks from the start of the page that were ever given out.
    begun: u32,
    /// Its neighbours on the list of its class.
    next: u32,
    previous: u32,
    is_listed: bool,
}

/// The pages of a class that have a free block, or one that was never given out.
#[derive(Debug, Default)]
struct List {
    first: u32,
}

/// Pages of no class.
#[derive(Debug)]
struct FreePages {
    /// With memory.
    kept: Vec<u32>,
    /// Without.
    given_back: Vec<u32>,
    never_used: u32,
}

/// All pages of a range.
#[derive(Debug)]
pub(super) struct Pages {
    /// Begins with a [`Page`] for each page, which is guarded by the lock of the class that the page belongs to, and then a
    /// byte for each, which tells whether its blocks are to leave it.
    range: Range,
    /// How many pages belong to a class.
    used: AtomicU32,
    /// Whether less than a fourth of the range is left.
    is_scarce: AtomicBool,
    /// The bytes of blocks that were taken and not put back.
    taken: AtomicUsize,
    lists: [Mutex<List>; CLASSES],
    free: Mutex<FreePages>,
}

impl Pages {
    pub(super) fn new(range: Range) -> Self {
        let descriptions = range.pages() as usize * (size_of::<Page>() + size_of::<AtomicBool>());
        let never_used = descriptions.div_ceil(PAGE_BYTES).max(1) as u32;
        let free = FreePages { kept: Vec::new(), given_back: Vec::new(), never_used };
        Pages {
            range,
            used: AtomicU32::new(0),
            is_scarce: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
            lists: std::array::from_fn(|_| Mutex::default()),
            free: Mutex::new(free),
        }
    }

    pub(super) fn range(&self) -> &Range {
        &self.range
    }

    /// The bytes of pages in use, and those of them that are free blocks.
    pub(super) fn used_and_free_bytes(&self) -> (usize, usize) {
        let used = self.used.load(Ordering::Relaxed) as usize * PAGE_BYTES;
        (used, used.saturating_sub(self.taken.load(Ordering::Relaxed)))
    }

    /// The bytes of free pages that have memory.
    pub(super) fn kept_bytes(&self) -> usize {
        self.free.lock().kept.len() * PAGE_BYTES
    }

    /// Whether less than a fourth of the range is left: it should hold what has to lie in it.
    #[inline]
    pub(super) fn is_scarce(&self) -> bool {
        self.is_scarce.load(Ordering::Relaxed)
    }

    /// Up to `most` blocks, at least one unless the range is full.
    pub(super) fn take(&self, class: Class, most: u32) -> Chain {
        let mut list = self.lists[class.index()].lock();
        if list.first == NONE {
            let Some(number) = self.take_page() else { return Chain::default() };
            // SAFETY: the page belongs to this class now, whose lock is held.
            let page = unsafe { self.page(number) };
            *page = Page::default();
            poison::allow_all(self.address(number * GRANULES_PER_PAGE).cast(), PAGE_BYTES);
            self.enlist(&mut list, number);
        }
        let number = list.first;
        // SAFETY: as above.
        let page = unsafe { self.page(number) };
        let chain = self.take_of(page, number, class, most);
        if page.free.len == 0 && page.begun == class.blocks_per_page() {
            self.delist(&mut list, number);
        }
        self.taken.fetch_add(chain.len as usize * class.bytes(), Ordering::Relaxed);
        chain
    }

    /// Takes blocks of a page: those that came back, or those that follow the ones given out.
    fn take_of(&self, page: &mut Page, number: u32, class: Class, most: u32) -> Chain {
        if page.free.len > 0 {
            let first = page.free.first;
            let len = page.free.len.min(most);
            let last = (1..len).fold(first, |block, _| self.next_of(block));
            page.free = Chain { first: self.next_of(last), len: page.free.len - len };
            return Chain { first, len };
        }
        let len = (class.blocks_per_page() - page.begun).min(most);
        let granules = (class.bytes() / GRANULE) as u32;
        let first = number * GRANULES_PER_PAGE + page.begun * granules;
        (1..len).for_each(|n| self.link(first + (n - 1) * granules, first + n * granules));
        page.begun += len;
        Chain { first, len }
    }

    /// Puts blocks of a class back.
    ///
    /// # Safety
    /// They were taken with this class, and nobody uses them.
    pub(super) unsafe fn put(&self, class: Class, blocks: Chain) {
        self.taken.fetch_sub(blocks.len as usize * class.bytes(), Ordering::Relaxed);
        let mut list = self.lists[class.index()].lock();
        let (mut block, mut emptied) = (blocks.first, Vec::new());
        for _ in 0..blocks.len {
            let next = self.next_of(block);
            let number = block / GRANULES_PER_PAGE;
            // SAFETY: the block is of this class, so the page belongs to it, whose lock is held.
            let page = unsafe { self.page(number) };
            self.link(block, page.free.first);
            page.free = Chain { first: block, len: page.free.len + 1 };
            if page.free.len == page.begun {
                if page.is_listed {
                    self.delist(&mut list, number);
                }
                self.set_leaving(number, false);
                emptied.push(number);
            } else if !page.is_listed && !self.is_leaving(block) {
                self.enlist(&mut list, number);
            }
            block = next;
        }
        // A page that goes back to the system takes a system call.
        drop(list);
        emptied.into_iter().for_each(|number| self.put_page(number));
    }

    /// Chooses pages of a class whose blocks fit into the free ones of others, and gives out no more blocks of them. Looks at
    /// a bounded number of pages.
    pub(super) fn choose_leaving(&self, class: Class, chosen: &mut Vec<(Class, u32)>) {
        let mut list = self.lists[class.index()].lock();
        let mut pages = Vec::new();
        let mut number = list.first;
        while number != NONE && pages.len() < MAX_CONSIDERED {
            // SAFETY: the page belongs to this class, whose lock is held.
            let page = unsafe { self.page(number) };
            pages.push((page.begun - page.free.len, number));
            number = page.next;
        }
        let used: u32 = pages.iter().map(|(used, _)| used).sum();
        // One page more, so that those who store meanwhile find free blocks too.
        let needed = used.div_ceil(class.blocks_per_page()) as usize + 1;
        pages.sort_unstable();
        for (_, number) in pages.iter().take(pages.len().saturating_sub(needed)) {
            self.delist(&mut list, *number);
            self.set_leaving(*number, true);
            chosen.push((class, *number));
        }
    }

    /// Gives out blocks of a page again that was chosen to be left, if any block still lies in it.
    pub(super) fn stop_leaving(&self, class: Class, number: u32) {
        let mut list = self.lists[class.index()].lock();
        // If the mark is still there, the page was not emptied, and is of this class.
        if self.leaving(number).swap(false, Ordering::Relaxed) {
            // SAFETY: the page belongs to this class, whose lock is held.
            let page = unsafe { self.page(number) };
            if page.free.len > 0 || page.begun < class.blocks_per_page() {
                self.enlist(&mut list, number);
            }
        }
    }

    /// Whether a block is to leave its page. It may be wrong for a moment.
    #[inline]
    pub(super) fn is_leaving(&self, block: u32) -> bool {
        self.is_leaving_page(block / GRANULES_PER_PAGE)
    }

    /// Whether a page was chosen to be left, and has not become empty.
    #[inline]
    pub(super) fn is_leaving_page(&self, number: u32) -> bool {
        self.leaving(number).load(Ordering::Relaxed)
    }

    fn set_leaving(&self, number: u32, leaving: bool) {
        self.leaving(number).store(leaving, Ordering::Relaxed);
    }

    fn leaving(&self, number: u32) -> &AtomicBool {
        debug_assert!(number < self.range.pages());
        let first = self.range.pages() as usize * size_of::<Page>();
        // SAFETY: behind the descriptions the range has a byte for each page, zero at first, which is only used as this.
        unsafe { self.range.base().add(first + number as usize).cast().as_ref() }
    }

    fn enlist(&self, list: &mut List, number: u32) {
        // SAFETY: both pages belong to the class whose list the caller has locked.
        unsafe {
            if list.first != NONE {
                self.page(list.first).previous = number;
            }
            let page = self.page(number);
            (page.next, page.previous, page.is_listed) = (list.first, NONE, true);
        }
        list.first = number;
    }

    fn delist(&self, list: &mut List, number: u32) {
        // SAFETY: as in `enlist`.
        unsafe {
            let page = self.page(number);
            let (next, previous) = (page.next, page.previous);
            page.is_listed = false;
            if next != NONE {
                self.page(next).previous = previous;
            }
            match previous {
                NONE => list.first = next,
                previous => self.page(previous).next = next,
            }
        }
    }

    fn take_page(&self) -> Option<u32> {
        let mut free = self.free.lock();
        let number = free.kept.pop().or_else(|| free.given_back.pop());
        let number = number.or_else(|| {
            let number = (free.never_used < self.range.pages()).then_some(free.never_used)?;
            free.never_used += 1;
            Some(number)
        })?;
        self.count_used(1);
        Some(number)
    }

    fn count_used(&self, more: i32) {
        let used = self.used.fetch_add(more.cast_unsigned(), Ordering::Relaxed).wrapping_add_signed(more);
        self.is_scarce.store(used > self.range.pages() / 4 * 3, Ordering::Relaxed);
    }

    /// Takes a page back whose blocks are all free.
    fn put_page(&self, number: u32) {
        self.count_used(-1);
        let mut free = self.free.lock();
        if free.kept.len() < KEPT_PAGES {
            free.kept.push(number);
            return;
        }
        drop(free);
        // SAFETY: the page is in the range, no block of it is used, and no list has it.
        unsafe { self.range.give_back(number) };
        self.free.lock().given_back.push(number);
    }

    /// # Safety
    /// The caller holds the lock of the class that the page belongs to, and has no other reference to this page.
    #[expect(clippy::mut_from_ref, reason = "the lock of the class guards it")]
    unsafe fn page(&self, number: u32) -> &mut Page {
        debug_assert!(number < self.range.pages());
        // SAFETY: the range begins with as many of these as it has pages. Before one was written, its bytes are zero, which
        // are values of numbers and of a bool. The caller guarantees that nobody else uses it.
        unsafe { self.range.base().cast::<Page>().add(number as usize).as_mut() }
    }

    /// The block after a free one.
    fn next_of(&self, block: u32) -> u32 {
        // SAFETY: the block lies in the range, is free, and `link` has written its first bytes; a chain's last block may
        // have any bytes there, which are not used.
        unsafe { self.address(block).read() }
    }

    fn link(&self, block: u32, next: u32) {
        // SAFETY: the block lies in the range and is free.
        unsafe { self.address(block).write(next) };
    }

    fn address(&self, block: u32) -> *mut u32 {
        // SAFETY: blocks lie in the range.
        unsafe { self.range.base().add(block as usize * GRANULE).cast().as_ptr() }
    }
}
