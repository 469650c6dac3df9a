//! Which entry leaves when room is needed: one trait, one file per policy.
//!
//! A policy knows entries by the ids of their slots and nothing else. The shard guarantees that `insert` and `remove`
//! come in pairs, that `hit` names an entry that is present, and that all calls happen under its lock. The policy
//! guarantees that `victim` names an entry that is present, and finds one as long as there is any besides `keep`.

mod fifo;
mod lru;

use fifo::Fifo;
use lru::Lru;

/// The eviction policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// The entry that was not used for the longest time leaves.
    #[default]
    Lru,
    /// The oldest entry leaves. For comparison: hits cost nothing, and count for nothing.
    Fifo,
}

pub(crate) trait Evict: std::fmt::Debug + Send {
    /// A new entry took the slot `id`.
    fn insert(&mut self, id: u32);
    /// The entry was read or overwritten.
    fn hit(&mut self, id: u32);
    /// The entry left its slot.
    fn remove(&mut self, id: u32);
    /// The entry that should leave next; never `keep`.
    fn victim(&mut self, keep: Option<u32>) -> Option<u32>;
    /// All entries in the order in which they would leave, if none were used any more.
    #[cfg(test)]
    fn order(&self) -> Vec<u32>;
}

impl Policy {
    pub(crate) fn build(self) -> Box<dyn Evict> {
        match self {
            Policy::Lru => Box::new(Lru::default()),
            Policy::Fifo => Box::new(Fifo::default()),
        }
    }
}
