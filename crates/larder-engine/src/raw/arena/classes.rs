//! The sizes of blocks: every multiple of eight up to 512 bytes, then about a sixteenth more each time.
//!
//! Up to 512 bytes a block wastes at most seven. Beyond, the sizes are those that divide a page into equal parts, so that
//! nothing is left at its end, and a block wastes 3 % on average.

use super::{GRANULE, PAGE_BYTES};

/// Sizes up to this one are all multiples of the granule.
const FINE_BYTES: usize = 512;
/// The longest block: thirteen in a page.
pub(in crate::raw) const MAX_BLOCK_BYTES: usize = part_of_page(13);

/// The number of sizes.
pub(super) const CLASSES: usize = count();

/// The number of a size, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u8);

const BYTES: [u16; CLASSES] = sizes();
/// The class of each length, in granules.
const OF_LENGTH: [u8; MAX_BLOCK_BYTES / GRANULE + 1] = classes_by_length();

impl Class {
    /// The class of the shortest blocks that hold this many bytes.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn of(bytes: usize) -> Class {
        Class(OF_LENGTH[bytes.div_ceil(GRANULE)])
    }

    /// All classes.
    pub(super) fn all() -> impl Iterator<Item = Class> {
        (0..CLASSES as u8).map(Class)
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The size of its blocks.
    #[inline]
    pub(super) fn bytes(self) -> usize {
        usize::from(BYTES[self.index()])
    }

    /// How many of its blocks fit into a page.
    pub(super) fn blocks_per_page(self) -> u32 {
        (PAGE_BYTES / self.bytes()) as u32
    }
}

/// The size of a block, if so many share a page.
const fn part_of_page(blocks: usize) -> usize {
    PAGE_BYTES / blocks / GRANULE * GRANULE
}

/// The size after this one.
const fn next(bytes: usize) -> usize {
    if bytes < FINE_BYTES {
        return bytes + GRANULE;
    }
    let blocks = PAGE_BYTES / bytes;
    let fewer = blocks / 16;
    part_of_page(blocks - if fewer == 0 { 1 } else { fewer })
}

const fn count() -> usize {
    let (mut count, mut bytes) = (1, GRANULE);
    while bytes < MAX_BLOCK_BYTES {
        bytes = next(bytes);
        count += 1;
    }
    count
}

const fn sizes() -> [u16; CLASSES] {
    let mut sizes = [GRANULE as u16; CLASSES];
    let mut at = 1;
    while at < CLASSES {
        sizes[at] = next(sizes[at - 1] as usize) as u16;
        at += 1;
    }
    sizes
}

const fn classes_by_length() -> [u8; MAX_BLOCK_BYTES / GRANULE + 1] {
    let mut classes = [0; MAX_BLOCK_BYTES / GRANULE + 1];
    let (mut class, mut granules) = (0, 0);
    while granules < classes.len() {
        if granules * GRANULE > BYTES[class] as usize {
            class += 1;
        }
        classes[granules] = class as u8;
        granules += 1;
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_is_the_smallest_that_holds_the_bytes() {
        for bytes in 0..=MAX_BLOCK_BYTES {
            let class = Class::of(bytes);
            assert!(class.bytes() >= bytes, "{bytes} bytes in {class:?}");
            let smaller = class.index().checked_sub(1).map(|index| usize::from(BYTES[index]));
            assert!(smaller.is_none_or(|smaller| smaller < bytes), "{bytes} bytes in {class:?}");
        }
    }

    #[test]
    fn sizes_are_multiples_of_eight_and_waste_little() {
        assert_eq!(Class::all().last().map(Class::bytes), Some(MAX_BLOCK_BYTES));
        for pair in BYTES.windows(2) {
            let (former, size) = (f64::from(pair[0]), f64::from(pair[1]));
            assert!(pair[1].is_multiple_of(8) && former < size && size - former <= (former * 0.09).max(8.0));
        }
        for class in Class::all() {
            let rest = PAGE_BYTES - class.blocks_per_page() as usize * class.bytes();
            assert!(rest <= PAGE_BYTES / 64, "{rest} bytes of a page are unused by {class:?}");
        }
    }
}
