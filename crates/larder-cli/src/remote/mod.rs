//! Commands that talk to the admin port of a running Larder: `larder stats`, `larder explain` and `larder purge`.

mod client;
mod explain;
mod purge;
mod stats;

pub(crate) use explain::run as explain;
pub(crate) use purge::run as purge;
pub(crate) use stats::run as stats;
