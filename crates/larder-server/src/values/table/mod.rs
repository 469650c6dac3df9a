//! The parts that sorted sets and hashes are made of: one buffer for small ones; for large ones slots, an index of names
//! and an order.

mod buffer;
mod index;
mod order;
mod slots;

pub(super) use buffer::{Buffer, HEADER_BYTES, block_bytes};
pub(super) use index::{Index, hash_of};
pub(super) use order::Order;
pub(super) use slots::{Content, Handle, LENGTH_TAG, Slots, length_bytes, read_length, write_length};
