//! What is stored, and how it is sent: responses and the records of their variants, bodies in memory and in fills, and the
//! purges that they are checked against.

pub(crate) mod body;
pub(crate) mod buffer;
pub(crate) mod chunks;
pub(crate) mod copy;
#[cfg(feature = "compression")]
pub(crate) mod encoding;
pub(crate) mod entry;
pub(crate) mod memory;
pub(crate) mod private;
pub(crate) mod purge;
pub(crate) mod record;
