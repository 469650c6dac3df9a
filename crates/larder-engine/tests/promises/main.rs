//! Tests of the public API, one file per promise.
//!
//! | file | promise |
//! |---|---|
//! | `bounds` | `Send` and `Sync` of the public types |
//! | `removals` | every key and value is dropped exactly once, outside of locks |
//! | `incidents` | bugs that other caches had do not occur here |
//! | `linearizable` | operations on one key are linearizable; the checker is in `history` |

mod bounds;
mod history;
mod incidents;
mod linearizable;
mod removals;
