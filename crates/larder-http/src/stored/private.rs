//! The shares of private responses: all together take at most a quarter of the cache, those of one principal a
//! hundredth. A response that needs more room than is left of a share displaces the oldest ones of that share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key::Key;
use crate::status::Reason;
use crate::stored::purge::PurgeKey;

/// The private responses of all principals.
#[derive(Debug)]
pub(crate) struct PrivateShares {
    limit: usize,
    limit_of_principal: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    next_number: u64,
    /// By number: the oldest first.
    responses: BTreeMap<u64, PrivateResponse>,
    principals: HashMap<PurgeKey, Principal>,
}

#[derive(Debug)]
struct PrivateResponse {
    principal: PurgeKey,
    key: Key,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Principal {
    bytes: usize,
    numbers: BTreeSet<u64>,
}

/// The part of a share that one response takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<PrivateShares>,
    number: u64,
}

impl PrivateShares {
    pub(crate) fn new(max_bytes: u64) -> Arc<PrivateShares> {
        let part = |parts| usize::try_from(max_bytes / parts).unwrap_or(usize::MAX);
        Arc::new(PrivateShares { limit: part(4), limit_of_principal: part(100), state: Mutex::default() })
    }

    /// Takes a part of the share of a principal for the response under `key`. The caller removes the responses under the
    /// returned keys: their parts are free already.
    ///
    /// # Errors
    /// `PrivateShare` if the response alone is longer than the share of a principal.
    pub(crate) fn take(
        self: &Arc<PrivateShares>,
        principal: PurgeKey,
        key: &Key,
        bytes: usize,
    ) -> Result<(Share, Vec<Key>), Reason> {
        if bytes > self.limit_of_principal {
            return Err(Reason::PrivateShare);
        }
        let mut state = self.state();
        if state.bytes_of(principal) + bytes > self.limit_of_principal || state.bytes + bytes > self.limit {
            // What the response replaces makes room first, and is not displaced: that would void the fill of its key.
            state.release_all_of(principal, key);
        }
        let mut displaced = Vec::new();
        while state.bytes_of(principal) + bytes > self.limit_of_principal {
            let oldest = state.principals[&principal].numbers.first().copied();
            displaced.extend(oldest.and_then(|number| state.release(number)));
        }
        while state.bytes + bytes > self.limit {
            let oldest = state.responses.keys().next().copied();
            displaced.extend(oldest.and_then(|number| state.release(number)));
        }
        let number = state.add(PrivateResponse { principal, key: key.clone(), bytes });
        Ok((Share { shares: self.clone(), number }, displaced))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn bytes_of(&self, principal: PurgeKey) -> usize {
        self.principals.get(&principal).map_or(0, |principal| principal.bytes)
    }

    fn add(&mut self, response: PrivateResponse) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.bytes += response.bytes;
        let principal = self.principals.entry(response.principal).or_default();
        principal.bytes += response.bytes;
        principal.numbers.insert(number);
        self.responses.insert(number, response);
        number
    }

    /// Frees the parts of the responses of a principal under this key.
    fn release_all_of(&mut self, principal: PurgeKey, key: &Key) {
        let numbers = self.principals.get(&principal).into_iter().flat_map(|principal| &principal.numbers);
        let same: Vec<u64> = numbers.copied().filter(|number| self.responses[number].key == *key).collect();
        for number in same {
            self.release(number);
        }
    }

    /// Frees the part of a response, if it was not freed before. Returns its key.
    fn release(&mut self, number: u64) -> Option<Key> {
        let response = self.responses.remove(&number)?;
        self.bytes -= response.bytes;
        if let Some(principal) = self.principals.get_mut(&response.principal) {
            principal.bytes -= response.bytes;
            principal.numbers.remove(&number);
            if principal.numbers.is_empty() {
                self.principals.remove(&response.principal);
            }
        }
        Some(response.key)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.state().release(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::purge::Purges;

    fn key(number: u8) -> Key {
        Key::new(&[number])
    }

    #[test]
    fn principal_displaces_its_own_oldest_response() {
        let (shares, purges) = (PrivateShares::new(10_000), Purges::new());
        let (ann, bob) = (purges.purge_key(b"ann"), purges.purge_key(b"bob"));
        let (_bobs, displaced) = shares.take(bob, &key(0), 100).unwrap();
        assert!(displaced.is_empty());
        let _kept: Vec<Share> =
            [(1, 60, vec![]), (2, 40, vec![]), (3, 50, vec![key(1)]), (4, 51, vec![key(2), key(3)])]
                .into_iter()
                .map(|(number, bytes, expected)| {
                    let (share, displaced) = shares.take(ann, &key(number), bytes).unwrap();
                    assert_eq!(displaced, expected);
                    share
                })
                .collect();
        assert_eq!(shares.take(ann, &key(5), 101).unwrap_err(), Reason::PrivateShare);
        assert_eq!(shares.state().bytes, 151);
    }

    /// The response under its key may still be in the store.
    #[test]
    fn response_displaces_its_own_predecessor_first() {
        let (shares, purges) = (PrivateShares::new(10_000), Purges::new());
        let ann = purges.purge_key(b"ann");
        let (_oldest, _) = shares.take(ann, &key(1), 40).unwrap();
        let (_second, _) = shares.take(ann, &key(2), 40).unwrap();
        let (_third, displaced) = shares.take(ann, &key(2), 60).unwrap();
        assert!(displaced.is_empty());
        let (_fourth, displaced) = shares.take(ann, &key(2), 70).unwrap();
        assert_eq!(displaced, [key(1)]);
        drop((_second, _third));
        assert_eq!(shares.state().bytes, 70);
    }

    #[test]
    fn all_principals_together_displace_the_oldest_response() {
        let (shares, purges) = (PrivateShares::new(1000), Purges::new());
        let mut kept = Vec::new();
        for number in 0..30 {
            let (share, displaced) = shares.take(purges.purge_key(&[number]), &key(number), 10).unwrap();
            kept.push(share);
            let expected: Vec<Key> = number.checked_sub(25).map(key).into_iter().collect();
            assert_eq!(displaced, expected);
        }
        drop(kept);
        let state = shares.state();
        assert_eq!((state.bytes, state.responses.len(), state.principals.len()), (0, 0, 0));
    }
}
