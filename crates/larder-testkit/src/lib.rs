//! What the tests of every crate share: real servers that a test starts, harms and ends, and loaders that count.
//!
//! A test that needs a program asks [`program`] for it. Where the program is missing the test says so and passes, except
//! on a machine that sets `CI=true`: there a missing program is a failure.

mod loader;
mod program;
mod redis;

pub use loader::Gate;
pub use program::{Running, program};
pub use redis::RedisServer;
