//! The primaries that a node listens to.

use super::SETTLING;
use super::member::Member;
use crate::tier::ServerId;
use std::sync::Arc;
use tokio::time::Instant;

/// The primaries that one subscription listens to.
#[derive(Debug)]
pub(super) struct Membership {
    /// One identity for all. Another member, or another run of one, makes another.
    pub(super) id: ServerId,
    pub(super) members: Vec<Listened>,
    /// The prefix of the markers, which has the namespace.
    pub(super) prefix: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Listened {
    pub(super) member: Arc<Member>,
    /// The run of the server that was reached last; none if it never was.
    pub(super) run: ServerId,
    /// Whether it was not reached this time: nothing is sent to it, and no memory is trusted.
    pub(super) is_missing: bool,
    /// Since when this node knows it as a primary.
    since: Instant,
}

impl Membership {
    /// Each member with the run that was reached, if it was.
    pub(super) fn new(
        reached: impl IntoIterator<Item = (Arc<Member>, Option<ServerId>)>,
        former: Option<&Membership>,
        prefix: Vec<u8>,
    ) -> Self {
        let members = reached.into_iter().map(|(member, run)| {
            let before = former.and_then(|former| former.of(&member));
            Listened {
                is_missing: run.is_none(),
                run: run.or(before.map(|before| before.run.clone())).unwrap_or(ServerId(String::new())),
                since: before.map_or_else(Instant::now, |before| before.since),
                member,
            }
        });
        let members: Vec<_> = members.collect();
        let id = members.iter().map(|Listened { member, run, is_missing, .. }| {
            format!("{}:{}{}", member.id, run.0, if *is_missing { "?" } else { "" })
        });
        let id = ServerId(id.collect::<Vec<_>>().join(","));
        Membership { id, members, prefix }
    }

    pub(super) fn of(&self, member: &Arc<Member>) -> Option<&Listened> {
        self.members.iter().find(|listened| Arc::ptr_eq(&listened.member, member))
    }

    /// Whether these are the members.
    pub(super) fn is_of(&self, wanted: &[Arc<Member>]) -> bool {
        self.members.len() == wanted.len() && wanted.iter().all(|member| self.of(member).is_some())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.members.iter().all(|listened| !listened.is_missing)
    }

    /// Whether every node has the server as a primary in its map: this one knows it for long enough.
    pub(super) fn is_known_to_all(&self, member: &Arc<Member>) -> bool {
        self.of(member).is_some_and(|listened| listened.since.elapsed() >= SETTLING)
    }

    /// The members whose runs the next one has not.
    pub(super) fn gone<'a>(&'a self, next: &'a Membership) -> impl Iterator<Item = &'a Listened> {
        let stays = |one: &Listened| next.of(&one.member).is_some_and(|other| other.run == one.run);
        self.members.iter().filter(move |one| !stays(one))
    }
}
