//! Tests of the whole cache: against a model with random operations, and one file per promise.

mod balance;
mod bounds;
mod evictable;
mod expiry;
mod loads;
mod locks;
mod memory;
mod model;
mod operations;
mod panics;
mod raw;
mod stress;
