//! What other threads send to a thread that serves connections: a queue, and a waker for a thread that sleeps. It knows
//! nothing of what is sent.

use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use mio::Waker;
use parking_lot::Mutex;

/// The inbox of one thread for one type of messages, in cache lines of its own.
#[repr(align(128))]
pub(crate) struct Inbox<M> {
    messages: Mutex<Messages<M>>,
    /// Set when the thread starts. It reads its messages then, so those that were sent before are not lost.
    waker: OnceLock<Arc<Waker>>,
}

struct Messages<M> {
    unread: Vec<M>,
    is_closed: bool,
}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        let messages = Messages { unread: Vec::new(), is_closed: false };
        Inbox { messages: Mutex::new(messages), waker: OnceLock::new() }
    }
}

impl<M> Inbox<M> {
    /// Sets what wakes the thread, which may have several inboxes; called by the thread.
    pub(crate) fn attach(&self, waker: Arc<Waker>) {
        let _ = self.waker.set(waker);
    }

    /// Sends a message and wakes the thread. One to a thread that has ended is dropped.
    pub(crate) fn send(&self, message: M) {
        let is_first = {
            let mut messages = self.messages.lock();
            if messages.is_closed {
                // Dropped after the unlock, because a connection among the messages tells others of its end.
                drop(messages);
                return drop(message);
            }
            messages.unread.push(message);
            messages.unread.len() == 1
        };
        // The sender of the first message has woken the thread, which takes all of them.
        if is_first && let Some(Err(error)) = self.waker.get().map(|waker| waker.wake()) {
            log_failure(&error);
        }
    }

    /// Takes all messages.
    pub(crate) fn take(&self) -> Vec<M> {
        std::mem::take(&mut self.messages.lock().unread)
    }

    /// Drops the messages, and those that are sent from now on: the thread ends.
    pub(crate) fn close(&self) {
        self.messages.lock().is_closed = true;
        drop(self.take());
    }
}

fn log_failure(error: &io::Error) {
    tracing::error!(%error, "cannot wake a server thread");
}

impl<M> fmt::Debug for Inbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}
