//! Publish and subscribe: which connections receive the messages of a channel.
//!
//! One lock covers the table and the order of messages: all subscribers receive the messages of all publishers in the same
//! order. A message is in the mailbox of every subscriber before `publish` returns. The confirmations of a connection
//! go through its mailbox, too, so they are in order with the messages.
//!
//! A channel is compared with the patterns before the lock is acquired. Under the lock only those are compared that were
//! subscribed to meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_glob::Pattern;
use parking_lot::{Mutex, MutexGuard};

use crate::client::Client;

/// Bytes that a subscription needs beside its name and its compiled pattern, about.
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

/// The subscribers of one name.
#[derive(Debug, Default)]
struct Subscribers {
    /// By the address of their state.
    clients: BTreeMap<usize, Arc<Client>>,
    /// The name, if it is a pattern.
    pattern: Option<Arc<SubscribedPattern>>,
}

/// A pattern with subscribers.
#[derive(Debug)]
struct SubscribedPattern {
    /// Patterns are numbered in the order in which they get their first subscribers.
    number: u64,
    name: Arc<[u8]>,
    compiled: Pattern,
}

#[derive(Debug, Default)]
struct Table {
    by_name: [HashMap<Arc<[u8]>, Subscribers>; 3],
    /// By their numbers. Publishers read a snapshot of it.
    patterns: Arc<BTreeMap<u64, Arc<SubscribedPattern>>>,
    next_pattern: u64,
}

/// Who subscribes to what.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    table: Mutex<Table>,
    /// The number of names with subscribers.
    names: AtomicUsize,
}

impl Channels {
    /// Sends a message to all subscribers; returns their number.
    pub(crate) fn publish(&self, kind: Kind, channel: &[u8], message: &[u8]) -> usize {
        let label = if kind == Kind::Shard { &b"smessage"[..] } else { b"message" };
        self.for_each_receiver(kind, channel, |client, pattern| match pattern {
            None => send(client, &[label, channel, message]),
            Some(pattern) => send(client, &[b"pmessage", pattern, channel, message]),
        })
    }

    /// The number of those who would receive a message now.
    pub(crate) fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        self.for_each_receiver(kind, channel, |_, _| {})
    }

    /// Calls `f` for each subscription to a channel, with its pattern if it is to one; returns their number.
    fn for_each_receiver(
        &self,
        kind: Kind,
        channel: &[u8],
        f: impl Fn(&Arc<Client>, Option<&[u8]>),
    ) -> usize {
        if self.names.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let mut table = self.table.lock();
        let compared = match kind {
            Kind::Shard => Arc::default(),
            _ => Arc::clone(&table.patterns),
        };
        let mut matching = Vec::new();
        if !compared.is_empty() {
            MutexGuard::unlocked(&mut table, || {
                matching.extend(compared.values().filter(|pattern| pattern.compiled.matches(channel)));
            });
        }
        let mut receivers = 0;
        let mut call = |subscribers: &Subscribers, pattern: Option<&[u8]>| {
            subscribers.clients.values().for_each(|client| f(client, pattern));
            receivers += subscribers.clients.len();
        };
        if let Some(subscribers) = table.by_name[kind as usize].get(channel) {
            call(subscribers, None);
        }
        if kind == Kind::Shard {
            return receivers;
        }
        let is_later = |number: &u64| compared.last_key_value().is_none_or(|(last, _)| number > last);
        let later = table.patterns.iter().rev().take_while(|(number, _)| is_later(number));
        let later = later.map(|(_, pattern)| pattern).filter(|pattern| pattern.compiled.matches(channel));
        for pattern in matching.into_iter().chain(later) {
            // Its last subscriber may have left.
            if table.patterns.contains_key(&pattern.number) {
                call(&table.by_name[Kind::Pattern as usize][&pattern.name], Some(&pattern.name));
            }
        }
        receivers
    }

    /// The names of this kind that match a pattern and have subscribers.
    pub(crate) fn names(&self, kind: Kind, pattern: Option<&Pattern>) -> Vec<Arc<[u8]>> {
        let mut names: Vec<Arc<[u8]>> = self.table.lock().by_name[kind as usize].keys().cloned().collect();
        if let Some(pattern) = pattern {
            names.retain(|name| pattern.matches(name));
        }
        names
    }

    /// The number of subscribers of a name.
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.table.lock().by_name[kind as usize].get(name).map_or(0, |subscribers| subscribers.clients.len())
    }

    /// The subscribers of names for which a condition holds. It is asked under the lock of the table.
    pub(crate) fn subscribers_where(
        &self,
        condition: impl Fn(&Client, Kind, &[u8]) -> bool,
    ) -> Vec<Arc<Client>> {
        let table = self.table.lock();
        let mut found = Vec::new();
        for kind in Kind::ALL {
            for (name, subscribers) in &table.by_name[kind as usize] {
                found.extend(
                    subscribers.clients.values().filter(|client| condition(client, kind, name)).cloned(),
                );
            }
        }
        found
    }

    /// The number of channels, of patterns, and of channels of shards that have subscribers.
    pub(crate) fn counts(&self) -> [usize; 3] {
        self.table.lock().by_name.each_ref().map(HashMap::len)
    }
}

impl Table {
    /// The subscribers of a name, with the pattern if the name is a new one.
    fn subscribers(&mut self, kind: Kind, name: &Arc<[u8]>, compiled: Option<Pattern>) -> &mut Subscribers {
        let Table { by_name, patterns, next_pattern } = self;
        by_name[kind as usize].entry(Arc::clone(name)).or_insert_with(|| {
            let pattern = compiled.map(|compiled| {
                *next_pattern += 1;
                Arc::new(SubscribedPattern { number: *next_pattern, name: Arc::clone(name), compiled })
            });
            if let Some(pattern) = &pattern {
                Arc::make_mut(patterns).insert(pattern.number, Arc::clone(pattern));
            }
            Subscribers { clients: BTreeMap::new(), pattern }
        })
    }

    /// Removes a client from the subscribers of a name. Returns whether it was the last one.
    fn remove(&mut self, kind: Kind, name: &[u8], client: usize) -> bool {
        let Some(subscribers) = self.by_name[kind as usize].get_mut(name) else { return false };
        subscribers.clients.remove(&client);
        if !subscribers.clients.is_empty() {
            return false;
        }
        if let Some(pattern) = &subscribers.pattern {
            Arc::make_mut(&mut self.patterns).remove(&pattern.number);
        }
        self.by_name[kind as usize].remove(name);
        true
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
    /// Each name, and the memory for it, in bytes.
    names: [HashMap<Arc<[u8]>, usize>; 3],
    bytes: usize,
}

impl Subscriptions {
    pub(crate) fn new(channels: Arc<Channels>, client: Arc<Client>) -> Self {
        Subscriptions { channels, client, names: Default::default(), bytes: 0 }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(HashMap::is_empty)
    }

    /// Subscribes to a channel and confirms it. Later messages follow the confirmation.
    pub(crate) fn subscribe(&mut self, kind: Kind, name: &[u8]) {
        self.add(kind, name, None);
    }

    /// Subscribes to the channels that match a pattern.
    pub(crate) fn subscribe_to_pattern(&mut self, name: &[u8], compiled: Pattern) {
        self.add(Kind::Pattern, name, Some(compiled));
    }

    fn add(&mut self, kind: Kind, name: &[u8], compiled: Option<Pattern>) {
        let channels = Arc::clone(&self.channels);
        let mut table = channels.table.lock();
        if !self.names[kind as usize].contains_key(name) {
            let bytes =
                SUBSCRIPTION_OVERHEAD_BYTES + name.len() + compiled.as_ref().map_or(0, Pattern::bytes);
            self.bytes += bytes;
            let name: Arc<[u8]> = name.into();
            let subscribers = table.subscribers(kind, &name, compiled);
            if subscribers.clients.is_empty() {
                channels.names.fetch_add(1, Ordering::SeqCst);
            }
            subscribers.clients.insert(self.id(), Arc::clone(&self.client));
            self.names[kind as usize].insert(name, bytes);
        }
        self.confirm(kind, kind.confirmations().0, Some(name));
    }

    /// Unsubscribes and confirms it. No message follows the confirmation.
    pub(crate) fn unsubscribe(&mut self, kind: Kind, name: &[u8]) {
        let channels = Arc::clone(&self.channels);
        let mut table = channels.table.lock();
        self.remove(&mut table, kind, name);
        self.confirm(kind, kind.confirmations().1, Some(name));
    }

    /// Ends all subscriptions of one kind. Confirms each of them, or that there are none.
    pub(crate) fn unsubscribe_all(&mut self, kind: Kind) {
        let names: Vec<Arc<[u8]>> = self.names[kind as usize].keys().cloned().collect();
        if names.is_empty() {
            self.confirm(kind, kind.confirmations().1, None);
        }
        names.iter().for_each(|name| self.unsubscribe(kind, name));
    }

    fn remove(&mut self, table: &mut Table, kind: Kind, name: &[u8]) {
        let Some(bytes) = self.names[kind as usize].remove(name) else { return };
        self.bytes -= bytes;
        if table.remove(kind, name, self.id()) {
            self.channels.names.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn confirm(&self, kind: Kind, label: &str, name: Option<&[u8]>) {
        self.client.set_subscriptions(self.names.each_ref().map(HashMap::len));
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
        self.bytes
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let channels = Arc::clone(&self.channels);
        let mut table = channels.table.lock();
        for kind in Kind::ALL {
            let names: Vec<Arc<[u8]>> = self.names[kind as usize].keys().cloned().collect();
            names.iter().for_each(|name| self.remove(&mut table, kind, name));
        }
        self.client.set_subscriptions([0; 3]);
    }
}
