//! What a cache promises, tested from outside; one file per promise.
//!
//! | file | promise |
//! |---|---|
//! | `bounds` | what may cross threads |
//! | `departures` | all that goes in is dropped once, outside of locks |
//! | `incidents` | what went wrong in other caches does not here |
//! | `linearizable` | operations on one key happen one after another; the judge of that is in `history` |

mod bounds;
mod departures;
mod history;
mod incidents;
mod linearizable;
