//! Commands that talk to the admin port of a running Larder: `larder stats`, `larder top`, `larder doctor`, `larder explain` and
//! `larder purge`.

mod client;
mod doctor;
mod explain;
mod figures;
mod purge;
mod shown;
mod stats;
mod top;

pub(crate) use doctor::run as doctor;
pub(crate) use explain::run as explain;
pub(crate) use purge::run as purge;
pub(crate) use stats::run as stats;
pub(crate) use top::run as top;
