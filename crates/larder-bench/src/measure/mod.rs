//! What every measurement has: the clock, counts of allocations, rounds that alternate, the machine, and an interrupt that
//! keeps what was measured.

pub(crate) mod alloc;
pub(crate) mod clock;
pub(crate) mod interrupt;
pub(crate) mod machine;
pub(crate) mod output_folder;
pub(crate) mod rounds;
