//! The synchronization primitives of the engine, named in one file so that the schedule explorer (`src/schedules.rs`)
//! can compile the same code with primitives of its own.

pub(crate) use parking_lot::Mutex;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::thread::park_timeout;
pub(crate) use std::{thread, thread_local};

/// How often a write looks for room in the other shards before it yields or gives up.
pub(crate) const STEAL_ROUNDS: usize = 64;
