//! What is possible: the most hits that any cache could have had on a trace.
//!
//! With entries of equal weight that is Bélády's rule with bypass: of the keys at hand, the new one included, the one
//! that is used again last is not kept (L. A. Bélády, "A study of replacement algorithms for a virtual-storage
//! computer", IBM Systems Journal 5(2), 1966). It is exact.
//!
//! With sizes the optimum is NP-hard, so there is an upper bound instead: to hit, an object must occupy its size from
//! one request to the next, and all these areas together cannot exceed capacity times requests; the smallest areas
//! first give the most hits (D. S. Berger, N. Beckmann, M. Harchol-Balter, "Practical bounds on optimal caching with
//! variable object sizes", POMACS 2(2), 2018, there PFOO-U). We take the smallest size that a key ever has, because
//! a cache may have charged any of them.

use crate::trace::Request;
use anyhow::{Result, ensure};
use hashbrown::HashMap;
use std::collections::BinaryHeap;

/// Not used again.
const NEVER: u32 = u32::MAX;

/// Remembers a trace in four bytes a request.
pub(super) struct Optimum {
    capacity: u64,
    ids: HashMap<u64, u32, rapidhash::fast::RandomState>,
    /// By id: the smallest size.
    sizes: Vec<u32>,
    /// By request: its key's id.
    requests: Vec<u32>,
}

impl Optimum {
    pub(super) fn new(capacity: u64) -> Self {
        Optimum { capacity, ids: HashMap::default(), sizes: Vec::new(), requests: Vec::new() }
    }

    pub(super) fn observe(&mut self, requests: &[Request]) -> Result<()> {
        ensure!(
            self.requests.len() + requests.len() < NEVER as usize,
            "more than {NEVER} requests: the optimum cannot be worked out"
        );
        for request in requests {
            let id = *self.ids.entry(request.key).or_insert(self.sizes.len() as u32);
            match self.sizes.get_mut(id as usize) {
                Some(size) => *size = request.bytes.min(*size),
                None => self.sizes.push(request.bytes),
            }
            self.requests.push(id);
        }
        Ok(())
    }

    /// The most hits that are possible; an upper bound of it if the objects have `sizes`.
    pub(super) fn most_hits(&self, sizes: bool) -> u64 {
        if sizes { self.hits_by_area() } else { self.hits_by_belady() }
    }

    /// When the key of each request is used again.
    fn next_uses(&self) -> Vec<u32> {
        let mut seen = vec![NEVER; self.sizes.len()];
        let mut next_uses = vec![NEVER; self.requests.len()];
        for (now, &id) in self.requests.iter().enumerate().rev() {
            next_uses[now] = std::mem::replace(&mut seen[id as usize], now as u32);
        }
        next_uses
    }

    fn hits_by_belady(&self) -> u64 {
        let next_uses = self.next_uses();
        let mut cached = vec![false; self.sizes.len()];
        let mut held = 0;
        // By next use, the last on top. Entries that have been used since lie deep, with a time that is past.
        let mut latest: BinaryHeap<(u32, u32)> = BinaryHeap::new();
        let mut hits = 0;
        for (&id, &next_use) in self.requests.iter().zip(&next_uses) {
            let was_cached = cached[id as usize];
            hits += u64::from(was_cached);
            if next_use == NEVER {
                held -= u64::from(was_cached);
                cached[id as usize] = false;
                continue;
            }
            latest.push((next_use, id));
            if was_cached {
                continue;
            }
            cached[id as usize] = true;
            held += 1;
            if held > self.capacity {
                let (_, victim) = latest.pop().expect("what is held is in the heap");
                cached[victim as usize] = false;
                held -= 1;
            }
        }
        hits
    }

    fn hits_by_area(&self) -> u64 {
        let next_uses = self.next_uses();
        let intervals = self.requests.iter().zip(&next_uses).enumerate();
        let mut areas: Vec<u64> = intervals
            .filter(|(_, (_, next_use))| **next_use != NEVER)
            .map(|(now, (&id, &next_use))| {
                (u64::from(self.sizes[id as usize]), u64::from(next_use) - now as u64)
            })
            .filter(|(size, _)| *size <= self.capacity)
            .map(|(size, length)| size * length)
            .collect();
        areas.sort_unstable();
        let mut left = u128::from(self.capacity) * self.requests.len() as u128;
        let fits = |area: &&u64| {
            let fits = u128::from(**area) <= left;
            left -= u128::from(**area) * u128::from(fits);
            fits
        };
        areas.iter().take_while(fits).count() as u64
    }
}
