//! What the promise of coherence is, and clients that try to see it broken. Mounted by each target that plays the faults:
//! the `checker` in virtual time over a simulated server, the `chaos` in real time over a real one.

pub(crate) mod book;
pub(crate) mod calls;
pub(crate) mod clients;
#[allow(dead_code, reason = "the chaos test notes effects, and the checker alone counts their pairs")]
pub(crate) mod effects;
pub(crate) mod keeper;
pub(crate) mod node;
pub(crate) mod rng;
pub(crate) mod trace;
