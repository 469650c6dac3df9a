//! What the cache promises, one file each. A new test goes into the file of the promise that it would break;
//! services are called directly, and time is moved by hand.

mod bounds;
mod coalescing;
mod keys;
mod observe;
mod opt_in;
mod private;
mod purge;
mod replay;
mod stale;
mod support;
mod vary;
mod whole;
