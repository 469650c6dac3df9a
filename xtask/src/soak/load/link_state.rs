//! What the thread that changes a link knows of it, also after a request without a response: which change can be next.

use crate::soak::wire::Response;
use std::io;

/// What a writer knows of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// That of the last confirmed update.
    pub(super) version: u64,
    /// That of the next update: no version is used twice.
    pub(super) next: u64,
    is_live: bool,
    /// Whether the outcome of the last change is known. Only updates follow until it is: they succeed if the link is there.
    is_known: bool,
}

/// A change of a link that exists, or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Update,
    Delete,
    Restore,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Nothing has changed: the link was deleted, or was not.
    Refused,
    /// It may have taken effect.
    Unknown,
}

impl Outcome {
    pub(super) fn of(response: &io::Result<Response>) -> Self {
        match response {
            Ok(response) if response.is_success() => Outcome::Done,
            Ok(response) if [404, 409, 410].contains(&response.status) => Outcome::Refused,
            _ => Outcome::Unknown,
        }
    }
}

impl State {
    /// Of a link that was just created.
    pub(super) fn new() -> Self {
        State { version: 1, next: 2, is_live: true, is_known: true }
    }

    /// The next change: only what the link can have.
    pub(super) fn choose(&self, is_deletion: bool) -> Change {
        match (self.is_known, self.is_live) {
            (true, true) if is_deletion => Change::Delete,
            (true, false) => Change::Restore,
            _ => Change::Update,
        }
    }

    /// Notes the outcome of a change.
    pub(super) fn learn(&mut self, change: Change, outcome: Outcome) {
        self.is_known = outcome != Outcome::Unknown;
        match (change, outcome) {
            (Change::Update, Outcome::Done) => (self.version, self.is_live) = (self.next, true),
            (Change::Restore, Outcome::Done) | (Change::Delete, Outcome::Refused) => self.is_live = true,
            (Change::Update, Outcome::Refused) | (Change::Delete, Outcome::Done) => self.is_live = false,
            // It is live, with a version that an update will tell.
            (Change::Restore, Outcome::Refused) => self.is_known = false,
            (_, Outcome::Unknown) => {}
        }
        self.next += u64::from(change == Change::Update);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_outcome_is_followed_by_updates_until_one_tells() {
        let mut state = State::new();
        assert_eq!(state.choose(true), Change::Delete);
        state.learn(Change::Delete, Outcome::Unknown);
        assert_eq!(state.choose(true), Change::Update);
        state.learn(Change::Update, Outcome::Refused);
        assert_eq!((state.choose(true), state.version, state.next), (Change::Restore, 1, 3));
        state.learn(Change::Restore, Outcome::Done);
        state.learn(Change::Update, Outcome::Unknown);
        assert_eq!(state.choose(true), Change::Update);
        state.learn(Change::Update, Outcome::Done);
        assert_eq!((state.version, state.next, state.choose(true)), (4, 5, Change::Delete));
    }
}
