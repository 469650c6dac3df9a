//! Why a node has no proof: what the last attempt to get one has met.

use crate::tier::TierError;
use parking_lot::Mutex;
use std::fmt;

/// Why the last attempt to prove that no invalidation was missed has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoherenceProblem {
    /// There was no reply, or one that proves nothing: the server cannot be reached, is no primary, is not confirmed as one,
    /// or is cut off from the others.
    NoReply(String),
    /// The server or a sentinel has refused this program: mend the password, the user, the certificates or the address.
    Refused(String),
}

impl fmt::Display for CoherenceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoherenceProblem::NoReply(reason) => f.write_str(reason),
            CoherenceProblem::Refused(reason) => write!(f, "refused: {reason}"),
        }
    }
}

impl From<TierError> for CoherenceProblem {
    fn from(error: TierError) -> Self {
        match error {
            TierError::Refused(reason) | TierError::Unusable(reason) => CoherenceProblem::Refused(reason),
            other => CoherenceProblem::NoReply(other.to_string()),
        }
    }
}

/// The problem of the last attempt, if it has failed.
#[derive(Default)]
pub(super) struct LastProblem(Mutex<Option<Last>>);

struct Last {
    problem: CoherenceProblem,
    /// The attempts to connect since the last proof.
    attempts: u32,
    logged: Option<CoherenceProblem>,
}

impl LastProblem {
    pub(super) fn get(&self) -> Option<CoherenceProblem> {
        self.0.lock().as_ref().map(|last| last.problem.clone())
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = None;
    }

    /// A heartbeat proves nothing.
    pub(super) fn set(&self, problem: CoherenceProblem) {
        let mut last = self.0.lock();
        match &mut *last {
            Some(last) => last.problem = problem,
            None => *last = Some(Last { problem, attempts: 0, logged: None }),
        }
    }

    /// No connection was opened. The log is told from the second attempt on, once for each reason: after a restart of the
    /// server the first one may be too early.
    pub(super) fn set_unreached(&self, problem: CoherenceProblem) {
        if self.count_attempt(&problem) {
            tracing::warn!(reason = %problem, "no connection to redis; it is tried again");
        }
    }

    /// Returns whether it is to be logged.
    fn count_attempt(&self, problem: &CoherenceProblem) -> bool {
        self.set(problem.clone());
        let mut last = self.0.lock();
        let Some(last) = &mut *last else { return false };
        last.attempts += 1;
        let is_new = last.logged.as_ref() != Some(problem);
        if last.attempts < 2 || !is_new {
            return false;
        }
        last.logged = Some(problem.clone());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_logged_once_from_the_second_attempt_until_there_is_a_proof() {
        let (last, problem) =
            (LastProblem::default(), |reason: &str| CoherenceProblem::NoReply(reason.into()));
        last.set(problem("late"));
        assert!(!last.count_attempt(&problem("a")));
        assert!(last.count_attempt(&problem("a")));
        assert!(!last.count_attempt(&problem("a")));
        last.set(problem("late"));
        assert!(!last.count_attempt(&problem("a")));
        assert!(last.count_attempt(&problem("b")));
        assert_eq!(last.get(), Some(problem("b")));
        last.clear();
        assert_eq!(last.get(), None);
        assert!(!last.count_attempt(&problem("b")));
        assert!(last.count_attempt(&problem("b")));
    }
}
