//! What a cache promises, tested from outside; one file per promise.
//!
//! | file | promise |
//! |---|---|
//! | `linearizable` | operations on one key happen one after another; the judge of that is in `history` |

mod history;
mod linearizable;
