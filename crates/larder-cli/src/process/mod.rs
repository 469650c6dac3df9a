//! What the process has: its allocator, listeners, file descriptors, signals, service manager and telemetry, and the tasks that it
//! starts again.

pub(crate) mod admin_port;
pub(crate) mod allocator;
pub(crate) mod files;
pub(crate) mod listen;
pub(crate) mod service_manager;
pub(crate) mod signals;
pub(crate) mod supervisor;
pub(crate) mod telemetry;
