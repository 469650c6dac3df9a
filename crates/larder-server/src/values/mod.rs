//! The values of keys, without the keyspace: hashes, lists, sets, sorted sets, streams, HyperLogLogs, numbers, large strings, and the
//! format in which Redis serializes values.

#[cfg(test)]
mod allocated;
pub(crate) mod decimal;
mod element;
pub(crate) mod hash;
pub(crate) mod hyperloglog;
pub(crate) mod large;
pub(crate) mod list;
pub(crate) mod rdb;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub(crate) mod stream;
mod table;
