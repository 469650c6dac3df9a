//! Which pages are to become empty, because the blocks in them fit into others.

use super::classes::Class;
use super::local::{flush, pages};
use std::sync::atomic::{AtomicBool, Ordering};

/// Free blocks are left alone up to this share of the pages: one in so many bytes.
const TOLERATED_SHARE: usize = 8;
/// And up to this many bytes.
const TOLERATED_BYTES: usize = 8 << 20;

/// How many bytes of the pages in use may be free before a compaction is worth while.
pub(in crate::raw) fn tolerated_bytes(used: usize) -> usize {
    TOLERATED_BYTES.max(used / TOLERATED_SHARE)
}

/// Whether there is a compaction: two would take each other's pages for good.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// Pages that are to become empty. Those that did not are used again when it is dropped.
#[derive(Debug)]
pub(in crate::raw) struct Compaction {
    chosen: Vec<(Class, u32)>,
}

impl Compaction {
    /// Chooses pages, if that is worth while and no other compaction is running. Cost: a look at some thousand pages.
    pub(in crate::raw) fn begin() -> Option<Compaction> {
        let pages = pages()?;
        let (used, free) = pages.used_and_free_bytes();
        let is_worth_while = free > tolerated_bytes(used);
        if !is_worth_while || IS_RUNNING.swap(true, Ordering::Relaxed) {
            return None;
        }
        let mut compaction = Compaction { chosen: Vec::new() };
        // What this thread has free may lie in pages that are chosen.
        flush();
        Class::all().for_each(|class| pages.choose_leaving(class, &mut compaction.chosen));
        (!compaction.chosen.is_empty()).then_some(compaction)
    }
}

impl Compaction {
    /// How many pages were chosen.
    pub(in crate::raw) fn len(&self) -> usize {
        self.chosen.len()
    }

    /// How many of them have become empty.
    pub(in crate::raw) fn emptied(&self) -> usize {
        let is_left = |page: u32| pages().is_some_and(|pages| !pages.is_leaving_page(page));
        self.chosen.iter().filter(|(_, page)| is_left(*page)).count()
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        for (class, page) in self.chosen.drain(..) {
            pages().into_iter().for_each(|pages| pages.stop_leaving(class, page));
        }
        IS_RUNNING.store(false, Ordering::Relaxed);
    }
}
