//! What a test expects of a mutation: how far it reached.
#![allow(dead_code, reason = "each test program uses a part of it")]

use larder::{CacheError, Reach, Removal};

/// The result of a mutation.
pub(crate) trait Mutation {
    /// What the mutation tells beside its reach.
    type Existed;

    /// Expects it to be in effect on every node.
    fn everywhere(self) -> Self::Existed;

    /// Expects it to be in effect on its node, and queued.
    fn queued(self) -> Self::Existed;

    /// Whether it is in effect on every node.
    fn is_everywhere(&self) -> bool;
}

impl Mutation for Result<Reach, CacheError> {
    type Existed = ();

    #[track_caller]
    fn everywhere(self) {
        assert_eq!(self.expect("done"), Reach::Everywhere);
    }

    #[track_caller]
    fn queued(self) {
        assert_eq!(self.expect("done here"), Reach::HereAndQueued);
    }

    fn is_everywhere(&self) -> bool {
        self.as_ref().is_ok_and(|reach| reach.is_everywhere())
    }
}

impl<T> Mutation for Result<Removal<T>, CacheError> {
    type Existed = T;

    #[track_caller]
    fn everywhere(self) -> T {
        let Removal { existed, reach } = self.expect("done");
        assert_eq!(reach, Reach::Everywhere);
        existed
    }

    #[track_caller]
    fn queued(self) -> T {
        let Removal { existed, reach } = self.expect("done here");
        assert_eq!(reach, Reach::HereAndQueued);
        existed
    }

    fn is_everywhere(&self) -> bool {
        self.as_ref().is_ok_and(|removal| removal.reach.is_everywhere())
    }
}
