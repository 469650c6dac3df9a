//! `CLIENT TRACKING`: connections that are told when a key changes that their client may have cached.
//!
//! By default a connection is registered for each key that it reads, and for one change of it. With `BCAST` it is
//! registered for all keys with certain prefixes. Keys of all databases with the same name count as one, as in Redis.
//!
//! A read and its registration happen under the lock of the key, and so do a write and its message. The table is
//! divided into stripes with a lock each, which is acquired after that of the key; messages are posted while it is held.
//! If the table is full, another key is removed from it, and its clients are told to forget that key.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use larder_resp::{Encoder, Protocol};
use parking_lot::{Mutex, MutexGuard};

use crate::client::Client;
use crate::client::{FRAME_BYTES, Invalidations, write_all, write_keys};

/// The parts of the table. More threads than these rarely register at the same moment.
const STRIPES: usize = 16;
/// The highest number of keys in the table, unless changed: as in Redis.
const DEFAULT_MAX_KEYS: usize = 1_000_000;
/// The table holds at most so many times the highest number of keys in bytes of names.
const MAX_MEAN_NAME_BYTES: usize = 256;
/// A connection that tracks keys. It stays in the table after its end, until the keys change.
#[derive(Debug)]
pub(crate) struct Tracker {
    client: Arc<Client>,
    is_on: AtomicBool,
    is_broadcast: bool,
    options: Mutex<TrackerOptions>,
    /// Changes by the connection itself. The messages about them follow the reply to the command that caused them.
    own: Mutex<OwnChanges>,
}

/// What has changed.
#[derive(Debug, Clone, Copy)]
enum Changed<'a> {
    /// A key that the connection has read.
    Key(&'a [u8]),
    /// A key with a prefix that the connection tracks.
    WithPrefix(&'a [u8], &'a [u8]),
    /// All keys, perhaps.
    All,
}

#[derive(Debug, Default)]
struct OwnChanges {
    /// Keys that it has read, and `None` for all keys.
    keys: Vec<Option<Box<[u8]>>>,
    /// Reported after the others, as in Redis.
    with_prefix: Invalidations,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct TrackerOptions {
    /// The connection that gets the messages instead.
    pub(crate) redirect: Option<Arc<Client>>,
    /// Whether changes by the connection itself are not reported.
    pub(crate) no_loop: bool,
    /// Whether the other connection is closed.
    pub(crate) is_broken: bool,
}

impl Tracker {
    pub(crate) fn new(client: Arc<Client>, is_broadcast: bool, options: TrackerOptions) -> Arc<Self> {
        Arc::new(Tracker {
            client,
            is_on: AtomicBool::new(true),
            is_broadcast,
            options: Mutex::new(options),
            own: Mutex::default(),
        })
    }

    pub(crate) fn options(&self) -> TrackerOptions {
        self.options.lock().clone()
    }

    pub(crate) fn set_options(&self, options: TrackerOptions) {
        *self.options.lock() = options;
    }

    /// Reports a change. `writer` is the address of the connection that makes it.
    fn invalidate(&self, changed: Changed<'_>, writer: usize) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let options = self.options();
        let is_own = writer == address(&self.client);
        if is_own && options.no_loop && !matches!(changed, Changed::All) {
            return;
        }
        let Some(target) = options.redirect else {
            return match is_own {
                true => self.own.lock().add(changed),
                false => post(&self.client, changed, false),
            };
        };
        if target.is_open() {
            return post(&target, changed, target.is_subscriber());
        }
        self.options.lock().is_broken = true;
        let id = target.id;
        self.client.post(FRAME_BYTES, |message| {
            if message.protocol() == Protocol::Resp3 {
                message.push(2);
                message.bulk(b"tracking-redir-broken");
                message.integer(id as i64);
            }
        });
    }

    /// Writes the messages about own changes.
    pub(crate) fn write_own(&self, out: &mut Encoder<'_>) {
        let OwnChanges { keys, mut with_prefix } = std::mem::take(&mut *self.own.lock());
        keys.iter().for_each(|name| match name {
            Some(name) => write_keys(out, 1, std::iter::once(&**name), false),
            None => write_all(out, false),
        });
        with_prefix.write(out, false);
    }
}

impl OwnChanges {
    fn add(&mut self, changed: Changed<'_>) {
        match changed {
            Changed::Key(name) => self.keys.push(Some(name.into())),
            Changed::WithPrefix(prefix, name) => self.with_prefix.add(prefix, name),
            Changed::All => self.keys.push(None),
        }
    }
}

fn post(client: &Arc<Client>, changed: Changed<'_>, is_for_channel: bool) {
    match changed {
        Changed::Key(name) => client.post(name.len() + FRAME_BYTES, |message| {
            write_keys(message, 1, std::iter::once(name), is_for_channel);
        }),
        Changed::WithPrefix(prefix, name) => client.post_invalidation(prefix, name, is_for_channel),
        Changed::All => client.post(FRAME_BYTES, |message| write_all(message, is_for_channel)),
    }
}

fn address(client: &Arc<Client>) -> usize {
    Arc::as_ptr(client) as usize
}

/// The trackers of a key, by ascending address.
type Trackers = Vec<Arc<Tracker>>;
type Stripe = BTreeMap<Box<[u8]>, Trackers>;
type Prefixes = BTreeMap<Box<[u8]>, Trackers>;

/// Who tracks which keys.
#[derive(Debug)]
pub(crate) struct TrackingTable {
    hasher: RandomState,
    stripes: [Mutex<Stripe>; STRIPES],
    prefixes: Mutex<Prefixes>,
    /// All trackers that are on.
    trackers: Mutex<Trackers>,
    keys: AtomicUsize,
    /// The number of registrations for keys.
    items: AtomicUsize,
    name_bytes: AtomicUsize,
    max_keys: AtomicUsize,
}

impl Default for TrackingTable {
    fn default() -> Self {
        TrackingTable {
            hasher: RandomState::new(),
            stripes: Default::default(),
            prefixes: Mutex::default(),
            trackers: Mutex::default(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            name_bytes: AtomicUsize::new(0),
            max_keys: AtomicUsize::new(DEFAULT_MAX_KEYS),
        }
    }
}

impl TrackingTable {
    /// Adds a connection that tracks keys.
    pub(crate) fn add(&self, tracker: &Arc<Tracker>) {
        insert(&mut self.trackers.lock(), tracker);
    }

    /// Ends the tracking of a connection, which is registered for these prefixes. Its keys in the table have no effect any
    /// more.
    pub(crate) fn remove(&self, tracker: &Arc<Tracker>, prefixes: &BTreeSet<Box<[u8]>>) {
        tracker.is_on.store(false, Ordering::Relaxed);
        remove(&mut self.trackers.lock(), tracker);
        for prefix in prefixes {
            let mut prefixes = self.prefixes.lock();
            let trackers = prefixes.get_mut(prefix);
            if trackers.is_some_and(|trackers| {
                remove(trackers, tracker);
                trackers.is_empty()
            }) {
                prefixes.remove(prefix);
            }
        }
        self.free_if_unused();
    }

    /// Frees the table when nobody tracks keys any more: changes are not reported to it until somebody does.
    fn free_if_unused(&self) {
        let mut stripes = self.stripes.each_ref().map(Mutex::lock);
        // Whoever begins to track now registers keys after this.
        if self.trackers.lock().is_empty() {
            self.clear(&mut stripes);
        }
    }

    fn clear(&self, stripes: &mut [MutexGuard<'_, Stripe>; STRIPES]) {
        stripes.iter_mut().for_each(|keys| keys.clear());
        self.keys.store(0, Ordering::Relaxed);
        self.items.store(0, Ordering::Relaxed);
        self.name_bytes.store(0, Ordering::Relaxed);
    }

    /// Registers a connection for all keys with a prefix.
    pub(crate) fn add_prefix(&self, prefix: &[u8], tracker: &Arc<Tracker>) {
        insert(self.prefixes.lock().entry(prefix.into()).or_default(), tracker);
    }

    /// Registers a connection for the next change of a key. The key is locked.
    pub(crate) fn register(&self, name: &[u8], tracker: &Arc<Tracker>) {
        let stripe = self.stripe(name);
        {
            let mut keys = self.stripes[stripe].lock();
            if let Some(trackers) = keys.get_mut(name) {
                let before = trackers.len();
                // A key that is read and never written would collect all connections that there ever were.
                if before == trackers.capacity() {
                    trackers.retain(|tracker| tracker.is_on.load(Ordering::Relaxed));
                }
                insert(trackers, tracker);
                self.items.fetch_add(trackers.len(), Ordering::Relaxed);
                self.items.fetch_sub(before, Ordering::Relaxed);
                return;
            }
            self.items.fetch_add(1, Ordering::Relaxed);
            keys.insert(name.into(), vec![Arc::clone(tracker)]);
            self.keys.fetch_add(1, Ordering::Relaxed);
            self.name_bytes.fetch_add(name.len(), Ordering::Relaxed);
        }
        let mut others = (stripe..STRIPES).chain(0..stripe);
        while self.is_too_large() {
            let Some(stripe) = others.next() else { break };
            while self.is_too_large() && self.forget_one(stripe, name) {}
        }
    }

    fn is_too_large(&self) -> bool {
        let max_keys = self.max_keys.load(Ordering::Relaxed);
        let name_bytes = self.name_bytes.load(Ordering::Relaxed);
        max_keys > 0
            && (self.keys.load(Ordering::Relaxed) > max_keys
                || name_bytes > max_keys.saturating_mul(MAX_MEAN_NAME_BYTES))
    }

    /// Removes the key after `name` from a stripe, and tells its clients. Returns whether there was one.
    fn forget_one(&self, stripe: usize, name: &[u8]) -> bool {
        let mut keys = self.stripes[stripe].lock();
        let after = (Bound::Excluded(name), Bound::Unbounded);
        let next = keys.range::<[u8], _>(after).next().or_else(|| keys.first_key_value());
        let Some(next) = next.map(|(next, _)| next.clone()) else { return false };
        self.invalidate_in(&mut keys, &next, 0);
        true
    }

    /// A key changes: tells all who are registered for it, and for its prefixes. The key is locked, if that is possible.
    pub(super) fn invalidate(&self, name: &[u8], writer: usize) {
        self.invalidate_key(name, writer);
        for_each_prefix_of(name, &self.prefixes.lock(), |prefix, trackers| {
            let changed = Changed::WithPrefix(prefix, name);
            trackers.iter().for_each(|tracker| tracker.invalidate(changed, writer));
        });
    }

    /// As [`invalidate`](Self::invalidate), without those who are registered for prefixes.
    pub(super) fn invalidate_key(&self, name: &[u8], writer: usize) {
        self.invalidate_in(&mut self.stripes[self.stripe(name)].lock(), name, writer);
    }

    fn invalidate_in(&self, keys: &mut MutexGuard<'_, Stripe>, name: &[u8], writer: usize) {
        if let Some(trackers) = keys.remove(name) {
            self.keys.fetch_sub(1, Ordering::Relaxed);
            self.items.fetch_sub(trackers.len(), Ordering::Relaxed);
            self.name_bytes.fetch_sub(name.len(), Ordering::Relaxed);
            trackers.iter().for_each(|tracker| tracker.invalidate(Changed::Key(name), writer));
        }
    }

    /// All keys may change: empties the table and tells its trackers.
    pub(super) fn invalidate_all_keys(&self, writer: usize) {
        // Nobody is registered, and no key is reported, between the two steps.
        let mut stripes = self.stripes.each_ref().map(Mutex::lock);
        self.clear(&mut stripes);
        self.tell_all(false, writer);
    }

    /// All keys have changed: tells those who are registered for prefixes.
    pub(super) fn invalidate_all_prefixes(&self, writer: usize) {
        self.tell_all(true, writer);
    }

    fn tell_all(&self, is_broadcast: bool, writer: usize) {
        let trackers = self.trackers.lock();
        let chosen = trackers.iter().filter(|tracker| tracker.is_broadcast == is_broadcast);
        chosen.for_each(|tracker| tracker.invalidate(Changed::All, writer));
    }

    fn stripe(&self, name: &[u8]) -> usize {
        self.hasher.hash_one(name) as usize % STRIPES
    }

    /// Whether a connection tracks keys.
    pub(super) fn is_used(&self) -> bool {
        self.clients() > 0
    }

    /// The number of connections that track keys.
    pub(crate) fn clients(&self) -> usize {
        self.trackers.lock().len()
    }

    /// The number of keys, of registrations for them, and of prefixes.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let [keys, items] = [&self.keys, &self.items].map(|count| count.load(Ordering::Relaxed));
        [keys, items, self.prefixes.lock().len()]
    }

    pub(crate) fn max_keys(&self) -> usize {
        self.max_keys.load(Ordering::Relaxed)
    }

    /// Sets the highest number of keys; 0 is no limit.
    pub(crate) fn set_max_keys(&self, max_keys: usize) {
        self.max_keys.store(max_keys, Ordering::Relaxed);
    }
}

/// Inserts a tracker, unless it is there.
fn insert(trackers: &mut Trackers, tracker: &Arc<Tracker>) {
    if let Err(position) = trackers.binary_search_by_key(&Arc::as_ptr(tracker), Arc::as_ptr) {
        trackers.insert(position, Arc::clone(tracker));
    }
}

/// Removes a tracker, if it is there.
fn remove(trackers: &mut Trackers, tracker: &Arc<Tracker>) {
    if let Ok(position) = trackers.binary_search_by_key(&Arc::as_ptr(tracker), Arc::as_ptr) {
        trackers.remove(position);
    }
}

/// Calls `f` with each prefix with which a name begins and its trackers, the longest first. Cost: one lookup for each, and
/// for each neighbour of one that has a part of the name.
fn for_each_prefix_of(name: &[u8], prefixes: &Prefixes, mut f: impl FnMut(&[u8], &Trackers)) {
    let mut longest = name;
    while let Some((prefix, trackers)) =
        prefixes.range::<[u8], _>((Bound::Unbounded, Bound::Included(longest))).next_back()
    {
        // A longer prefix of the name would be between the two.
        let common = prefix.iter().zip(longest).take_while(|(one, other)| one == other).count();
        if common < prefix.len() {
            longest = &name[..common];
            continue;
        }
        f(prefix, trackers);
        let Some(shorter) = common.checked_sub(1) else { return };
        longest = &name[..shorter];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_a_name_are_found_among_all() {
        let texts = ["", "a", "ab", "abc", "abd", "b", "ba", "aa", "abcde", "abcd\u{7f}", "c"];
        for selection in 0u32..1 << texts.len() {
            let chosen: Vec<&str> = (0..texts.len())
                .filter(|index| selection >> index & 1 == 1)
                .map(|index| texts[index])
                .collect();
            let prefixes: Prefixes =
                chosen.iter().map(|text| (text.as_bytes().into(), Trackers::new())).collect();
            for name in ["", "a", "abc", "abcd", "abcdef", "b", "bb", "cc"] {
                let expected = chosen.iter().filter(|prefix| name.starts_with(**prefix)).count();
                let mut found = 0;
                for_each_prefix_of(name.as_bytes(), &prefixes, |_, _| found += 1);
                assert_eq!(found, expected, "{name} in {chosen:?}");
            }
        }
    }
}
