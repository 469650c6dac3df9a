//! What other threads ask of a thread that serves connections: a queue, and a waker for a thread that sleeps.

use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use mio::Waker;
use parking_lot::Mutex;

use super::connection::Connection;
use super::load::PublishedLoad;
use crate::client::Client;

/// A request to a thread.
pub(crate) enum Message {
    /// Serve this connection from now on.
    Adopt(Box<Connection>),
    /// One of its clients has something to do besides its socket: see [`crate::client::Client::close`].
    Wake,
    /// The mailbox of this connection is not empty any more.
    Mail(Arc<Client>),
    /// The pause of commands has ended, or a timer has to be set.
    Resume,
    /// Drain and end.
    Stop,
    /// Fail as by a bug outside of all turns.
    #[cfg(test)]
    Panic,
}

/// The inbox of one thread, in cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Inbox {
    messages: Mutex<Messages>,
    /// Set when the thread starts. It reads its messages then, so those that were sent before are not lost.
    waker: OnceLock<Waker>,
    pub(crate) load: PublishedLoad,
}

#[derive(Default)]
struct Messages {
    unread: Vec<Message>,
    is_closed: bool,
}

impl Inbox {
    /// Sets what wakes the thread; called by the thread.
    pub(crate) fn attach(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Sends a message and wakes the thread. One to a thread that has ended is dropped, and a connection in it closed.
    pub(crate) fn send(&self, message: Message) {
        let is_first = {
            let mut messages = self.messages.lock();
            if messages.is_closed {
                // Dropped after the unlock, because a connection tells others of its end.
                drop(messages);
                return drop(message);
            }
            messages.unread.push(message);
            messages.unread.len() == 1
        };
        // The sender of the first message has woken the thread, which takes all of them.
        if is_first && let Some(Err(error)) = self.waker.get().map(Waker::wake) {
            log_failure(&error);
        }
    }

    /// Takes all messages.
    pub(crate) fn take(&self) -> Vec<Message> {
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

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("load", &self.load).finish_non_exhaustive()
    }
}
