//! The optimum: the largest number of hits that any cache can have on a trace.
//!
//! For entries of equal weight it is Bélády's rule with bypass: among the cached keys and the new one, drop the key
//! whose next use is the latest (L. A. Bélády, "A study of replacement algorithms for a virtual-storage computer",
//! IBM Systems Journal 5(2), 1966). It is exact.
//!
//! For entries with sizes the optimum is NP-hard, so we compute an upper bound. For a hit an object must occupy its
//! size from one request to the next; the sum of these areas is at most the capacity times the number of requests.
//! Choosing the smallest areas first yields the largest number of hits (D. S. Berger, N. Beckmann, M. Harchol-Balter,
//! "Practical bounds on optimal caching with variable object sizes", POMACS 2(2), 2018, where it is called PFOO-U).
//! If the size of a key varies, we use the smallest, because a cache may charge any of them.

use crate::trace::Request;
use anyhow::{Result, ensure};
use hashbrown::HashMap;
use std::collections::BinaryHeap;

/// The next use of a key that is not used again.
const NEVER: u32 = u32::MAX;

/// Records a trace in four bytes per request.
pub(super) struct Optimum {
    capacity: u64,
    ids: HashMap<u64, u32, rapidhash::fast::RandomState>,
    /// The smallest size of each key, by id.
    sizes: Vec<u32>,
    /// The id of each request's key.
    requests: Vec<u32>,
}

impl Optimum {
    pub(super) fn new(capacity: u64) -> Self {
        Optimum { capacity, ids: HashMap::default(), sizes: Vec::new(), requests: Vec::new() }
    }

    pub(super) fn record(&mut self, requests: &[Request]) -> Result<()> {
        ensure!(
            self.requests.len() + requests.len() < NEVER as usize,
            "more than {NEVER} requests: the optimum cannot be computed"
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

    /// The maximum number of hits; with `sizes`, an upper bound of it.
    pub(super) fn max_hits(&self, sizes: bool) -> u64 {
        if sizes { self.hits_by_area() } else { self.hits_by_belady() }
    }

    /// For each request, the index of the next request for its key.
    fn next_uses(&self) -> Vec<u32> {
        let mut next_by_id = vec![NEVER; self.sizes.len()];
        let mut next_uses = vec![NEVER; self.requests.len()];
        for (now, &id) in self.requests.iter().enumerate().rev() {
            next_uses[now] = std::mem::replace(&mut next_by_id[id as usize], now as u32);
        }
        next_uses
    }

    fn hits_by_belady(&self) -> u64 {
        let next_uses = self.next_uses();
        let mut cached = vec![false; self.sizes.len()];
        let mut cached_count = 0;
        // The latest next use is on top. Outdated elements, whose next use has passed, stay below and are never popped.
        let mut latest: BinaryHeap<(u32, u32)> = BinaryHeap::new();
        let mut hits = 0;
        for (&id, &next_use) in self.requests.iter().zip(&next_uses) {
            let was_cached = cached[id as usize];
            hits += u64::from(was_cached);
            if next_use == NEVER {
                cached_count -= u64::from(was_cached);
                cached[id as usize] = false;
                continue;
            }
            latest.push((next_use, id));
            if was_cached {
                continue;
            }
            cached[id as usize] = true;
            cached_count += 1;
            if cached_count > self.capacity {
                let (_, victim) = latest.pop().expect("every cached key is in the heap");
                cached[victim as usize] = false;
                cached_count -= 1;
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
        let mut available = u128::from(self.capacity) * self.requests.len() as u128;
        let fits = |area: &&u64| {
            let fits = u128::from(**area) <= available;
            available -= u128::from(**area) * u128::from(fits);
            fits
        };
        areas.iter().take_while(fits).count() as u64
    }
}
