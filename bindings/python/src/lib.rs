//! The native part of the Python package `larder_cache`: it translates calls and objects, and leaves the rest to `larder-host`.
//!
//! ```text
//!  View.hit ─────────► memory: an object, or bytes that become one
//!     │ missed
//!  View._lease ──► Call ──┬─ wait: blocks without the interpreter's lock
//!                         └─ Queue.start: an event loop is told, and takes the result
//!                    │
//!                    └─ result: an object, or a Lease, which the caller ends with what it has loaded
//! ```
//!
//! The modules in Python make of each call one that blocks and one that is awaited. No code of Python runs on a thread of larder.
//! No loader is called from here either: CPython up to 3.13 ends a daemon thread at the exit by unwinding its stack, which must
//! have no frames of Rust then.

mod cache;
mod call;
mod exit;
mod key;
mod lease;
mod log;
mod object;
mod options;
mod queue;
mod raised;
mod update;
mod view;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::cache::Cache;
    #[pymodule_export]
    use crate::call::{Call, Waiting};
    #[pymodule_export]
    use crate::exit::exiting;
    #[pymodule_export]
    use crate::key::key_bytes;
    #[pymodule_export]
    use crate::lease::{BulkLease, Lease};
    #[pymodule_export]
    use crate::options::time_options;
    #[pymodule_export]
    use crate::queue::Queue;
    #[pymodule_export]
    use crate::update::Update;
    #[pymodule_export]
    use crate::view::View;
}
