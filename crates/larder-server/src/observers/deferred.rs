//! What observers are told later: a script tells nobody anything before its end, because its writes may be undone.

use std::cell::RefCell;

use super::channels::Kind;
use super::notify::{Event, Origin};

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

    /// Takes the notices out.
    pub(super) fn take(&self) -> Vec<Notice> {
        self.content.take().notices
    }
}
