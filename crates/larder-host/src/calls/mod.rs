//! Calls that every binding makes in the same way, and those that code of the host takes part in.
//!
//! - [`common`]: leases, writes of several keys, counters.
//! - [`load`]: the right to load a key; [`ahead`]: of a value that is still fresh; [`circles`]: loaders that wait for each other.
//! - [`update`]: a function of the host decides what becomes of a value; [`turns`]: the order of those who do that.

mod ahead;
mod circles;
mod common;
mod load;
mod turns;
mod update;

pub use ahead::{AheadHit, DueLoad, hit_ahead, lease_ahead};
pub use circles::{LoadId, Waiting};
pub use common::{Sum, increment, lease, lease_many, write_many};
pub use load::{AheadLoad, HostLeased, HostLoad, LoadError};
pub use update::{Change, UpdateStep, UpdateTry};
