//! Strings: whole values, numbers, parts, bits, and HyperLogLogs, which are strings.

mod bit_range;
pub(crate) mod bitfield;
pub(crate) mod bitop;
pub(crate) mod bits;
pub(crate) mod counter;
pub(crate) mod edit;
pub(crate) mod get;
pub(crate) mod hyperloglog;
pub(crate) mod large_edit;
pub(crate) mod large_read;
pub(crate) mod multi_key;
pub(crate) mod set;
pub(crate) mod words;
