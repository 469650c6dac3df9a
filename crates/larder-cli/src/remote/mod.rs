//! Commands that talk to the admin port of a running Larder: `larder stats` and `larder purge`.

mod client;
mod purge;
mod stats;

pub(crate) use purge::run as purge;
pub(crate) use stats::run as stats;
