//! The views of cached functions: a table of each handle of a cache, by the number of the function.

use std::any::Any;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A cached function of this program.
#[derive(Debug, Default)]
pub struct CachedFn {
    number: OnceLock<usize>,
}

impl CachedFn {
    /// A function that was not called yet.
    pub const fn new() -> Self {
        CachedFn { number: OnceLock::new() }
    }

    fn number(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        *self.number.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A view of a function, whose types only the function knows.
type AnyView = Box<dyn Any + Send + Sync>;

/// The views of the functions that were called with a handle of a cache, or with a clone of it. Reading them takes no lock.
#[derive(Debug, Default)]
pub(crate) struct FnViews {
    /// Block `b` has the 2^b functions from number 2^b − 1 on.
    blocks: [OnceLock<Box<[OnceLock<AnyView>]>>; MAX_BLOCKS],
}

/// For 65,535 functions in one program.
const MAX_BLOCKS: usize = 16;

impl FnViews {
    pub(crate) fn get_or_make<T: Any + Send + Sync>(
        &self,
        function: &CachedFn,
        make: impl FnOnce() -> T,
    ) -> &T {
        let position = function.number() + 1;
        let block = position.ilog2();
        let first = 1 << block;
        let block = self.blocks[block as usize].get_or_init(|| (0..first).map(|_| OnceLock::new()).collect());
        let view = block[position - first].get_or_init(|| Box::new(make()));
        view.downcast_ref().expect("a function has one type of view")
    }
}
