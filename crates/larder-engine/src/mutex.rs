//! A lock that a panic does not poison: what it guards is consistent at every point where code of a user may panic.
//!
//! It is that of the standard library, so that the crate needs none for it. The explorers of schedules and of memory orderings
//! have theirs in `sync`; what they do not explore uses this one.

use std::sync::{MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
