//! The connections as others see them: their list, the mailbox of each, and the pause that makes them wait.

mod clients;
mod invalidations;
mod mailbox;
mod pause;

pub(crate) use clients::{Client, Clients, Names};
pub(crate) use invalidations::{FRAME_BYTES, Invalidations, write_all, write_keys};
pub(crate) use pause::{Pause, Paused};
