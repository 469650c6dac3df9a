//! What a cache promises, tested from outside; one file per promise.
//!
//! | file | promise |
//! |---|---|
//! | `departures` | all that goes in is dropped once |
//! | `linearizable` | operations on one key happen one after another; the judge of that is in `history` |

mod departures;
mod history;
mod linearizable;
