//! Whether the gate was asked about a request, and had an answer.

use parking_lot::Mutex;
use std::sync::Arc;

/// An extension of a request that has credentials for the gate. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct GateProgress(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    NotAsked,
    /// Whoever asked has not waited for the answer, if it stays so.
    Asked,
    Answered,
    Failed(String),
}

impl GateProgress {
    /// Notes that the gate is asked, once more or for the first time.
    pub(super) fn begin(&self) {
        *self.0.lock() = State::Asked;
    }

    /// Notes that it has answered, or why it has not.
    pub(super) fn end(&self, failure: Option<&String>) {
        *self.0.lock() = failure.map_or(State::Answered, |reason| State::Failed(reason.clone()));
    }

    /// Why the gate has no answer, if it was asked.
    pub(crate) fn failure(&self) -> Option<String> {
        match &*self.0.lock() {
            State::NotAsked | State::Answered => None,
            State::Asked => Some("nobody waited for it".to_owned()),
            State::Failed(reason) => Some(reason.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_without_an_answer_is_a_failure() {
        let progress = GateProgress::default();
        assert_eq!(progress.failure(), None);
        let seen = progress.clone();
        progress.begin();
        assert!(seen.failure().is_some());
        progress.end(Some(&"it is down".to_owned()));
        assert_eq!(seen.failure().as_deref(), Some("it is down"));
        progress.begin();
        progress.end(None);
        assert_eq!(seen.failure(), None);
    }
}
