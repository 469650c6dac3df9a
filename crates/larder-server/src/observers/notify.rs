//! Keyspace notifications: messages about what happens to keys, in channels with names that Redis has defined.
//!
//! `__keyspace@<database>__:<key>` gets the name of the event, `__keyevent@<database>__:<event>` the name of the key.

use std::sync::atomic::{AtomicU32, Ordering};

use larder_engine::raw::Key;

use super::channels::{Channels, Kind};
use crate::spec::{CommandSpec, Flags};

/// The letters of `notify-keyspace-events`, in the order in which they are shown. Letters of types that this server does
/// not have are accepted.
const LETTERS: [u8; 13] = *b"g$lshzxetdnKE";
/// What the letter `A` stands for: the first ten letters.
const ALL: u32 = (1 << 10) - 1;

/// Which events are published.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    classes: AtomicU32,
}

/// What happens to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It gets a value: `is_new` if it had none, `is_timed` with a deadline.
    Stored {
        is_new: bool,
        is_timed: bool,
    },
    /// Its value changes in place.
    Edited,
    /// It gets a deadline.
    Timed,
    /// It loses its deadline.
    Persisted,
    Removed,
    /// Fields of its hash change: `is_new` if it had none before, `is_removed` if it has none afterwards.
    Fields {
        events: FieldEvents,
        is_new: bool,
        is_removed: bool,
    },
    Expired,
    Evicted,
}

/// What happens to fields of a hash: any of these, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FieldEvents(u8);

impl FieldEvents {
    /// Nothing.
    pub(crate) const NONE: FieldEvents = FieldEvents(0);
    /// Fields that have expired are removed first.
    pub(crate) const CLEARED: FieldEvents = FieldEvents(1);
    /// What the command is named for.
    pub(crate) const OWN: FieldEvents = FieldEvents(1 << 1);
    /// Fields get deadlines.
    pub(crate) const TIMED: FieldEvents = FieldEvents(1 << 2);
    /// Fields lose their deadlines.
    pub(crate) const PERSISTED: FieldEvents = FieldEvents(1 << 3);
    /// Fields are removed, because their new deadlines are past.
    pub(crate) const EXPIRED: FieldEvents = FieldEvents(1 << 4);

    /// These, if the condition holds.
    pub(crate) fn when(self, condition: bool) -> FieldEvents {
        if condition { self } else { FieldEvents::NONE }
    }

    /// Both.
    pub(crate) const fn and(self, other: FieldEvents) -> FieldEvents {
        FieldEvents(self.0 | other.0)
    }

    fn names(self, own: &str) -> impl Iterator<Item = &str> {
        let all = [
            (FieldEvents::CLEARED, "hexpired"),
            (FieldEvents::OWN, own),
            (FieldEvents::TIMED, "hexpire"),
            (FieldEvents::PERSISTED, "hpersist"),
            (FieldEvents::EXPIRED, "hexpired"),
        ];
        all.into_iter().filter(move |(event, _)| self.0 & event.0 != 0).map(|(_, name)| name)
    }
}

/// Who changes a key, and by which command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    /// The address of the state of the connection; 0 for the server itself.
    pub(crate) client: usize,
    pub(crate) command: Option<&'static CommandSpec>,
}

/// Parses the letters of `notify-keyspace-events`. `None` if one is unknown.
pub(crate) fn parse_classes(letters: &[u8]) -> Option<u32> {
    letters.iter().try_fold(0, |classes, letter| match letter {
        b'A' => Some(classes | ALL),
        letter => LETTERS.iter().position(|known| known == letter).map(|index| classes | 1 << index),
    })
}

fn class(letter: u8) -> u32 {
    LETTERS.iter().position(|known| *known == letter).map_or(0, |index| 1 << index)
}

impl Notifications {
    pub(super) fn classes(&self) -> u32 {
        self.classes.load(Ordering::Relaxed)
    }

    /// Sets which events are published; returns what was set before.
    pub(super) fn set_classes(&self, classes: u32) -> u32 {
        self.classes.swap(classes, Ordering::Relaxed)
    }

    /// The letters, as Redis shows them.
    pub(super) fn letters(&self) -> String {
        let classes = self.classes();
        let (mut text, mut shown) = (String::new(), classes);
        if classes & ALL == ALL {
            text.push('A');
            // Redis does not show `n` beside `A`.
            shown &= !ALL & !class(b'n');
        }
        let letters = LETTERS.iter().enumerate().filter(|(index, _)| shown & 1 << index != 0);
        text.extend(letters.map(|(_, letter)| char::from(*letter)));
        text
    }

    /// Publishes an event of a key. `command` causes it, if one does.
    pub(super) fn publish(
        &self,
        channels: &Channels,
        key: Key<'_>,
        event: Event,
        command: Option<&CommandSpec>,
    ) {
        if self.classes() == 0 {
            return;
        }
        let is = |flag| command.is_some_and(|spec| spec.is(flag));
        let (own_event, removal) = command.map_or(("", "del"), |spec| (spec.event, spec.removal_event));
        let own_class = class_of(command.map_or("", |spec| spec.group));
        let send = |letter, event| self.send(channels, key, letter, event);
        match event {
            Event::Stored { is_new, is_timed } => {
                if is_new || is(Flags::REMOVES_FORMER) {
                    send(b'n', "new");
                }
                send(own_class, own_event);
                if own_event == "set" && is_timed {
                    send(b'g', "expire");
                }
            }
            Event::Edited if is(Flags::EDITS_SILENTLY) => {}
            Event::Edited => send(own_class, own_event),
            Event::Timed => send(b'g', "expire"),
            Event::Persisted => send(b'g', "persist"),
            Event::Removed => {
                if is(Flags::REMOVES_MEMBERS) {
                    send(own_class, own_event);
                }
                send(b'g', removal);
            }
            Event::Fields { events, is_new, is_removed } => {
                if is_new {
                    send(b'n', "new");
                }
                events.names(own_event).for_each(|name| send(b'h', name));
                if is_removed {
                    send(b'g', "del");
                }
            }
            Event::Expired => send(b'x', "expired"),
            Event::Evicted => send(b'e', "evicted"),
        }
    }

    fn send(&self, channels: &Channels, key: Key<'_>, letter: u8, event: &str) {
        let classes = self.classes();
        if classes & class(letter) == 0 {
            return;
        }
        for (letter, label, subject, message) in
            [(b'K', "keyspace", key.name, event.as_bytes()), (b'E', "keyevent", event.as_bytes(), key.name)]
        {
            if classes & class(letter) != 0 {
                let channel = [format!("__{label}@{}__:", key.space).as_bytes(), subject].concat();
                channels.publish(Kind::Channel, &channel, message);
            }
        }
    }
}

/// The letter of the events of a group of commands.
fn class_of(group: &str) -> u8 {
    match group {
        "generic" => b'g',
        "sorted-set" => b'z',
        "hash" => b'h',
        "list" => b'l',
        "set" => b's',
        "stream" => b't',
        _ => b'$',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_shown_as_by_redis() {
        for (given, shown) in
            [("", ""), ("KEA", "AKE"), ("Eg", "gE"), ("g$lshzxetd", "A"), ("xE$K", "$xKE"), ("nK", "nK")]
        {
            let notifications = Notifications::default();
            notifications.set_classes(parse_classes(given.as_bytes()).unwrap());
            assert_eq!(notifications.letters(), shown, "{given}");
        }
        assert_eq!(parse_classes(b"Kq"), None);
    }
}
