//! Lookups in Redis: with a lease for each absent key if the caller loads, and comparisons with an entry in memory.

use super::Coordinator;
use super::lease::{LEASE_TTL, has_id};
use crate::node::entry::{EntryState, Validity};
use crate::node::ledger::{members_of, untagged_members};
use crate::node::validity::Proof;
use crate::report::error::CacheError;
use crate::tier::{BATCH, KeyContent, Lookup};
use crate::value::envelope::Head;
use crate::value::format::Id;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::{Span, debug_span};

/// The shortest and the longest pause between lookups of a key whose lease another node has.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// Why Redis is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To load absent keys: leases are put there.
    Load,
    /// To mutate or read keys.
    Read,
    /// To replace a value by one that is made from it. The ledger is read with the keys: what another node has invalidated
    /// may not be announced to this one yet.
    Rewrite,
    /// To read counters and raw values, which the ledger does not cover.
    Raw,
}

/// The result of a lookup of one key in Redis.
#[derive(Debug)]
pub(crate) enum RedisLookup {
    /// There is nothing, and no lease was put there.
    Absent,
    /// There was nothing. This load has the lease.
    LeaseGranted(Id),
    /// Another load has the lease.
    LeaseHeldByOther(Id),
    /// Bytes that may be a value.
    Bytes(Vec<u8>),
}

/// A wait for leases of other nodes.
pub(crate) struct LeaseWait<'a> {
    coordinator: &'a Coordinator,
    /// `None` for a time that never comes.
    deadline: Option<Instant>,
    pause: Duration,
    /// Hears that another node loads.
    elsewhere: Option<&'a Notify>,
}

impl<'a> LeaseWait<'a> {
    /// The same wait, which tells when it has found a lease of another node.
    pub(crate) fn telling(self, elsewhere: Option<&'a Notify>) -> Self {
        LeaseWait { elsewhere, ..self }
    }

    /// Pauses before the next lookup. False if the wait is over.
    pub(crate) async fn pause(&mut self) -> bool {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return false;
        }
        self.elsewhere.inspect(|elsewhere| elsewhere.notify_one());
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE.1);
        true
    }

    /// The wait is over, or its caller waits no longer: so many leases are still there, which counts as misses.
    pub(crate) fn end(&self, leases: usize) {
        if let Some(redis) = &self.coordinator.node.redis {
            redis.counts.misses.add(leases as u64);
        }
    }
}

impl Coordinator {
    /// Looks up keys in Redis. Returns their contents, and a clock that the ledger had before the lookup, or during it; 0
    /// for [`Purpose::Raw`].
    pub(crate) async fn lookup_redis(
        &self,
        keys: &[Vec<u8>],
        purpose: Purpose,
    ) -> Result<(Vec<RedisLookup>, u64), CacheError> {
        let node = &self.node;
        let Some(redis) = &node.redis else { return Err(CacheError::NotAsked) };
        if purpose != Purpose::Raw {
            // The deadlines of values are judged by it.
            self.node.learn_server_time().await?;
        }
        let (replay_epoch, gaps) = (self.replay_log.replay_epoch(), node.ledger.gaps());
        if keys.iter().any(|key| self.replay_log.blocks(key)) {
            return Err(CacheError::NotAsked);
        }
        let known_clock = self.known_clock(purpose);
        let reads_ledger = known_clock.is_none();
        let members = if reads_ledger { untagged_members() } else { Vec::new() };
        let ledger = || reads_ledger.then(|| node.ledger_query(&members));
        let with_leases = purpose == Purpose::Load;
        let ids = node.random.ids(if with_leases { keys.len() } else { 0 });
        let heads: Vec<_> = ids.iter().map(|id| Head::Lease(*id).to_bytes()).collect();
        let lease = with_leases.then_some((&heads[..], LEASE_TTL));
        redis.check_breaker()?;
        let lookup = Lookup { keys, lease, ledger: ledger() };
        let mut reply = redis.call_ignoring_breaker(redis.tier.lookup(&lookup)).await;
        let may_have_leased = match &reply {
            Ok(_) => false,
            // The first of several parts may have been accepted.
            Err(CacheError::Refused(_) | CacheError::Unsupported(_)) => keys.len() > BATCH,
            Err(_) => true,
        };
        if may_have_leased {
            self.lost_leases.add(keys.iter().cloned().zip(ids.iter().copied()));
        }
        if with_leases && matches!(reply, Err(CacheError::Refused(_))) {
            // A server that is full or read-only can still be read.
            reply = redis.call(redis.tier.lookup(&Lookup { keys, lease: None, ledger: ledger() })).await;
        }
        let reply = reply?;
        if self.replay_log.replay_epoch() != replay_epoch {
            let leased = keys.iter().zip(&ids).zip(&reply.keys);
            let granted = leased.filter(|(_, content)| matches!(content, KeyContent::LeaseGranted));
            self.lost_leases.add(granted.map(|((key, id), _)| (key.clone(), *id)));
            return Err(CacheError::NotAsked);
        }
        let clock = reply.stamps.as_ref().map(|stamps| stamps.clock).or(known_clock).unwrap_or(0);
        if let Some(stamps) = &reply.stamps {
            node.ledger.learn(&members, stamps, gaps);
        }
        let lookups = reply.keys.into_iter().enumerate().map(|(index, content)| match content {
            KeyContent::Absent => RedisLookup::Absent,
            KeyContent::LeaseGranted => {
                ids.get(index).map_or(RedisLookup::Absent, |id| RedisLookup::LeaseGranted(*id))
            }
            KeyContent::Bytes(bytes) => match Head::parse(&bytes) {
                Ok(Head::Lease(id)) => RedisLookup::LeaseHeldByOther(id),
                _ => RedisLookup::Bytes(bytes),
            },
        });
        let lookups: Vec<RedisLookup> = lookups.collect();
        let (mut hits, mut misses) = (0, 0);
        for lookup in &lookups {
            match lookup {
                RedisLookup::Bytes(_) => hits += 1,
                // The key will be looked up again: the end of the wait counts.
                RedisLookup::LeaseHeldByOther(_) if purpose == Purpose::Load => {}
                _ => misses += 1,
            }
        }
        redis.counts.hits.add(hits);
        redis.counts.misses.add(misses);
        Ok((lookups, clock))
    }

    /// The ledger's clock, if it need not be read with the keys: announcements and heartbeats keep it up to date. It may be
    /// behind the ledger, never ahead: a value that is loaded now may count as older than it is, which costs another load.
    fn known_clock(&self, purpose: Purpose) -> Option<u64> {
        match purpose {
            Purpose::Load | Purpose::Read => self.node.known_clock(),
            Purpose::Rewrite => None,
            Purpose::Raw => Some(0),
        }
    }

    /// Looks up one key until there is a value or a lease of this load, or the wait is over.
    pub(crate) async fn lookup_or_wait_for_lease(
        &self,
        key: &[Vec<u8>],
        wait: &mut LeaseWait<'_>,
    ) -> Result<(RedisLookup, u64), CacheError> {
        let mut waiting = None;
        loop {
            let (mut lookups, clock) = self.lookup_redis(key, Purpose::Load).await?;
            let lookup = lookups.pop().unwrap_or(RedisLookup::Absent);
            let must_wait = match &lookup {
                RedisLookup::LeaseHeldByOther(id) => {
                    waiting.get_or_insert_with(|| debug_span!("larder.lease_wait", lease = %id.to_hex()));
                    true
                }
                RedisLookup::LeaseGranted(id) => {
                    let span = Span::current();
                    if !span.is_disabled() {
                        span.record("lease", tracing::field::display(id.to_hex()));
                    }
                    false
                }
                RedisLookup::Absent | RedisLookup::Bytes(_) => false,
            };
            if !must_wait || !wait.pause().await {
                wait.end(usize::from(must_wait));
                return Ok((lookup, clock));
            }
        }
    }

    /// Starts a wait for leases of other nodes.
    pub(crate) fn lease_wait(&self) -> LeaseWait<'_> {
        self.lease_wait_since(Instant::now())
    }

    /// A wait for leases of other nodes that started at this moment.
    pub(crate) fn lease_wait_since(&self, started: Instant) -> LeaseWait<'_> {
        let deadline = started.checked_add(self.options.lease_wait);
        LeaseWait { coordinator: self, deadline, pause: PAUSE.0, elsewhere: None }
    }

    /// Compares an entry of memory with Redis and judges it. `None` if Redis does not reply.
    pub(crate) async fn revalidate(&self, redis_key: &[u8], state: &EntryState) -> Option<Validity> {
        let node = &self.node;
        let redis = node.redis.as_ref()?;
        let (replay_epoch, start) = (self.replay_log.replay_epoch(), node.start_state(redis_key));
        let gaps = node.ledger.gaps();
        if self.replay_log.blocks(redis_key) {
            return None;
        }
        let members = members_of(state.tags.iter().map(|tag| &**tag));
        let ledger = node.ledger_query(&members);
        let keys = [redis_key.to_vec()];
        let reply = redis.call(redis.tier.read_heads(&keys, Some(&ledger))).await.ok()?;
        if self.replay_log.replay_epoch() != replay_epoch {
            return None;
        }
        if let Some(stamps) = &reply.stamps {
            node.ledger.learn(&members, stamps, gaps);
        }
        if !state.id.is_some_and(|id| has_id(reply.heads.first(), id)) {
            state.mark_dead();
        }
        let now = node.now();
        let validity = node.judge(state, Proof::Redis, node.ledger.epoch(), now);
        if matches!(validity, Validity::Valid | Validity::Stale) {
            node.confirm(redis_key, state, &start, now);
        }
        Some(validity)
    }
}
