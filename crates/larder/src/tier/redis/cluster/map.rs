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
        SlotMap { owners: Vec::new(), others: Vec::new(), by_slot, moving: SlotSet::new(), asked_at: None }
    }

    /// The map of what servers told that were asked at this time. A slot that no server claims keeps its owner: those that
    /// were cut off from the others, or that have just started, do not know all.
    pub(super) fn new(
        views: &[View],
        former: &SlotMap,
        asked_at: Instant,
        mut member: impl FnMut(&NodeId, &Place) -> Arc<Member>,
    ) -> Self {
        let mut claims: Box<[Option<(u64, &NodeId)>; SLOTS]> = Box::new([None; SLOTS]);
        let mut places = HashMap::new();
        let mut moving = SlotSet::new();
        for view in views {
            moving.add(&view.moving);
            for primary in &view.primaries {
                let known = places.entry(&primary.id).or_insert((primary.epoch, &primary.place));
                if primary.epoch > known.0 {
                    *known = (primary.epoch, &primary.place);
                }
                for slot in primary.slots.iter().cloned().flatten() {
                    let claim = &mut claims[usize::from(slot)];
                    if claim.is_none_or(|(epoch, _)| epoch < primary.epoch) {
                        *claim = Some((primary.epoch, &primary.id));
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
        let mut last = None;
        for (slot, claim) in claims.iter().enumerate() {
            by_slot[slot] = match claim {
                // Most slots have the owner of the one before.
                Some((_, id)) => match last {
                    Some((last_id, index)) if last_id == *id => index,
                    _ => {
                        let index = index_of(member(id, places[id].1));
                        last = Some((*id, index));
                        index
                    }
                },
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
        SlotMap { owners, others, by_slot, moving, asked_at: Some(asked_at) }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Member>> {
        self.by_slot[usize::from(slot)].map(|index| &self.owners[usize::from(index)])
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
