//! The primaries that a node listens to.

use super::SETTLING;
use super::map::SlotMap;
use super::member::Member;
use crate::tier::ServerId;
use crate::tier::redis::identity::Identity;
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
    /// Who owned each slot when they were chosen.
    pub(super) map: Arc<SlotMap>,
}

#[derive(Clone, Debug)]
pub(super) struct Listened {
    pub(super) member: Arc<Member>,
    /// That of the server that was reached last; empty if none ever was.
    pub(super) identity: Identity,
    /// Whether it was not reached this time: nothing is sent to it, and no memory is trusted.
    pub(super) is_missing: bool,
    /// Since when this node knows it as a primary.
    since: Instant,
}

impl Membership {
    /// Each member with what it told of itself, if it was reached.
    pub(super) fn new(
        reached: impl IntoIterator<Item = (Arc<Member>, Option<Identity>)>,
        former: Option<&Membership>,
        prefix: Vec<u8>,
        map: Arc<SlotMap>,
    ) -> Self {
        let members = reached.into_iter().map(|(member, identity)| {
            let before = former.and_then(|former| former.of(&member));
            Listened {
                is_missing: identity.is_none(),
                identity: identity.or(before.map(|before| before.identity.clone())).unwrap_or_default(),
                since: before.map_or_else(Instant::now, |before| before.since),
                member,
            }
        });
        let members: Vec<_> = members.collect();
        let id = members.iter().map(|Listened { member, identity, is_missing, .. }| {
            format!("{}:{}{}", member.id, identity.id().0, if *is_missing { "?" } else { "" })
        });
        let id = ServerId(id.collect::<Vec<_>>().join(","));
        Membership { id, members, prefix, map }
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

    /// Whether these, or one that they have given it to, have what a slot has by this map: it has not moved since they were
    /// chosen, or they are still the ones to listen to.
    pub(super) fn has_slot(
        &self,
        slot: u16,
        map: &SlotMap,
        wanted: impl FnOnce() -> Vec<Arc<Member>>,
    ) -> bool {
        map.agrees(&self.map, slot) || self.is_of(&wanted())
    }

    /// Whether every node has the server as a primary in its map: this one listens to it for long enough, and it has had slots
    /// for as long. One that only receives slots is known to those that were sent there.
    pub(super) fn is_known_to_all(&self, member: &Arc<Member>) -> bool {
        let is_settled = |listened: &Listened| listened.since.elapsed() >= SETTLING;
        self.of(member).is_some_and(is_settled) && member.owner_for() >= SETTLING
    }

    /// The members whose data the next one may have as older copies: those that it has not, and those that a replica has
    /// succeeded. A primary that was lost for a time may own a slot afterwards that its replica did not know of.
    pub(super) fn gone<'a>(&'a self, next: &'a Membership) -> impl Iterator<Item = &'a Listened> {
        let is_as_before = |one: &Listened, other: &Membership| {
            other.of(&one.member).is_some_and(|other| other.identity.id() == one.identity.id())
        };
        let is_succeeded = move |one: &Listened| {
            let mut others = next.members.iter().filter(move |other| !is_as_before(other, self));
            others.any(|other| other.identity.succeeds(&one.identity))
        };
        self.members.iter().filter(move |one| !is_as_before(one, next) || is_succeeded(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member, and its run, its replication ID and its former one.
    type Told<'a> = (&'a Arc<Member>, [&'a str; 3]);

    fn membership(members: &[Told<'_>], former: Option<&Membership>) -> Membership {
        let reached = members.iter().map(|(member, [run, history, before])| {
            let replication = format!("master_replid:{history}\r\nmaster_replid2:{before}\r\n");
            ((*member).clone(), Some(Identity::of(&format!("run_id:{run}\r\n"), &replication)))
        });
        Membership::new(reached, former, Vec::new(), Arc::new(SlotMap::empty()))
    }

    /// The ids of the former members that are gone.
    fn gone(former: &[Told<'_>], next: &[Told<'_>]) -> String {
        let former = membership(former, None);
        former.gone(&membership(next, Some(&former))).map(|gone| &*gone.member.id).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn primary_that_only_received_slots_is_new_once_it_owns_one() {
        let member = &Arc::new(Member::unreached("a"));
        let listening = membership(&[(member, ["a1", "aaaa", ""])], None);
        member.record_ownership(false);
        tokio::time::advance(2 * SETTLING).await;
        assert!(!listening.is_known_to_all(member), "others were not sent there");
        member.record_ownership(true);
        tokio::time::advance(SETTLING / 2).await;
        member.record_ownership(true);
        assert!(!listening.is_known_to_all(member), "others may have an older map");
        tokio::time::advance(SETTLING / 2).await;
        assert!(listening.is_known_to_all(member));
        member.record_ownership(false);
        assert!(!listening.is_known_to_all(member), "others may not have listened to it since");
    }

    #[tokio::test]
    async fn member_is_gone_if_another_may_have_an_older_copy_of_its_data() {
        const NONE: &str = "00000000000000000000";
        let [a, b, c] = &["a", "b", "c"].map(|id| Arc::new(Member::unreached(id)));
        let (first, second) = ((a, ["a1", "aaaa", NONE]), (b, ["b1", "bbbb", NONE]));
        assert_eq!(gone(&[first, second], &[first, second]), "");
        assert_eq!(gone(&[first], &[first, second]), "", "another one has joined");
        assert_eq!(gone(&[first, second], &[second]), "a");
        assert_eq!(gone(&[first, second], &[(a, ["a2", "abab", NONE]), second]), "a", "it was restarted");
        assert_eq!(gone(&[first, second], &[(a, ["a1", "abab", "cccc"]), second]), "a", "it was a replica");
        let all = [first, second, (c, ["c1", "cccc", "aaaa"])];
        assert_eq!(gone(&[first, second], &all), "a", "it has a slot that its replica did not know of");
        assert_eq!(gone(&all, &all), "", "its replica is known");
        assert_eq!(gone(&[(a, [""; 3])], &[(a, [""; 3]), (c, ["c1", "", ""])]), "", "they tell nothing");
    }
}
