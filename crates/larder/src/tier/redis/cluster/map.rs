//! The map of a cluster: which server owns each slot, as far as its servers have told.

use super::member::Member;
use super::slots::{SLOTS, SlotSet};
use super::view::{NodeId, View};
use crate::tier::redis::sentinel::Place;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The owner of each slot.
#[derive(Debug)]
pub(super) struct SlotMap {
    /// Those that own slots.
    pub(super) owners: Vec<Arc<Member>>,
    /// The other primaries that work.
    pub(super) others: Vec<Arc<Member>>,
    /// How many slots each of them owns.
    counts: Vec<usize>,
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
        // The claims that differ. Each server tells of all: a slot has the number of the best one, so that it is small.
        let mut claims: Vec<(u64, &NodeId)> = Vec::new();
        let mut numbers = HashMap::new();
        let mut claimed: Box<[Option<u32>; SLOTS]> = Box::new([None; SLOTS]);
        let mut places = HashMap::new();
        let mut moving = SlotSet::new();
        for view in views {
            moving.add(&view.moving);
            for primary in &view.primaries {
                let known = places.entry(&primary.id).or_insert((primary.epoch, &primary.place));
                if primary.epoch > known.0 {
                    *known = (primary.epoch, &primary.place);
                }
                let claim = (primary.epoch, &primary.id);
                let number = *numbers.entry(claim).or_insert_with(|| {
                    claims.push(claim);
                    claims.len() as u32 - 1
                });
                for slots in &primary.slots {
                    for best in &mut claimed[usize::from(*slots.start())..=usize::from(*slots.end())] {
                        if best.is_none_or(|best| claims[best as usize].0 < primary.epoch) {
                            *best = Some(number);
                        }
                    }
                }
            }
        }
        let mut owners: Vec<Arc<Member>> = Vec::new();
        let mut by_slot = Box::new([None; SLOTS]);
        let mut index_of = |owner: Arc<Member>| {
            let known = owners.iter().position(|known| Arc::ptr_eq(known, &owner));
            let index = known.unwrap_or_else(|| {
                owners.push(owner);
                owners.len() - 1
            });
            Some(index as u16)
        };
        // Of each claim, once it is a slot's.
        let mut indices = vec![None; claims.len()];
        for (slot, claim) in claimed.iter().enumerate() {
            by_slot[slot] = match claim {
                Some(number) => {
                    let number = *number as usize;
                    let id = claims[number].1;
                    *indices[number].get_or_insert_with(|| index_of(member(id, places[id].1)))
                }
                None => former.owner(slot as u16).cloned().and_then(&mut index_of),
            };
        }
        let mut others: Vec<Arc<Member>> = Vec::new();
        for primary in views.iter().flat_map(|view| &view.primaries).filter(|primary| primary.works) {
            let other = member(&primary.id, places[&primary.id].1);
            if !owners.iter().chain(&others).any(|known| Arc::ptr_eq(known, &other)) {
                others.push(other);
            }
        }
        let mut counts = vec![0; owners.len()];
        by_slot.iter().flatten().for_each(|index: &u16| counts[usize::from(*index)] += 1);
        SlotMap { owners, others, counts, by_slot, moving, asked_at: Some(asked_at) }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Member>> {
        self.by_slot[usize::from(slot)].map(|index| &self.owners[usize::from(index)])
    }

    /// How many slots a server owns.
    pub(super) fn slots_of(&self, member: &Arc<Member>) -> usize {
        let index = self.owners.iter().position(|owner| Arc::ptr_eq(owner, member));
        index.map_or(0, |index| self.counts[index])
    }

    /// The primary at a place.
    pub(super) fn at(&self, place: &Place) -> Option<&Arc<Member>> {
        self.owners.iter().chain(&self.others).find(|member| member.place == *place)
    }

    /// Whether the servers were asked since then.
    pub(super) fn is_asked_since(&self, time: Instant) -> bool {
        self.asked_at.is_some_and(|asked_at| asked_at >= time)
    }

    /// The slots whose owners differ.
    pub(super) fn difference(&self, other: &SlotMap) -> SlotSet {
        let mut moved = SlotSet::new();
        for slot in 0..SLOTS as u16 {
            let (one, other) = (self.owner(slot), other.owner(slot));
            if one.map(Arc::as_ptr) != other.map(Arc::as_ptr) {
                moved.insert(slot);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::Claimant;
    use super::*;
    use crate::tier::redis::RedisOptions;
    use crate::tier::redis::address::{Address, Mode};
    use crate::tier::redis::server::Server;
    use redis::IntoConnectionInfo;
    use std::cell::RefCell;

    type Claim<'a> = (&'a str, u64, Option<std::ops::RangeInclusive<u16>>);

    fn view(claims: &[Claim<'_>]) -> View {
        let primaries = claims.iter().map(|(id, epoch, slots)| Claimant {
            id: (*id).to_owned(),
            place: ((*id).to_owned(), 6379),
            epoch: *epoch,
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
            SlotMap::new(views, former, Instant::now(), |id, place| {
                let new = || {
                    let (info, options) = ("redis://h".into_connection_info(), RedisOptions::default());
                    let address = Address::new(info.expect("valid"), None, Mode::Member, &options);
                    let server = Server::new(address.expect("valid"), 1);
                    Arc::new(Member::new(id.clone(), place.clone(), server))
                };
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
            assert_eq!(map.owners.len(), 3);
            let slots = map.owners.iter().map(|owner| map.slots_of(owner)).sum::<usize>();
            assert_eq!(slots, 200);
        }
    }

    /// One that was cut off, or that has just started, may know less than was known.
    #[tokio::test]
    async fn slot_that_nobody_claims_keeps_its_owner() {
        let members = Members::default();
        let former =
            members.map(&[view(&[("a", 1, Some(0..=99)), ("b", 2, Some(100..=199))])], &SlotMap::empty());
        let map = members.map(&[view(&[("b", 2, Some(100..=149))]), view(&[("d", 0, None)])], &former);
        assert_eq!([0, 100, 150].map(|slot| owner_of(&map, slot)), ["a", "b", "b"].map(Some));
        assert!(map.difference(&former).is_empty());
        assert_eq!(map.others.iter().map(|other| &*other.id).collect::<Vec<_>>(), ["d"]);
    }

    #[tokio::test]
    async fn difference_has_the_slots_that_moved() {
        let members = Members::default();
        let before =
            members.map(&[view(&[("a", 1, Some(0..=99)), ("b", 2, Some(100..=199))])], &SlotMap::empty());
        let after = members.map(&[view(&[("a", 1, Some(0..=97)), ("b", 3, Some(98..=199))])], &before);
        let mut moved = SlotSet::new();
        [98, 99].into_iter().for_each(|slot| moved.insert(slot));
        assert_eq!(after.difference(&before), moved);
    }
}
