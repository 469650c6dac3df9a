//! The simulated server: keys, ledgers, subscribers, snapshots. A command takes no time and never fails; delays and
//! losses are those of the network before it (`network.rs`).

use crate::forgery::Forgery;
use larder::tier::{
    CasAction, CompareAndSet, DEADLINE_AT, Expiry, HEAD_BYTES, Head, KeyContent, LedgerAdvance,
    LedgerAdvanced, LedgerQuery, Marker, Operation, OperationResult, Pulse, ServerId, Stamps,
    SubscribeOptions, UNKNOWN_ADVANCES, time_member,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A message to the subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// An announcement on the channel.
    Announced(Vec<u8>),
    /// A key was written.
    Written(Vec<u8>),
}

#[derive(Clone, Debug, Default)]
struct Data {
    keys: BTreeMap<Vec<u8>, Value>,
    markers: BTreeMap<Vec<u8>, u64>,
    ledgers: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, u64>>,
}

#[derive(Clone, Debug)]
struct Value {
    bytes: Vec<u8>,
    /// By the clock of the server, in microseconds. If that goes back, the value stays longer.
    expires: u64,
}

/// One server at one address; a restart makes it another.
#[derive(Debug)]
pub(crate) struct Server {
    start: Instant,
    /// How far the clock has gone back.
    back: Duration,
    run: u64,
    ledgers_made: u64,
    data: Data,
    snapshot: Data,
    /// Messages that were not sent to the subscribers yet.
    messages: Vec<Message>,
    pub(crate) forgery: Forgery,
}

/// The wall clock of the server at the start of each history, in microseconds.
const EPOCH_MICROS: u64 = 1_700_000_000_000_000;

impl Server {
    pub(crate) fn new(forgery: Forgery) -> Self {
        Server {
            start: Instant::now(),
            back: Duration::ZERO,
            run: 1,
            ledgers_made: 0,
            data: Data::default(),
            snapshot: Data::default(),
            messages: Vec::new(),
            forgery,
        }
    }

    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    pub(crate) fn id(&self) -> ServerId {
        ServerId(format!("run-{}", self.run))
    }

    pub(crate) fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    pub(crate) fn micros(&self) -> u64 {
        EPOCH_MICROS + self.start.elapsed().as_micros() as u64 - self.back.as_micros() as u64
    }

    fn live(&mut self, key: &[u8]) -> Option<&Value> {
        if self.data.keys.get(key).is_some_and(|stored| stored.expires <= self.micros()) {
            self.data.keys.remove(key);
        }
        self.data.keys.get(key)
    }

    pub(crate) fn put(&mut self, key: &[u8], bytes: Vec<u8>, expiry: Expiry) {
        let expires = self.expires(expiry);
        self.data.keys.insert(key.to_vec(), Value { bytes, expires });
        self.messages.push(Message::Written(key.to_vec()));
    }

    fn expires(&self, expiry: Expiry) -> u64 {
        match expiry {
            // PX counts whole milliseconds, and at least one.
            Expiry::After(ttl) => self.micros() + (ttl.as_millis() as u64).max(1) * 1_000,
            Expiry::At(deadline_ms) => deadline_ms * 1_000,
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.live(key)?;
        let stored = self.data.keys.remove(key)?;
        self.messages.push(Message::Written(key.to_vec()));
        Some(stored.bytes)
    }

    pub(crate) fn lookup(&mut self, key: &[u8], lease: Option<(&Head, Duration)>) -> KeyContent {
        if let Some(stored) = self.live(key) {
            return KeyContent::Bytes(stored.bytes.clone());
        }
        match lease {
            Some((lease, ttl)) => {
                self.put(key, lease.to_vec(), Expiry::After(ttl));
                KeyContent::LeaseGranted
            }
            None => KeyContent::Absent,
        }
    }

    pub(crate) fn head(&mut self, key: &[u8]) -> Vec<u8> {
        self.live(key).map_or_else(Vec::new, |stored| head_of(&stored.bytes))
    }

    pub(crate) fn compare_and_set(&mut self, cas: &CompareAndSet) -> bool {
        if self.head(&cas.key) != cas.expected && self.forgery != Forgery::CommitsUnconditionally {
            return false;
        }
        match &cas.action {
            CasAction::Put(bytes, expiry) => self.put(&cas.key, bytes.clone(), *expiry),
            CasAction::Touch(ttl) => {
                if let Some(Value { bytes, .. }) = self.live(&cas.key) {
                    let bytes = bytes.clone();
                    self.put(&cas.key, bytes, Expiry::After(*ttl));
                }
            }
            CasAction::Renew(deadline_ms) => {
                if let Some(Value { bytes, .. }) = self.live(&cas.key) {
                    let mut bytes = bytes.clone();
                    // A server that compares nothing may find a lease, which has no deadline.
                    if let Some(deadline) = bytes.get_mut(DEADLINE_AT..DEADLINE_AT + 8) {
                        deadline.copy_from_slice(&deadline_ms.to_le_bytes());
                    }
                    self.put(&cas.key, bytes, Expiry::At(*deadline_ms));
                }
            }
            CasAction::Remove => _ = self.remove(&cas.key),
            CasAction::Release(ttl) => {
                let lease = self.live(&cas.key).map(|stored| stored.bytes.clone()).unwrap_or_default();
                match lease.get(HEAD_BYTES..) {
                    Some(successor) if !successor.is_empty() => {
                        self.put(&cas.key, successor.to_vec(), Expiry::After(*ttl));
                    }
                    _ => _ = self.remove(&cas.key),
                }
            }
        }
        true
    }

    pub(crate) fn apply(&mut self, operation: &Operation) -> OperationResult {
        match operation {
            Operation::Remove(key) => OperationResult::Removed(self.remove(key).map(|bytes| head_of(&bytes))),
            Operation::Take(key) => {
                let found = self.lookup(key, None);
                self.remove(key);
                OperationResult::Taken(found)
            }
            Operation::Put(key, bytes, expiry) => {
                self.put(key, bytes.clone(), *expiry);
                OperationResult::Stored
            }
        }
    }

    pub(crate) fn publish(&mut self, message: Vec<u8>) {
        if self.forgery != Forgery::AnnouncesNothing {
            self.messages.push(Message::Announced(message));
        }
    }

    pub(crate) fn pulse(
        &mut self,
        options: &SubscribeOptions,
        server: &ServerId,
        marker: Marker<'_>,
    ) -> Pulse {
        let read = match marker {
            Marker::Ignore => None,
            Marker::Read(former) => self.data.markers.get(&options.marker_of(former)).copied(),
            Marker::Store(time) => {
                self.data.markers.insert(options.marker_of(server), time);
                None
            }
        };
        let ledger = self.data.ledgers.get(&options.ledger);
        let clock = ledger.and_then(|ledger| ledger.get(&b"clock"[..]).copied());
        let hides_clock = self.forgery == Forgery::LedgerStartsAtOne;
        let ledger_clock = clock.filter(|_| !hides_clock);
        Pulse { doubt: None, time: Some(self.micros().into()), marker: read, ledger_clock }
    }

    /// Two ledgers whose makers know the same do not start at the same clock.
    fn margin(&mut self) -> u64 {
        self.ledgers_made += 1;
        UNKNOWN_ADVANCES + self.ledgers_made.wrapping_mul(0x9E37_79B9_7F4A_7C15) % UNKNOWN_ADVANCES
    }

    /// The ledger under a key; a new one if there is none.
    fn ledger(&mut self, key: &[u8], at_least: u64) -> &mut BTreeMap<Vec<u8>, u64> {
        let now = if self.forgery == Forgery::LedgerStartsAtOne {
            1
        } else {
            self.micros().max(at_least + self.margin())
        };
        self.data
            .ledgers
            .entry(key.to_vec())
            .or_insert_with(|| [(b"clock".to_vec(), now), (b"floor".to_vec(), now)].into())
    }

    pub(crate) fn stamps(&mut self, ask: &LedgerQuery<'_>) -> Stamps {
        let later = if self.forgery == Forgery::ClockOfTheEnd { 1_000 } else { 0 };
        let ledger = self.ledger(ask.key, ask.at_least);
        let score = |member: &[u8]| ledger.get(member).copied();
        Stamps {
            clock: score(b"clock").unwrap_or_default() + later,
            floor: score(b"floor").unwrap_or_default(),
            tag_floor: score(b"tags").unwrap_or_default(),
            members: ask.members.iter().map(|member| score(member)).collect(),
        }
    }

    pub(crate) fn advance_ledger(&mut self, advance: &LedgerAdvance<'_>) -> LedgerAdvanced {
        let forgets = self.forgery == Forgery::StampsNothing;
        let (beyond, at_least) = (advance.at_least + self.margin(), advance.at_least);
        let made_ms = self.micros() / 1_000;
        let ledger = self.ledger(advance.key, at_least);
        let former = ledger[&b"clock"[..]];
        let other = advance.floor_message.filter(|_| former < at_least);
        let is_other = other.is_some();
        let clock = former.max(if is_other { beyond } else { at_least }) + 1;
        ledger.insert(b"clock".to_vec(), clock);
        let floor = (advance.floor || is_other).then(|| b"floor".to_vec());
        for member in advance.members.iter().cloned().chain(floor).filter(|_| !forgets) {
            if let Some(time) = time_member(&member) {
                ledger.insert(time, made_ms);
            }
            let score = ledger.entry(member).or_insert(clock);
            *score = clock.max(*score);
        }
        for message in other.into_iter().chain([&advance.announce.message[..]]) {
            self.publish([message, clock.to_string().as_bytes()].concat());
        }
        LedgerAdvanced { clock, is_other }
    }

    pub(crate) fn increment(&mut self, key: &[u8], by: i64, ttl: Duration) -> Option<i64> {
        let (before, expires) = match self.live(key) {
            Some(stored) => (std::str::from_utf8(&stored.bytes).ok()?.parse().ok()?, stored.expires),
            None => (0, self.expires(Expiry::After(ttl))),
        };
        let sum = by.checked_add(before)?;
        self.data.keys.insert(key.to_vec(), Value { bytes: sum.to_string().into_bytes(), expires });
        Some(sum)
    }

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.data.keys.keys().cloned().collect()
    }

    /// Removes a key to make room. Only nodes with tracking get a message.
    pub(crate) fn evict(&mut self, number: u64) -> Option<Vec<u8>> {
        let (keys, ledgers) = (self.data.keys.len() as u64, self.data.ledgers.len() as u64);
        let at = number % (keys + ledgers).max(1);
        let key = if at < keys {
            self.data.keys.keys().nth(at as usize)?.clone()
        } else {
            self.data.ledgers.keys().nth((at - keys) as usize)?.clone()
        };
        self.data.keys.remove(&key);
        self.data.ledgers.remove(&key);
        self.messages.push(Message::Written(key.clone()));
        Some(key)
    }

    /// Whether a new ledger may start before the end of one that was lost.
    pub(crate) fn clock_went_back(&self) -> bool {
        !self.back.is_zero()
    }

    pub(crate) fn lose_ledger(&mut self, clock_goes_back: Duration) {
        self.turn_clock_back(clock_goes_back);
        self.data.ledgers.clear();
    }

    /// Keys with a time to live stay longer by as much.
    pub(crate) fn turn_clock_back(&mut self, by: Duration) {
        self.back += by;
    }

    pub(crate) fn take_snapshot(&mut self) {
        self.snapshot = self.data.clone();
    }

    /// Restarts at the same address: empty, or with the content of the last snapshot.
    pub(crate) fn restart(&mut self, from_snapshot: bool) {
        self.run += 1;
        self.data = if from_snapshot { self.snapshot.clone() } else { Data::default() };
        self.snapshot = self.data.clone();
        self.messages.clear();
    }
}

fn head_of(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(HEAD_BYTES)].to_vec()
}
