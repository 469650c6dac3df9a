//! What is sent to a thread that serves connections, by others and by itself: a queue, and a waker for a thread that sleeps.
//! It knows nothing of what is sent.
//!
//! ```text
//! the thread: sleeps = true ─► has messages? ─► waits, or does not     sender: adds a message ─► did it sleep? ─► wakes it
//! ```
//!
//! Both write before they read, in one order that all threads see: either the thread finds the message, or the sender finds
//! that it sleeps. A thread that is awake costs its senders no system call, and itself no wait that ends at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use mio::Waker;
use parking_lot::Mutex;

/// The inbox of one thread for one type of messages, in cache lines of its own.
#[repr(align(128))]
pub(crate) struct Inbox<M> {
    messages: Mutex<Messages<M>>,
    has_unread: AtomicBool,
    /// Whether the thread waits for its waker, or is about to.
    sleeps: AtomicBool,
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
        Inbox {
            messages: Mutex::new(messages),
            has_unread: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            waker: OnceLock::new(),
        }
    }
}

impl<M> Inbox<M> {
    /// Sets what wakes the thread, which may have several inboxes; called by the thread.
    pub(crate) fn attach(&self, waker: Arc<Waker>) {
        let _ = self.waker.set(waker);
    }

    /// Sends a message, and wakes the thread if it sleeps. One to a thread that has ended is dropped.
    pub(crate) fn send(&self, message: M) {
        {
            let mut messages = self.messages.lock();
            if messages.is_closed {
                // Dropped after the unlock, because a connection among the messages tells others of its end.
                drop(messages);
                return drop(message);
            }
            messages.unread.push(message);
            self.has_unread.store(true, Ordering::SeqCst);
        }
        // The first sender wakes the thread, which takes all messages.
        if self.sleeps.swap(false, Ordering::SeqCst)
            && let Some(Err(error)) = self.waker.get().map(|waker| waker.wake())
        {
            log_failure(&error);
        }
    }

    /// Whether there are messages; called by the thread.
    #[inline]
    pub(crate) fn has_unread(&self) -> bool {
        self.has_unread.load(Ordering::Relaxed)
    }

    /// The thread is about to sleep: from now on senders wake it. Returns whether it may, because there is no message.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.sleeps.store(true, Ordering::SeqCst);
        !self.has_unread.load(Ordering::SeqCst)
    }

    /// The thread is awake.
    pub(crate) fn wake_up(&self) {
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// Takes all messages.
    pub(crate) fn take(&self) -> Vec<M> {
        let mut messages = self.messages.lock();
        self.has_unread.store(false, Ordering::Relaxed);
        std::mem::take(&mut messages.unread)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll, Token};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn inbox() -> (Inbox<u32>, Poll) {
        let poll = Poll::new().unwrap();
        let inbox = Inbox::default();
        inbox.attach(Arc::new(Waker::new(poll.registry(), Token(0)).unwrap()));
        (inbox, poll)
    }

    /// Whether it was woken within this time.
    fn is_woken(poll: &mut Poll, timeout: Duration) -> bool {
        let mut events = Events::with_capacity(1);
        poll.poll(&mut events, Some(timeout)).unwrap();
        !events.is_empty()
    }

    #[test]
    fn only_a_thread_that_sleeps_is_woken_and_once() {
        let (inbox, mut poll) = inbox();
        inbox.send(1);
        assert!(inbox.has_unread() && !is_woken(&mut poll, Duration::ZERO), "it is awake");
        assert!(!inbox.fall_asleep(), "there is a message");
        inbox.wake_up();
        assert_eq!(inbox.take(), [1]);
        assert!(!inbox.has_unread() && inbox.fall_asleep());
        inbox.send(2);
        assert!(is_woken(&mut poll, Duration::ZERO));
        inbox.send(3);
        assert!(!is_woken(&mut poll, Duration::ZERO), "it was woken");
        assert_eq!(inbox.take(), [2, 3]);
    }

    /// The next message is sent once the former one was read, so each may meet the thread as it falls asleep.
    #[test]
    fn message_is_not_missed_by_a_thread_that_falls_asleep() {
        let (inbox, mut poll) = inbox();
        let (read, next) = std::sync::mpsc::channel();
        std::thread::scope(|threads| {
            let inbox = &inbox;
            threads.spawn(move || {
                for number in 0..20_000 {
                    inbox.send(number);
                    (0..number % 64).for_each(|_| std::hint::spin_loop());
                    next.recv().unwrap();
                }
            });
            for number in 0..20_000 {
                while !inbox.has_unread() {
                    if inbox.fall_asleep() {
                        assert!(is_woken(&mut poll, PATIENCE), "message {number} was missed");
                    }
                    inbox.wake_up();
                }
                assert_eq!(inbox.take(), [number]);
                read.send(()).unwrap();
            }
        });
    }
}
