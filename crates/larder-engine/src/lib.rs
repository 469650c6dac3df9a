//! A bounded, concurrent in-process cache: sharded, with expiry, weights and single-flight loads.
//!
//! ```
//! use larder_engine::Cache;
//! use std::time::Duration;
//!
//! let cache = Cache::<String, u32>::builder().entries(10_000).ttl(Duration::from_secs(60)).build()?;
//! cache.insert("answer".to_owned(), 42);
//! assert_eq!(cache.get("answer"), Some(42));
//! # Ok::<(), larder_engine::BuildError>(())
//! ```
//!
//! # What a caller may rely on
//!
//! - **Bounded.** The sum of the weights never exceeds the capacity, at any moment: room is made before an entry is stored.
//!   There are three exceptions: a lowered capacity, until the excess is evicted ([`Cache::resize`]); edits of [`raw`] that
//!   say so; and a change of [`Evictable`] beside a write that has begun to make room. An entry heavier than
//!   [`Builder::max_share`] of the capacity is refused and returned.
//! - **Stored entries can be read.** An entry is never the victim of its own insertion.
//! - **Exact expiry.** An entry whose deadline has passed is never returned, whether or not its memory has been
//!   reclaimed yet. Memory is reclaimed by writes, a bounded amount each, and by [`Cache::run_due`]; there is no
//!   background thread.
//! - **One load per key.** [`Cache::load`] gives one caller a [`Ticket`]; the others wait for its outcome. A ticket whose
//!   key was removed, purged or overwritten since it was issued cannot commit.
//! - **Every operation on one key is linearizable.** Operations on many keys ([`Cache::iter`], [`Cache::retain`],
//!   [`Cache::clear`]) visit the shards one after another and see each entry that stays throughout.
//! - **Little user code runs under a lock.** Only these do: `Eq` and `Hash` of keys, `Clone` of values that are read and of
//!   keys that are loaded, the functions of [`Builder::partitions`], [`Builder::loss_listener`] and [`Clock::custom`], the
//!   closures of [`Cache::get_with`], [`Cache::get_many_with`], [`Cache::peek_with`], [`Cache::compute`],
//!   [`Cache::retain`], [`Cache::remove_if`], [`Cache::scan`], [`Cache::load_at`], [`Cache::reload_with`], and in [`raw`]
//!   the closures of `read`, `update` and [`raw::Locked`]. Calling the same cache from one of them is an error: it panics
//!   where it would have to wait for a lock, and always with debug assertions. Loaders, other listeners and `Drop` run
//!   unlocked; so do weighers, except in [`Cache::compute`], and in [`raw`] in `update` and in [`raw::Locked`].
//!
//! - **A fork inherits a copy.** In a process that `fork` made, a cache of the parent has the same entries and is
//!   independent from then on. Loads that were under way start again. A shard that another thread had locked at the fork
//!   cannot be used: a call that waits for it panics after a second.
//!
//! The engine uses no I/O, no async runtime (its futures are plain `std` futures) and no wall clock: time comes from
//! a [`Clock`], which tests advance by hand. The crate has no cargo features.

mod cache;
mod entry;
pub mod fork;
pub mod freshness;
mod layout;
mod load;
mod lock;
mod mutex;
mod policy;
pub mod raw;
mod shard;
pub mod stats;
mod sync;
#[cfg(test)]
mod tests;
mod time;

pub use cache::Cache;
pub use cache::builder::{BuildError, Builder};
pub use cache::iter::Iter;
pub use entry::{Cause, Computed, EntryRef, Inserted, Op, Refusal, Ttl};
pub use hashbrown::Equivalent;
pub use load::{CommitOutcome, Failure, FollowOutcome, Follower, Leader, Load, Ticket};
pub use policy::{Evictable, Policy};
pub use stats::Stats;
pub use time::clock::{Clock, ManualClock};

/// The longest time to live that an entry may be given: 2^48 − 2 milliseconds, some 8,900 years.
///
/// Longer ones are refused by [`Builder::build`] and treated as [`Ttl::Never`] on insertion.
pub const MAX_TTL: std::time::Duration = std::time::Duration::from_millis((1 << 48) - 2);
