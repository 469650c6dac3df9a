//! The place of a connection among those who wait for members of keys: see [`super::waiting_table`].

use std::sync::Arc;

use super::all::Observers;
use super::waiting_table::{Outcome, Wait, Waiter};
use crate::client::Client;
use crate::spec::CommandSpec;

/// Bytes that a name needs in the table beside itself, about.
const NAME_OVERHEAD_BYTES: usize = 160;

/// The place of a connection among those who wait, or one that is about to. Dropping this gives it up.
#[derive(Debug)]
pub(crate) struct WaitingPlace {
    observers: Arc<Observers>,
    waiter: Option<Arc<Waiter>>,
}

impl WaitingPlace {
    /// Before the locks of the keys are acquired: writers look for observers from now on.
    pub(crate) fn new(observers: Arc<Observers>) -> WaitingPlace {
        observers.add(1);
        observers.waiting.begin();
        WaitingPlace { observers, waiter: None }
    }

    /// Waits for members of these keys, which are locked and have none.
    pub(crate) fn enqueue(
        &mut self,
        client: Arc<Client>,
        wait: Wait,
        command: Option<&'static CommandSpec>,
        space: u8,
        names: Vec<Box<[u8]>>,
    ) {
        client.set_waiting(true);
        self.waiter = Some(self.observers.waiting.add(client, wait, command, space, names));
    }

    /// How the wait has ended, if it has; `is_over` says that its time is.
    pub(crate) fn outcome(&self, is_over: bool) -> Option<Outcome> {
        let waiter = self.waiter.as_ref()?;
        if is_over {
            waiter.end(Outcome::TimedOut);
        }
        waiter.take_outcome()
    }

    /// The memory that it needs, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.waiter.iter().flat_map(|waiter| &waiter.names);
        names.map(|name| 2 * name.len() + NAME_OVERHEAD_BYTES).sum()
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        if let Some(waiter) = &self.waiter {
            // What it was given by now is lost, as a reply that a client does not read.
            waiter.end(Outcome::TimedOut);
            waiter.client.set_waiting(false);
            self.observers.waiting.leave(waiter);
        }
        self.observers.waiting.end();
        self.observers.remove(1);
    }
}
