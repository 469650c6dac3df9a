//! The connections as others see them: their list, the mailbox of each, the inboxes of the threads that serve them, and
//! the pause that makes them wait.

mod clients;
mod inbox;
mod invalidations;
mod mailbox;
mod pause;

pub(crate) use clients::{Client, Clients, Message, Names};
pub(crate) use inbox::Inbox;
pub(crate) use invalidations::{FRAME_BYTES, Invalidations, write_all, write_keys};
pub(crate) use pause::{Pause, Paused};
