//! The values of keys, without the keyspace: sorted sets, HyperLogLogs, numbers, large strings, and the format in which
//! Redis serializes values.

pub(crate) mod decimal;
pub(crate) mod hyperloglog;
pub(crate) mod large;
pub(crate) mod rdb;
pub(crate) mod sorted_set;
