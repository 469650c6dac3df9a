//! Publish and subscribe: which connections receive the messages of a channel.
//!
//! One lock covers the table and the order of messages: all subscribers receive the messages of all publishers in the same
//! order. A message is in the mailbox of every subscriber before `publish` returns. The confirmations of a connection
//! go through its mailbox, too, so they are in order with the messages.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::clients::Client;
use crate::glob;

/// Bytes that a subscription needs beside its name, about.
const SUBSCRIPTION_OVERHEAD_BYTES: usize = 200;
/// Bytes of a message beside its texts, at most.
const FRAME_BYTES: usize = 100;

/// What a connection subscribes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    /// A channel of a shard in a cluster. Here it is a channel with a name space of its own.
    Shard,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

    /// The confirmation of a subscription, and of its end.
    fn confirmations(self) -> (&'static str, &'static str) {
        match self {
            Kind::Channel => ("subscribe", "unsubscribe"),
            Kind::Pattern => ("psubscribe", "punsubscribe"),
            Kind::Shard => ("ssubscribe", "sunsubscribe"),
        }
    }
}

/// The subscribers of one name, by the address of their state.
type Subscribers = BTreeMap<usize, Arc<Client>>;

/// Who subscribes to what.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    by_name: Mutex<[HashMap<Box<[u8]>, Subscribers>; 3]>,
    /// The number of names with subscribers.
    names: AtomicUsize,
}

impl Channels {
    /// Sends a message to all subscribers; returns their number.
    pub(crate) fn publish(&self, kind: Kind, channel: &[u8], message: &[u8]) -> usize {
        if self.names.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let by_name = self.by_name.lock();
        let label = if kind == Kind::Shard { "smessage" } else { "message" };
        let direct = by_name[kind as usize].get(channel).into_iter().flat_map(BTreeMap::values);
        let mut receivers = 0;
        for client in direct {
            send(client, &[label.as_bytes(), channel, message]);
            receivers += 1;
        }
        if kind == Kind::Shard {
            return receivers;
        }
        for (pattern, subscribers) in &by_name[Kind::Pattern as usize] {
            if glob::matches(pattern, channel) {
                subscribers
                    .values()
                    .for_each(|client| send(client, &[b"pmessage", pattern, channel, message]));
                receivers += subscribers.len();
            }
        }
        receivers
    }

    /// The number of those who would receive a message now.
    pub(crate) fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        let by_name = self.by_name.lock();
        let direct = by_name[kind as usize].get(channel).map_or(0, BTreeMap::len);
        let matching = by_name[Kind::Pattern as usize]
            .iter()
            .filter(|(pattern, _)| kind == Kind::Channel && glob::matches(pattern, channel))
            .map(|(_, subscribers)| subscribers.len());
        direct + matching.sum::<usize>()
    }

    /// The names of this kind that match a pattern and have subscribers.
    pub(crate) fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let by_name = self.by_name.lock();
        let is_requested = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        by_name[kind as usize].keys().filter(|name| is_requested(name)).cloned().collect()
    }

    /// The number of subscribers of a name.
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.by_name.lock()[kind as usize].get(name).map_or(0, BTreeMap::len)
    }

    /// The number of channels, of patterns, and of channels of shards that have subscribers.
    pub(crate) fn counts(&self) -> [usize; 3] {
        self.by_name.lock().each_ref().map(HashMap::len)
    }
}

fn send(client: &Arc<Client>, parts: &[&[u8]]) {
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>() + FRAME_BYTES;
    client.post(bytes, |message| {
        message.push(parts.len());
        parts.iter().for_each(|part| message.bulk(part));
    });
}

/// The subscriptions of one connection. Dropping this ends them.
pub(crate) struct Subscriptions {
    channels: Arc<Channels>,
    client: Arc<Client>,
    names: [HashSet<Box<[u8]>>; 3],
    name_bytes: usize,
}

impl Subscriptions {
    pub(crate) fn new(channels: Arc<Channels>, client: Arc<Client>) -> Self {
        Subscriptions { channels, client, names: Default::default(), name_bytes: 0 }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(HashSet::is_empty)
    }

    /// Subscribes and confirms it. Later messages follow the confirmation.
    pub(crate) fn subscribe(&mut self, kind: Kind, name: &[u8]) {
        let channels = Arc::clone(&self.channels);
        let mut by_name = channels.by_name.lock();
        if self.names[kind as usize].insert(name.into()) {
            self.name_bytes += 2 * name.len();
            let subscribers = by_name[kind as usize].entry(name.into()).or_default();
            if subscribers.is_empty() {
                channels.names.fetch_add(1, Ordering::SeqCst);
            }
            subscribers.insert(self.id(), Arc::clone(&self.client));
        }
        self.confirm(kind, kind.confirmations().0, Some(name));
    }

    /// Unsubscribes and confirms it. No message follows the confirmation.
    pub(crate) fn unsubscribe(&mut self, kind: Kind, name: &[u8]) {
        let channels = Arc::clone(&self.channels);
        let mut by_name = channels.by_name.lock();
        self.remove(&mut by_name, kind, name);
        self.confirm(kind, kind.confirmations().1, Some(name));
    }

    /// Ends all subscriptions of one kind. Confirms each of them, or that there are none.
    pub(crate) fn unsubscribe_all(&mut self, kind: Kind) {
        let names: Vec<Box<[u8]>> = self.names[kind as usize].iter().cloned().collect();
        if names.is_empty() {
            self.confirm(kind, kind.confirmations().1, None);
        }
        names.iter().for_each(|name| self.unsubscribe(kind, name));
    }

    fn remove(&mut self, by_name: &mut [HashMap<Box<[u8]>, Subscribers>; 3], kind: Kind, name: &[u8]) {
        if !self.names[kind as usize].remove(name) {
            return;
        }
        self.name_bytes -= 2 * name.len();
        let by_name = &mut by_name[kind as usize];
        if let Some(subscribers) = by_name.get_mut(name) {
            subscribers.remove(&self.id());
            if subscribers.is_empty() {
                by_name.remove(name);
                self.channels.names.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn confirm(&self, kind: Kind, label: &str, name: Option<&[u8]>) {
        self.client.set_subscriptions(self.names.each_ref().map(HashSet::len));
        let count = match kind {
            Kind::Shard => self.names[Kind::Shard as usize].len(),
            _ => self.names[Kind::Channel as usize].len() + self.names[Kind::Pattern as usize].len(),
        };
        self.client.post(label.len() + name.map_or(0, <[u8]>::len) + FRAME_BYTES, |message| {
            message.push(3);
            message.bulk(label.as_bytes());
            match name {
                Some(name) => message.bulk(name),
                None => message.null(),
            }
            message.integer(count as i64);
        });
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.client) as usize
    }

    /// The memory that they need, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let count: usize = self.names.iter().map(HashSet::len).sum();
        self.name_bytes + count * SUBSCRIPTION_OVERHEAD_BYTES
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let channels = Arc::clone(&self.channels);
        let mut by_name = channels.by_name.lock();
        for kind in Kind::ALL {
            let names: Vec<Box<[u8]>> = self.names[kind as usize].iter().cloned().collect();
            names.iter().for_each(|name| self.remove(&mut by_name, kind, name));
        }
        self.client.set_subscriptions([0; 3]);
    }
}
