//! The map of a cluster: which server owns each slot, as far as its servers have told.

use super::member::Member;
use super::slots::{SLOTS, SlotSet, hash_tag, slot_of, tag_of};
use super::view::{NodeId, View};
use crate::tier::redis::replicas::confirmation_key;
use crate::tier::redis::sentinel::Place;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The owner of each slot.
#[derive(Debug)]
pub(super) struct SlotMap {
    /// Those that own slots, in the order of these.
    pub(super) owners: Vec<Arc<Member>>,
    /// The other primaries that work.
    pub(super) others: Vec<Arc<Member>>,
    /// How many slots each of them owns.
    counts: Vec<usize>,
    /// The configuration epoch of each of them, which rises when it gets a slot of another one.
    epochs: Vec<u64>,
    /// The index of the owner of each slot.
    by_slot: Box<[Option<u16>; SLOTS]>,
    /// The slots that move.
    pub(super) moving: SlotSet,
    /// When the servers were asked. `None` if none was.
    pub(super) asked_at: Option<Instant>,
}

impl SlotMap {
    /// Before any server was asked.
    pub(super) fn empty() -> Self {
        let by_slot = Box::new([None; SLOTS]);
        SlotMap {
            owners: Vec::new(),
            others: Vec::new(),
            counts: Vec::new(),
            epochs: Vec::new(),
            by_slot,
            moving: SlotSet::new(),
            asked_at: None,
        }
    }

    /// The map of what servers told that were asked at this time. A slot that no server claims keeps its owner: those that
    /// were cut off from the others, or that have just started, do not know all.
    pub(super) fn new(
        views: &[View],
        former: &SlotMap,
        asked_at: Instant,
        mut member: impl FnMut(&NodeId, &Place) -> Arc<Member>,
    ) -> Self {
        let primaries = || views.iter().flat_map(|view| &view.primaries);
        let tell_of_themselves: HashMap<_, _> = primaries()
            .filter(|primary| primary.is_itself)
            .map(|primary| (&primary.id, primary.epoch))
            .collect();
        // The claims that differ. Each server tells of all, so there are few.
        let mut claims: Vec<(u64, &NodeId, SlotSet)> = Vec::new();
        let mut numbers = HashMap::new();
        let mut places = HashMap::new();
        let mut moving = SlotSet::new();
        for view in views {
            moving.add(&view.moving);
            for primary in &view.primaries {
                let known = places.entry(&primary.id).or_insert((primary.epoch, &primary.place));
                if primary.epoch > known.0 {
                    *known = (primary.epoch, &primary.place);
                }
                // Others may know the epoch of a server, and not yet that it has given slots away.
                let known_better = tell_of_themselves.get(&primary.id).filter(|_| !primary.is_itself);
                if known_better.is_some_and(|epoch| *epoch >= primary.epoch) {
                    continue;
                }
                let number = *numbers.entry((primary.epoch, &primary.id)).or_insert_with(|| {
                    claims.push((primary.epoch, &primary.id, SlotSet::new()));
                    claims.len() - 1
                });
                primary.slots.iter().for_each(|slots| claims[number].2.insert_all(slots.clone()));
            }
        }
        // Of equal ones the one that was told first.
        claims.sort_by_key(|(epoch, ..)| Reverse(*epoch));
        let mut owned: Vec<(Arc<Member>, SlotSet)> = Vec::new();
        let mut unclaimed = SlotSet::all();
        for (_, id, mut slots) in claims {
            slots.keep(&unclaimed);
            unclaimed.remove(&slots);
            if !slots.is_empty() {
                slots_of(&mut owned, &member(id, places[id].1)).add(&slots);
            }
        }
        for slot in unclaimed.runs().flatten() {
            if let Some(owner) = former.owner(slot) {
                slots_of(&mut owned, owner).insert(slot);
            }
        }
        owned.sort_by_key(|(_, slots)| slots.runs().next().map(|run| *run.start()));
        let mut by_slot = Box::new([None; SLOTS]);
        for (index, (_, slots)) in owned.iter().enumerate() {
            for run in slots.runs() {
                by_slot[usize::from(*run.start())..=usize::from(*run.end())].fill(Some(index as u16));
            }
        }
        let counts = owned.iter().map(|(_, slots)| slots.len()).collect();
        let told = |owner: &Member| places.get(&owner.id).map(|(epoch, _)| *epoch);
        let epochs =
            owned.iter().map(|(owner, _)| told(owner).or_else(|| former.epoch(owner)).unwrap_or(0)).collect();
        let owners: Vec<_> = owned.into_iter().map(|(owner, _)| owner).collect();
        let mut others: Vec<Arc<Member>> = Vec::new();
        for primary in primaries().filter(|primary| primary.works) {
            let other = member(&primary.id, places[&primary.id].1);
            if !owners.iter().chain(&others).any(|known| Arc::ptr_eq(known, &other)) {
                others.push(other);
            }
        }
        SlotMap { owners, others, counts, epochs, by_slot, moving, asked_at: Some(asked_at) }
    }

    /// Whether both have the same owner for a slot.
    pub(super) fn agrees(&self, other: &SlotMap, slot: u16) -> bool {
        self.owner(slot).map(Arc::as_ptr) == other.owner(slot).map(Arc::as_ptr)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Member>> {
        self.by_slot[usize::from(slot)].map(|index| &self.owners[usize::from(index)])
    }

    fn index_of(&self, member: &Arc<Member>) -> Option<usize> {
        self.owners.iter().position(|owner| Arc::ptr_eq(owner, member))
    }

    /// How many slots a server owns.
    pub(super) fn slots_of(&self, member: &Arc<Member>) -> usize {
        self.index_of(member).map_or(0, |index| self.counts[index])
    }

    /// The configuration epoch of an owner.
    fn epoch(&self, member: &Arc<Member>) -> Option<u64> {
        self.index_of(member).map(|index| self.epochs[index])
    }

    /// The key whose write the replicas of a server acknowledge, in a slot of its own, best one that does not move. `None` if
    /// it owns none: then it has taken no other's place, and no other has taken its own.
    pub(super) fn confirmation_key(&self, member: &Member, channel: &[u8]) -> Option<Vec<u8>> {
        let owns = |slot: &u16| self.owner(*slot).is_some_and(|owner| std::ptr::eq(&**owner, member));
        let key = confirmation_key(channel);
        if hash_tag(channel).is_some() {
            // The namespace has one slot.
            return Some(key).filter(|key| owns(&slot_of(key)));
        }
        let steady = (0..SLOTS as u16).find(|slot| owns(slot) && !self.moving.contains(*slot));
        let slot = steady.or_else(|| (0..SLOTS as u16).find(owns))?;
        Some([&key[..], b"{", tag_of(slot).as_bytes(), b"}"].concat())
    }

    /// The primary at a place.
    pub(super) fn at(&self, place: &Place) -> Option<&Arc<Member>> {
        self.owners.iter().chain(&self.others).find(|member| member.place == *place)
    }

    /// Whether the servers were asked since then.
    pub(super) fn is_asked_since(&self, time: Instant) -> bool {
        self.asked_at.is_some_and(|asked_at| asked_at >= time)
    }

    /// The slots that may have moved since the other map: those that have another owner, and all of an owner that got slots
    /// meanwhile. One of these may have been elsewhere and have come back.
    pub(super) fn moved_since(&self, before: &SlotMap) -> SlotSet {
        let is_as_before = |owner| self.epoch(owner) == before.epoch(owner);
        let is_as_before: Vec<bool> = self.owners.iter().map(is_as_before).collect();
        let mut moved = SlotSet::new();
        for slot in 0..SLOTS as u16 {
            let has_stayed =
                self.by_slot[usize::from(slot)].is_none_or(|index| is_as_before[usize::from(index)]);
            if !has_stayed || !self.agrees(before, slot) {
                moved.insert(slot);
            }
        }
        moved
    }
}

/// The slots of an owner, among those of all.
fn slots_of<'a>(owned: &'a mut Vec<(Arc<Member>, SlotSet)>, owner: &Arc<Member>) -> &'a mut SlotSet {
    let known = owned.iter().position(|(known, _)| Arc::ptr_eq(known, owner));
    let index = known.unwrap_or_else(|| {
        owned.push((owner.clone(), SlotSet::new()));
        owned.len() - 1
    });
    &mut owned[index].1
}

#[cfg(test)]
mod tests {
    use super::super::membership::Membership;
    use super::super::view::Claimant;
    use super::*;
    use crate::tier::redis::identity::Identity;
    use std::cell::RefCell;

    type Claim<'a> = (&'a str, u64, Option<std::ops::RangeInclusive<u16>>);

    fn view(claims: &[Claim<'_>]) -> View {
        let primaries = claims.iter().map(|(id, epoch, slots)| Claimant {
            id: (*id).to_owned(),
            place: ((*id).to_owned(), 6379),
            epoch: *epoch,
            is_itself: false,
            works: true,
            slots: slots.iter().cloned().collect(),
        });
        View { primaries: primaries.collect(), moving: SlotSet::new() }
    }

    /// Servers that stay the same from map to map.
    #[derive(Default)]
    struct Members(RefCell<HashMap<NodeId, Arc<Member>>>);

    impl Members {
        fn map(&self, views: &[View], former: &SlotMap) -> SlotMap {
            SlotMap::new(views, former, Instant::now(), |id, _| {
                let new = || Arc::new(Member::unreached(id));
                self.0.borrow_mut().entry(id.clone()).or_insert_with(new).clone()
            })
        }
    }

    fn owner_of(map: &SlotMap, slot: u16) -> Option<&str> {
        map.owner(slot).map(|owner| &*owner.id)
    }

    /// A former primary that was cut off still claims its slots.
    #[tokio::test]
    async fn claim_with_the_highest_epoch_wins() {
        let (old, new) =
            (view(&[("a", 1, Some(0..=99)), ("b", 2, Some(100..=199))]), view(&[("c", 3, Some(50..=99))]));
        let members = Members::default();
        for views in [
            [old, new],
            [view(&[("c", 3, Some(50..=99))]), view(&[("a", 1, Some(0..=99)), ("b", 2, Some(100..=199))])],
        ] {
            let map = members.map(&views, &SlotMap::empty());
            let owners = [0, 49, 50, 99, 100, 199, 200].map(|slot| owner_of(&map, slot));
            let expected = ["a", "a", "c", "c", "b", "b"].map(Some);
            assert_eq!(owners[..6], expected);
            assert_eq!(owners[6], None);
            let slots: Vec<_> = map.owners.iter().map(|owner| (&*owner.id, map.slots_of(owner))).collect();
            assert_eq!(slots, [("a", 50), ("c", 50), ("b", 100)]);
        }
    }

    /// The epoch of a server that has got a slot is higher than that of another one to which it gave a slot before.
    #[tokio::test]
    async fn claim_of_a_server_itself_counts_more_than_what_others_say_of_it() {
        let members = Members::default();
        let itself = |mut view: View, id: &str| {
            let primaries = view.primaries.iter_mut().filter(|primary| primary.id == id);
            primaries.for_each(|primary| primary.is_itself = true);
            view
        };
        let giver = itself(view(&[("a", 3, Some(0..=98)), ("b", 2, Some(99..=99))]), "a");
        let getter = itself(view(&[("a", 1, Some(0..=98)), ("b", 2, Some(99..=99))]), "b");
        let late = itself(view(&[("a", 3, Some(0..=99)), ("c", 0, Some(100..=199))]), "c");
        let map = members.map(&[late.clone(), giver, getter], &SlotMap::empty());
        let owners = [98, 99, 100].map(|slot| owner_of(&map, slot));
        assert_eq!(owners, ["a", "b", "c"].map(Some));
        let map = members.map(&[late], &SlotMap::empty());
        assert_eq!(owner_of(&map, 99), Some("a"), "nobody knows better");
    }

    /// One that was cut off, or that has just started, may know less than was known.
    #[tokio::test]
    async fn slot_that_nobody_claims_keeps_its_owner() {
        let members = Members::default();
        let former =
            members.map(&[view(&[("a", 1, Some(0..=99)), ("b", 2, Some(100..=199))])], &SlotMap::empty());
        let map = members.map(&[view(&[("b", 2, Some(100..=149))]), view(&[("d", 0, None)])], &former);
        assert_eq!([0, 100, 150].map(|slot| owner_of(&map, slot)), ["a", "b", "b"].map(Some));
        assert!(map.moved_since(&former).is_empty());
        assert_eq!(map.others.iter().map(|other| &*other.id).collect::<Vec<_>>(), ["d"]);
    }

    /// The replica of `a` takes over, and gives a slot away before this node listens to it.
    #[tokio::test]
    async fn slot_that_moved_through_a_new_primary_is_not_known() {
        let members = Members::default();
        let [before, after] = [
            &[view(&[("a", 1, Some(0..=99)), ("b", 2, Some(100..=199))])],
            &[view(&[("c", 3, Some(0..=98)), ("b", 4, Some(99..=199))])],
        ]
        .map(|views| Arc::new(members.map(views, &SlotMap::empty())));
        let listening = |map: &Arc<SlotMap>| {
            let reached = map.owners.iter().map(|owner| (owner.clone(), Some(Identity::default())));
            Membership::new(reached, None, Vec::new(), map.clone())
        };
        let known = |membership: Membership, slot| membership.has_slot(slot, &after, || after.owners.clone());
        assert!(!known(listening(&before), 99) && !known(listening(&before), 98));
        assert!(known(listening(&before), 150), "it has not moved");
        assert!(known(listening(&after), 99));
    }

    #[tokio::test]
    async fn slots_that_may_have_moved_are_those_of_who_got_some() {
        let members = Members::default();
        let before =
            members.map(&[view(&[("a", 1, Some(0..=99)), ("b", 2, Some(100..=199))])], &SlotMap::empty());
        let moved = |views: &[View]| members.map(views, &before).moved_since(&before);
        let set = |slots: std::ops::RangeInclusive<u16>| {
            let mut set = SlotSet::new();
            set.insert_all(slots);
            set
        };
        assert!(moved(&[view(&[("a", 1, Some(0..=99)), ("b", 2, Some(100..=199))])]).is_empty());
        let got = moved(&[view(&[("a", 1, Some(0..=97)), ("b", 3, Some(98..=199))])]);
        assert_eq!(got, set(98..=199));
        // One that it gave away between the maps has come back.
        let same = moved(&[view(&[("a", 4, Some(0..=99)), ("b", 2, Some(100..=199))])]);
        assert_eq!(same, set(0..=99));
    }
}
