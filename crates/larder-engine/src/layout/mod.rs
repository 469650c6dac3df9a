//! Where entries and what policies know of them are in memory: arrays that grow by pages, slots and their queues, the table of
//! hashes, and the records of entries.

pub(crate) mod array;
pub(crate) mod packed;
pub(crate) mod prefetch;
pub(crate) mod queue;
pub(crate) mod records;
pub(crate) mod sizes;
pub(crate) mod slots;
pub(crate) mod table;
