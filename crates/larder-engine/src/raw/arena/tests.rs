//! Blocks never overlap, come back whatever thread frees them, and empty pages return to the system.

use super::PAGE_BYTES;
use super::classes::Class;
use super::pages::{Chain, Pages};
use super::range::Range;
use super::{Block, GRANULE, MAX_BLOCK_BYTES, allocate, block_bytes, free};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::mpsc;

/// A block that is filled with a byte of its own.
struct Filled {
    block: Block,
    bytes: usize,
    with: u8,
}

impl Filled {
    fn new(bytes: usize, with: u8) -> Self {
        let bytes = block_bytes(bytes);
        let block = allocate(bytes).expect("there is memory");
        // SAFETY: the block is new and has so many bytes.
        unsafe { block.address().as_ptr().write_bytes(with, bytes) };
        Filled { block, bytes, with }
    }

    /// Frees it, if nobody else has written to it.
    fn free(self) {
        // SAFETY: `new` has written these bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.block.address().as_ptr(), self.bytes) };
        assert!(bytes.iter().all(|byte| *byte == self.with), "another block overlaps");
        // SAFETY: it was allocated for so many bytes, and this is its only owner.
        unsafe { free(self.block, self.bytes) };
    }
}

// SAFETY: a block may be used by any thread, one at a time.
unsafe impl Send for Filled {}

proptest! {
    #[test]
    fn blocks_of_random_sizes_do_not_overlap(
        steps in proptest::collection::vec((any::<bool>(), 0..=MAX_BLOCK_BYTES, any::<u8>()), 1..400),
    ) {
        let mut blocks = VecDeque::new();
        for (is_new, bytes, with) in steps {
            if is_new || blocks.is_empty() {
                // Small ones are more likely to share a page.
                blocks.push_back(Filled::new(bytes % 64, with));
                blocks.push_back(Filled::new(bytes, with));
            } else if let Some(block) = blocks.swap_remove_back(bytes % blocks.len()) {
                block.free();
            }
        }
        blocks.into_iter().for_each(Filled::free);
    }
}

#[test]
fn blocks_freed_by_another_thread_come_back() {
    let (give, taken) = mpsc::channel::<Filled>();
    let freeing = std::thread::spawn(move || taken.iter().for_each(Filled::free));
    for n in 0..100_000usize {
        give.send(Filled::new(n % 200, n as u8)).expect("the other thread lives");
    }
    drop(give);
    freeing.join().expect("no block was overwritten");
}

/// A class of its own range, and all blocks that it has.
fn fill(pages: &Pages, class: Class) -> Vec<Chain> {
    std::iter::from_fn(|| Some(pages.take(class, 100)).filter(|chain| chain.len > 0)).collect()
}

fn total(chains: &[Chain]) -> usize {
    chains.iter().map(|chain| chain.len as usize).sum()
}

#[test]
fn full_range_gives_nothing_until_blocks_come_back() {
    let pages = Pages::new(Range::reserve(40 * PAGE_BYTES).expect("address space"));
    for bytes in [8, 40, 512, MAX_BLOCK_BYTES] {
        let class = Class::of(bytes);
        let chains = fill(&pages, class);
        // The first page describes the others.
        assert_eq!(total(&chains), 39 * (PAGE_BYTES / class.bytes()), "{class:?}");
        assert_eq!(pages.take(Class::of(88), 1).len, 0, "no page is left for another size");
        assert!(pages.is_scarce());
        // SAFETY: they were taken with this class, and nobody uses them.
        chains.into_iter().for_each(|chain| unsafe { pages.put(class, chain) });
        // The next size finds every page free.
        assert!(!pages.is_scarce());
    }
}

#[test]
fn blocks_lie_in_their_pages_at_multiples_of_a_granule() {
    let pages = Pages::new(Range::reserve(8 * PAGE_BYTES).expect("address space"));
    let class = Class::of(88);
    let mut starts: Vec<usize> = Vec::new();
    for chain in fill(&pages, class) {
        let mut block = chain.first;
        for _ in 0..chain.len {
            starts.push(block as usize * GRANULE);
            // SAFETY: the block is free, and linked to the next one of the chain.
            block = unsafe { pages.range().base().add(block as usize * GRANULE).cast().read() };
        }
    }
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= class.bytes()));
    assert!(starts.iter().all(|start| start / PAGE_BYTES == (start + class.bytes() - 1) / PAGE_BYTES));
}

#[test]
fn pages_beyond_those_kept_are_given_back_and_are_zero_afterwards() {
    let pages = Pages::new(Range::reserve(200 * PAGE_BYTES).expect("address space"));
    let class = Class::of(MAX_BLOCK_BYTES);
    let chains = fill(&pages, class);
    // Marks the second half of each block, which no link overwrites.
    let marks = |pages: &Pages, chain: &Chain| {
        let block = chain.first as usize * GRANULE + MAX_BLOCK_BYTES / 2;
        // SAFETY: the middle of a block that was taken, or of a page that is free.
        unsafe { pages.range().base().add(block) }
    };
    // SAFETY: as above.
    chains.iter().for_each(|chain| unsafe { marks(&pages, chain).write(7) });
    // SAFETY: the blocks were taken with this class, and nobody uses them.
    chains.iter().for_each(|chain| unsafe { pages.put(class, *chain) });
    // SAFETY: as above; what was given back reads as zero.
    let kept = chains.iter().filter(|chain| unsafe { marks(&pages, chain).read() } == 7).count();
    assert!(kept < chains.len(), "{kept} of {} pages still have memory", chains.len());
}
