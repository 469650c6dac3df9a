//! The connections as others see them: their list, the mailbox of each, the inboxes of the threads that serve them, the
//! pause that makes them wait, and those that monitor all others.

mod clients;
mod inbox;
mod invalidations;
mod mailbox;
mod monitors;
mod pause;

pub(crate) use clients::{Client, Clients, Message, Names};
pub(crate) use inbox::Inbox;
pub(crate) use invalidations::{FRAME_BYTES, Invalidations, write_all, write_keys};
pub(crate) use monitors::{Executor, Monitoring, Monitors, line as monitor_line};
pub(crate) use pause::{Pause, Paused};
