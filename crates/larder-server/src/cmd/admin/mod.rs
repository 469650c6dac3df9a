//! The server as a whole: statistics, settings, and what it tells about its commands.

pub(crate) mod acl;
pub(crate) mod command;
pub(crate) mod config;
pub(crate) mod function;
pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod monitor;
pub(crate) mod server;
pub(crate) mod slowlog;
