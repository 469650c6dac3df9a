//! How several nodes over one Redis stay true to each other.
//!
//! ```text
//!  node A                              Redis                               node B
//!  fetch: miss in memory
//!    look ───────── script ──────────► nothing: lease 1
//!    loader runs                                     ◄── MULTI UNLINK PUBLISH ─── delete
//!    commit ─────── script ──────────► lease 1? gone: refused
//!    value to those who wait, kept nowhere
//!    ◄────────────────────────── announcement ─────────
//!  memory drops the key
//!    beat ──────────────────────────►
//!    ◄──────────────────────── answer: all before it was heard; memory may answer for max_lag more
//! ```
//!
//! - [`lease`]: what a load sees in Redis and how it stores, by comparing.
//! - [`mutation`]: invalidations and writes, here, there and announced.
//! - [`announce`]: what nodes tell each other.
//! - [`trust`]: how long memory may be believed; [`caretaker`]: the task that renews it.
//! - [`ledger`]: tags and clear, as stamps of a clock that Redis keeps.
//! - [`journal`]: what is owed to Redis, and what it may have to be told again.
//! - [`status`]: what of all that is active.

pub(crate) mod announce;
pub(crate) mod caretaker;
pub(crate) mod journal;
pub(crate) mod lease;
pub(crate) mod ledger;
pub(crate) mod mutation;
pub(crate) mod status;
pub(crate) mod trust;

use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

const STRIPES: usize = 1_024;

/// Counts changes that were heard of by tracking, by the hash of the key: whoever fills memory learns that something
/// came between.
#[derive(Debug)]
pub(crate) struct Changes(Box<[AtomicU64]>);

impl Changes {
    pub(crate) fn new() -> Self {
        Changes((0..STRIPES).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn note(&self, redis_key: &[u8]) {
        self.of(redis_key).fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn count(&self, redis_key: &[u8]) -> u64 {
        self.of(redis_key).load(Ordering::Acquire)
    }

    fn of(&self, redis_key: &[u8]) -> &AtomicU64 {
        &self.0[xxh3_64(redis_key) as usize % STRIPES]
    }
}
