//! Looking into Redis with a lease, and storing under it: the only way by which a loaded value gets there.
//!
//! A key in Redis holds nothing, a lease, or a value. A load begins by putting its lease where nothing is; it stores by
//! comparing the first bytes under the key with what it saw, and any invalidation in between has changed those:
//!
//! ```text
//!             look                     commit: still lease A?           delete, write
//! (nothing) ───────► lease A (mine) ─────────────────────► value A ─────────────────► (nothing), value B
//!    ▲                   │ delete, write, expiry, eviction                                │
//!    └───────────────────┴──────────────────────────────── a commit of A is refused ◄─────┘
//! ```

use crate::cache::Inner;
use crate::coherence::ledger::{Judgement, members_of};
use crate::envelope::{Head, Id};
use crate::error::CacheError;
use crate::tier::memory::{Facts, MemoryTicket};
use crate::tier::{CasAction, CompareAndSet, HEAD_BYTES, KeyContent, LedgerQuery, Lookup};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep};
use xxhash_rust::xxh3::xxh3_64;

/// How long a lease lives if its load does not renew it. So long it is in the way after its node has died.
const LEASE_TTL: Duration = Duration::from_secs(10);
/// How often a load renews it: one that is lost does no harm, nor is a second.
const RENEWAL: Duration = Duration::from_secs(3);
/// The pauses between looks at somebody else's lease.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// Why Redis is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To load what is not there: with leases.
    Load,
    /// To change what is there: with the ledger's clock.
    Mutate,
    /// To read what is there.
    Read,
    /// To read what no ledger is about.
    Raw,
}

/// What a look at one key brought.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Nothing there.
    Absent,
    /// Nothing was there; the key is this load's to fill.
    Mine(Id),
    /// Somebody else is loading.
    Theirs(Id),
    /// Bytes, which may be a value.
    Bytes { bytes: Vec<u8>, remaining_ttl: Option<Duration> },
}

/// What a load may do with its value.
#[derive(Clone, Debug)]
pub(crate) enum Claim {
    /// Redis was not asked or did not answer: memory only, and to be compared later.
    None,
    /// Store under this id, if the key still begins with what was seen.
    Swap { expected: Vec<u8>, id: Id },
    /// Somebody else stores: memory only, if their lease or value is still there.
    Theirs(Id),
    /// The server compares nothing: store as long as this node has not changed the key.
    Plain(Id),
}

impl Claim {
    pub(crate) fn mine(id: Id) -> Self {
        Claim::Swap { expected: Head::Lease(id).to_bytes().to_vec(), id }
    }

    /// To replace what is there by a value with this id.
    pub(crate) fn replacing(bytes: &[u8], id: Id) -> Self {
        Claim::Swap { expected: bytes[..bytes.len().min(HEAD_BYTES)].to_vec(), id }
    }

    /// Whether this load's lease is what is there.
    pub(crate) fn is_lease(&self) -> bool {
        matches!(self, Claim::Swap { expected, .. } if matches!(Head::parse(expected), Ok(Head::Lease(_))))
    }

    /// What keeps the lease of this claim alive, if it is one.
    pub(crate) fn renewal(&self, key: &[u8]) -> Option<CompareAndSet> {
        match self {
            Claim::Swap { expected, .. } if self.is_lease() => Some(CompareAndSet {
                key: key.to_vec(),
                expected: expected.clone(),
                action: CasAction::Touch(LEASE_TTL),
            }),
            _ => None,
        }
    }

    /// The id under which the value will be known.
    pub(crate) fn id(&self) -> Option<Id> {
        match self {
            Claim::None => None,
            Claim::Swap { id, .. } | Claim::Theirs(id) | Claim::Plain(id) => Some(*id),
        }
    }
}

/// What became of a value in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It, or one as good, is there.
    Yes,
    /// Something changed the key meanwhile: the value must not be kept anywhere.
    Refused,
    /// Nobody knows, or Redis cannot store: memory may have it until it can be compared.
    Unknown,
}

impl Inner {
    /// Looks at keys, with leases if values are to be loaded. Returns what was seen and the ledger's clock.
    pub(crate) async fn see(
        &self,
        keys: &[Vec<u8>],
        purpose: Purpose,
    ) -> Result<(Vec<Seen>, u64), CacheError> {
        let Some(shared) = &self.shared else { return Err(CacheError::Resting) };
        let (era, gaps) = (self.journal.era(), self.ledger.gaps());
        if keys.iter().any(|key| self.journal.blocks(key)) {
            return Err(CacheError::Resting);
        }
        let members = Self::plain_members();
        let asks = !self.trust.is_alone() && self.needs_ledger(purpose);
        let ledger = || asks.then_some(LedgerQuery { key: &self.names.ledger, members: &members });
        let with_leases = purpose == Purpose::Load && !self.trust.is_alone();
        let ids: Vec<Id> = keys.iter().filter(|_| with_leases).map(|_| self.random.id()).collect();
        let heads: Vec<_> = ids.iter().map(|id| Head::Lease(*id).to_bytes()).collect();
        let lease = with_leases.then_some((&heads[..], LEASE_TTL));
        let mut looked = shared.ask(shared.tier.lookup(&Lookup { keys, lease, ledger: ledger() })).await;
        if with_leases && matches!(looked, Err(CacheError::Refused(_))) {
            // A server that is full, or may not be written to, can still be read.
            looked = shared.ask(shared.tier.lookup(&Lookup { keys, lease: None, ledger: ledger() })).await;
        }
        let looked = looked?;
        if self.journal.era() != era {
            return Err(CacheError::Resting);
        }
        let clock = looked.stamps.as_ref().map_or(0, |stamps| stamps.clock);
        if let Some(stamps) = &looked.stamps {
            self.ledger.learn(&members, stamps, gaps);
        }
        let seen = looked.keys.into_iter().enumerate().map(|(at, found)| match found {
            KeyContent::Absent => Seen::Absent,
            KeyContent::LeaseGranted => ids.get(at).map_or(Seen::Absent, |id| Seen::Mine(*id)),
            KeyContent::Bytes { bytes, remaining_ttl } => match Head::parse(&bytes) {
                Ok(Head::Lease(id)) => Seen::Theirs(id),
                _ => Seen::Bytes { bytes, remaining_ttl },
            },
        });
        let seen: Vec<Seen> = seen.collect();
        for seen in &seen {
            let found = matches!(seen, Seen::Bytes { .. });
            (if found { &shared.counts.hits } else { &shared.counts.misses }).add(1);
        }
        Ok((seen, clock))
    }

    /// Whether the ledger has to be read with the keys. What announcements keep up to date is not asked for again only
    /// to read.
    fn needs_ledger(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Load | Purpose::Mutate => true,
            Purpose::Read => {
                let believed = self.trust.now_believed().at(self.memory.clock().now());
                !believed || self.ledger.known_clock().is_none()
            }
            Purpose::Raw => false,
        }
    }

    /// Looks at one key until there is a value, a lease of its own, or the patience with somebody else's is over.
    pub(crate) async fn see_or_wait(&self, key: &[Vec<u8>]) -> Result<(Seen, u64), CacheError> {
        let patience = Instant::now() + self.lease_wait;
        let mut pause = PAUSE.0;
        loop {
            let (mut seen, clock) = self.see(key, Purpose::Load).await?;
            match seen.pop().unwrap_or(Seen::Absent) {
                // Somebody's lease came and went while this one was put there.
                Seen::Absent if !self.trust.is_alone() && Instant::now() < patience && self.can_lease() => {}
                Seen::Theirs(_) if Instant::now() < patience => {}
                seen => return Ok((seen, clock)),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Whether a look that found nothing should have left a lease.
    fn can_lease(&self) -> bool {
        let tier = self.shared.as_ref().and_then(|shared| shared.tier.capabilities());
        tier.is_some_and(|can| can.coherent() && !can.scripts)
    }

    /// The claim of a load that replaces what is there, or nothing.
    pub(crate) fn claim_over(&self, bytes: &[u8]) -> Claim {
        let id = self.random.id();
        if self.trust.is_alone() { Claim::Plain(id) } else { Claim::replacing(bytes, id) }
    }

    /// Puts a lease where something is that nobody may have any more. Refused if it has changed.
    pub(crate) async fn lease_over(&self, key: &[u8], bytes: &[u8]) -> Option<Claim> {
        let shared = self.shared.as_ref()?;
        if self.trust.is_alone() {
            return Some(Claim::Plain(self.random.id()));
        }
        let id = self.random.id();
        let commit = CompareAndSet {
            key: key.to_vec(),
            expected: bytes[..bytes.len().min(HEAD_BYTES)].to_vec(),
            action: CasAction::Put(Head::Lease(id).to_bytes().to_vec(), LEASE_TTL),
        };
        match shared.ask(shared.tier.compare_and_set(&[commit], None)).await {
            Ok(accepted) if accepted.first() == Some(&true) => Some(Claim::mine(id)),
            _ => None,
        }
    }

    /// Keeps the leases of a load alive for as long as it is polled.
    pub(crate) async fn renew(&self, renewals: Vec<CompareAndSet>) -> Infallible {
        let Some(shared) = self.shared.as_ref().filter(|_| !renewals.is_empty()) else {
            return pending().await;
        };
        loop {
            sleep(RENEWAL).await;
            // One that is refused shows what the store will be told.
            _ = shared.ask(shared.tier.compare_and_set(&renewals, None)).await;
        }
    }

    /// Stores loaded values as their claims allow; `None` as a value gives a lease back.
    pub(crate) async fn store(&self, wanted: Vec<ToStore<'_>>) -> Vec<Stored> {
        let mut stored = vec![Stored::Unknown; wanted.len()];
        let Some(shared) = &self.shared else { return vec![Stored::Yes; wanted.len()] };
        let (mut commits, mut places) = (Vec::new(), Vec::new());
        let (mut theirs, mut their_places) = (Vec::new(), Vec::new());
        for (place, wanted) in wanted.into_iter().enumerate() {
            match wanted.claim {
                Claim::None => {}
                Claim::Swap { expected, .. } => {
                    places.push(place);
                    commits.push(CompareAndSet {
                        key: wanted.key.to_vec(),
                        expected,
                        action: CasAction::put_or_remove(wanted.put),
                    });
                }
                Claim::Theirs(id) => {
                    their_places.push((place, id));
                    theirs.push(wanted.key.to_vec());
                }
                Claim::Plain(_) => stored[place] = self.store_plainly(wanted).await,
            }
        }
        if !commits.is_empty() {
            let outcome = shared.ask(shared.tier.compare_and_set(&commits, None)).await;
            if let Err(error) = &outcome {
                self.report(error);
            }
            for (at, place) in places.into_iter().enumerate() {
                stored[place] = match &outcome {
                    Ok(accepted) if accepted.get(at) == Some(&true) => Stored::Yes,
                    Ok(_) => Stored::Refused,
                    Err(_) => Stored::Unknown,
                };
            }
        }
        if !theirs.is_empty() {
            let outcome = shared.ask(shared.tier.read_heads(&theirs, None)).await;
            for (at, (place, id)) in their_places.into_iter().enumerate() {
                stored[place] = match &outcome {
                    Ok(heads) if has_id(heads.heads.get(at), id) => Stored::Yes,
                    Ok(_) => Stored::Refused,
                    Err(_) => Stored::Unknown,
                };
            }
        }
        stored
    }

    /// Without compare-and-set in the server: no change of this node may come between the look at the ticket and the
    /// store, and none does, because changes take the same lock.
    async fn store_plainly(&self, wanted: ToStore<'_>) -> Stored {
        let Some(shared) = &self.shared else { return Stored::Yes };
        let _guard = self.fills[stripe(wanted.key)].lock().await;
        if wanted.ticket.is_some_and(|ticket| !ticket.is_valid()) {
            return Stored::Refused;
        }
        let action = CasAction::put_or_remove(wanted.put);
        let commit = CompareAndSet { key: wanted.key.to_vec(), expected: Vec::new(), action };
        match shared.ask(shared.tier.compare_and_set(&[commit], None)).await {
            Ok(_) => Stored::Yes,
            Err(_) => Stored::Unknown,
        }
    }

    /// Keeps this node's own fills away from keys that are being changed, where the server does not.
    pub(crate) async fn guard_fills<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Vec<MutexGuard<'_, ()>> {
        if !self.trust.is_alone() {
            return Vec::new();
        }
        // In one order for all, so that two of them do not wait for each other.
        let mut stripes: Vec<usize> = keys.map(stripe).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let mut guards = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            guards.push(self.fills[stripe].lock().await);
        }
        guards
    }

    /// Asks Redis whether it still has an entry of memory. `None` if it does not answer.
    pub(crate) async fn revalidate(&self, redis_key: &[u8], facts: &Facts) -> Option<Judgement> {
        let shared = self.shared.as_ref()?;
        let (era, generation) = (self.journal.era(), self.trust.generation());
        let gaps = self.ledger.gaps();
        let changes = self.changes.count(redis_key);
        if self.journal.blocks(redis_key) {
            return None;
        }
        let members = members_of(facts.tags.iter().map(|tag| &**tag));
        let ledger =
            (!self.trust.is_alone()).then_some(LedgerQuery { key: &self.names.ledger, members: &members });
        let keys = [redis_key.to_vec()];
        let heads = shared.ask(shared.tier.read_heads(&keys, ledger.as_ref())).await.ok()?;
        if self.journal.era() != era {
            return None;
        }
        let is_there = facts.id.is_some_and(|id| has_id(heads.heads.first(), id));
        if let Some(stamps) = &heads.stamps {
            self.ledger.learn(&members, stamps, gaps);
        }
        let judgement = if is_there { self.ledger.judge(facts) } else { Judgement::Dead };
        if matches!(judgement, Judgement::Valid | Judgement::Stale) {
            facts.prove(generation, self.memory.clock().now());
            if self.changes.count(redis_key) != changes {
                // Heard of while the answer was on its way, which may be older.
                facts.suspect();
            }
        }
        Some(judgement)
    }

    /// Judges what was found in Redis, asking for the stamps of its tags if they are not known well enough.
    pub(crate) async fn judge_found(self: &Arc<Self>, facts: &Facts) -> Judgement {
        if self.trust.is_alone() || self.shared.is_none() {
            return self.ledger.judge(facts);
        }
        if facts.clock == 0 {
            return Judgement::Dead;
        }
        let is_known = facts.tags.is_empty() || self.trust.now_believed().at(self.memory.clock().now());
        let judgement = if is_known { self.ledger.judge(facts) } else { Judgement::Unknown };
        if judgement != Judgement::Unknown {
            return judgement;
        }
        let members = members_of(facts.tags.iter().map(|tag| &**tag));
        if self.learn_stamps(&members).await.is_err() {
            return Judgement::Unknown;
        }
        self.ledger.judge(facts)
    }

    /// Asks Redis for stamps; returns its clock.
    pub(crate) async fn learn_stamps(&self, members: &[Vec<u8>]) -> Result<u64, CacheError> {
        let Some(shared) = &self.shared else { return Ok(0) };
        let ask = LedgerQuery { key: &self.names.ledger, members };
        let gaps = self.ledger.gaps();
        let stamps = shared.ask(shared.tier.read_stamps(&ask)).await?;
        self.ledger.learn(members, &stamps, gaps);
        Ok(stamps.clock)
    }
}

/// A value on its way to Redis.
pub(crate) struct ToStore<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) claim: Claim,
    pub(crate) ticket: Option<&'a MemoryTicket>,
    pub(crate) put: Option<(Vec<u8>, Duration)>,
}

/// Whether what is there is something, and not just somebody's lease.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    !bytes.is_empty() && !matches!(Head::parse(bytes), Ok(Head::Lease(_)))
}

fn has_id(head: Option<&Vec<u8>>, id: Id) -> bool {
    let head = head.and_then(|head| Head::parse(head).ok());
    head == Some(Head::Value(id)) || head == Some(Head::Lease(id))
}

/// How many locks keep fills and changes of one node apart.
pub(crate) const FILL_STRIPES: usize = 64;

fn stripe(key: &[u8]) -> usize {
    xxh3_64(key) as usize % FILL_STRIPES
}
