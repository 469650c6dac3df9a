//! What observers are told later: a script tells nobody anything before its end, because its writes may be undone.

use std::cell::RefCell;

use larder_engine::raw::Key;

use super::{Event, Kind, Observers, Origin};

/// A change, or a message, of which observers are told.
#[derive(Debug)]
pub(crate) enum Notice {
    Changed { space: u8, name: Box<[u8]>, event: Event, origin: Origin },
    Purged { space: u8, name: Box<[u8]>, origin: Origin },
    FlushBegins(Origin),
    FlushEnds(Origin),
    Published { kind: Kind, channel: Box<[u8]>, message: Box<[u8]> },
}

impl Notice {
    /// The memory that it needs.
    fn bytes(&self) -> usize {
        let text = match self {
            Notice::Changed { name, .. } | Notice::Purged { name, .. } => name.len(),
            Notice::Published { channel, message, .. } => channel.len() + message.len(),
            Notice::FlushBegins(_) | Notice::FlushEnds(_) => 0,
        };
        size_of::<Notice>() + text
    }
}

/// Notices in their order.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    content: RefCell<Content>,
}

#[derive(Debug, Default)]
struct Content {
    notices: Vec<Notice>,
    bytes: usize,
}

impl Deferred {
    pub(crate) fn push(&self, notice: Notice) {
        let mut content = self.content.borrow_mut();
        content.bytes += notice.bytes();
        content.notices.push(notice);
    }

    /// The memory that they need.
    pub(crate) fn bytes(&self) -> usize {
        self.content.borrow().bytes
    }

    /// Drops the notices.
    pub(crate) fn clear(&self) {
        self.content.take();
    }

    /// Tells the observers. The keys are locked.
    pub(crate) fn send(&self, observers: &Observers) {
        self.content.take().notices.into_iter().for_each(|notice| observers.tell(notice));
    }
}

impl Observers {
    pub(crate) fn tell(&self, notice: Notice) {
        match notice {
            Notice::Changed { space, name, event, origin } => {
                self.changed(Key { space, name: &name }, event, origin);
            }
            Notice::Purged { space, name, origin } => self.purged(Key { space, name: &name }, origin),
            Notice::FlushBegins(origin) => self.flush_begins(origin),
            Notice::FlushEnds(origin) => self.flush_ends(origin),
            Notice::Published { kind, channel, message } => {
                self.channels.publish(kind, &channel, &message);
            }
        }
    }
}
