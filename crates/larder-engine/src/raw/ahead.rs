//! Keys that are going to be asked for: what finding them needs is fetched for many at once.
//!
//! Finding a key takes several accesses to memory, each of which tells where the next one is: the shard, its table, the
//! place of the record, the record. Done one key after the other, each access is waited for. Here the first is asked for
//! on behalf of all keys, then the second, and so on; by the time that the first key is asked about again, what it
//! needs has come.

use super::{Cache, Key};
use crate::cache::Place;

/// How many keys are looked after at once: as many requests to memory as a processor has under way, or a few more.
const MOST: usize = 16;

/// Some keys that are going to be asked for.
#[derive(Debug)]
pub struct Ahead {
    places: [Place; MOST],
    len: usize,
}

impl Ahead {
    /// No key yet.
    #[must_use]
    pub fn new() -> Self {
        Ahead { places: [Place { hash: 0, shard: 0 }; MOST], len: 0 }
    }

    /// Adds a key of this cache, unless there are [enough](Ahead::is_full).
    #[inline]
    pub fn add(&mut self, cache: &Cache, key: Key<'_>) {
        if !self.is_full() {
            self.places[self.len] = cache.place(&key);
            self.len += 1;
        }
    }

    /// Whether there are as many keys as are looked after at once: 16.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == MOST
    }
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead::new()
    }
}

impl Cache {
    /// Asks for the memory that finding these keys will touch. Changes nothing, and does nothing for a single key, nor for
    /// one whose shard is locked at the moment.
    ///
    /// Cost: some 40 ns a key, which pays where entries are more than the processor's caches hold.
    pub fn fetch(&self, ahead: &Ahead) {
        let places = &ahead.places[..ahead.len];
        if places.len() < 2 {
            return;
        }
        let shards = self.shards();
        places.iter().for_each(|place| shards.foresee(place.shard));
        let unlocked =
            || places.iter().filter_map(|place| Some((shards.try_lock_beside(place.shard)?, place.hash)));
        unlocked().for_each(|(shard, hash)| shard.foresee(hash));
        unlocked().for_each(|(shard, hash)| shard.foresee_record(hash));
        unlocked().for_each(|(shard, hash)| {
            if let Some(record) = shard.candidate(hash) {
                record.key.foresee();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ttl;
    use crate::raw::Record;

    #[test]
    fn fetching_changes_nothing_and_waits_for_nobody() {
        let cache = Cache::builder().weight(1 << 20, |_, ()| 100).shards(4).build().expect("valid options");
        let names: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n]).collect();
        let keys = || names.iter().map(|name| Key { space: 0, name });
        for key in keys().step_by(2) {
            cache.insert_with_ttl(Record::new(key, &[b"value"]), (), Ttl::At(1_000_000));
        }
        let before = cache.stats();
        let mut ahead = Ahead::new();
        keys().for_each(|key| ahead.add(&cache, key));
        assert!(ahead.is_full());
        cache.fetch(&ahead);
        cache.fetch(&Ahead::new());
        let locked = cache.lock_all(keys());
        cache.fetch(&ahead);
        drop(locked);
        assert_eq!(cache.stats(), before);
        cache.validate();
    }
}
