//! What the tests of every crate share: real servers that a test starts, harms and ends, lines to them that break or
//! are directed, loaders that count, and what every cache has to do.
//!
//! A test that needs a program asks [`program`] for it, and [`needs`] for anything else. Where it is missing the test
//! says so and passes, except on a machine that sets `CI=true`: there it is a failure.

pub mod conformance;
mod cutter;
mod director;
mod frames;
mod loader;
mod program;
mod redis;
mod relay;
mod wait;

pub use cutter::Cutter;
pub use director::{Director, Frame, Hold};
pub use loader::Gate;
pub use program::{Running, may_open, needs, program};
pub use redis::RedisServer;
pub use relay::Way;
pub use wait::{PATIENCE, until};
