//! The commands, but for those that start one part alone.

mod ask_redis;
pub(crate) mod check;
pub(crate) mod copy;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod remote;
pub(crate) mod token;
pub(crate) mod up;
pub(crate) mod warm;
