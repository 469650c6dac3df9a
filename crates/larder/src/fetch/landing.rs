//! A load from its loader to its end: seal, store, hand out; or let an old value stand in.

use super::flight::{Flight, Want};
use crate::coherence::lease::{Claim, Stored, ToStore};
use crate::error::{CacheError, FetchError};
use crate::events::Event;
use crate::fetch::Source;
use crate::load::{Loaded, Said};
use crate::tier::memory::MemoryEntry;
use crate::view::Sealing;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A loaded value on its way into the tiers.
struct Landing<V, E> {
    want: Want<V, E>,
    entry: MemoryEntry,
    keep: bool,
    claim: Claim,
    put: Option<(Vec<u8>, Duration)>,
}

impl<V> Flight<V>
where
    V: Send + Sync + 'static,
{
    /// Ends the keys that were loaded: stores what may be stored, then hands out.
    pub(crate) async fn land<E: Send + Sync + 'static>(
        &self,
        wants: Vec<(Want<V, E>, Loaded<V>)>,
        said: &Said,
        began: Instant,
    ) {
        let cost = began.elapsed();
        self.view.cache.inner.counts.load_latency.record(cost);
        let mut landing = Vec::with_capacity(wants.len());
        for (mut want, loaded) in wants {
            let (value, kept_tags) = match loaded {
                Loaded::New(value) => (Arc::new(value), Vec::new()),
                Loaded::NotModified => {
                    match want.stale.as_ref().and_then(|s| Some((s.value::<V>()?.clone(), s))) {
                        Some((value, stale)) => (value, stale.facts().tags.to_vec()),
                        None => {
                            self.fail(vec![want], FetchError::NothingToKeep).await;
                            continue;
                        }
                    }
                }
            };
            want.stale = None;
            landing.push(self.seal(want, value, kept_tags, said, cost));
        }
        let inner = &self.view.cache.inner;
        let to_store: Vec<_> = landing
            .iter_mut()
            .map(|landing| ToStore {
                key: &landing.want.redis_key,
                claim: landing.claim.clone(),
                ticket: landing.want.ticket.as_ref(),
                put: landing.put.take(),
            })
            .collect();
        let stored = inner.store(to_store).await;
        for (landing, stored) in landing.into_iter().zip(stored) {
            self.hand_out(landing, stored);
        }
    }

    fn seal<E>(
        &self,
        want: Want<V, E>,
        value: Arc<V>,
        kept_tags: Vec<Box<str>>,
        said: &Said,
        cost: Duration,
    ) -> Landing<V, E> {
        let inner = &self.view.cache.inner;
        let life = self.view.lifetime(&value, self.policy, said);
        let tags = self.view.tags(&[&self.tags[..], &kept_tags].concat(), said);
        let id = want.start.claim.id().unwrap_or_else(|| inner.random.id());
        let sealing = Sealing { id, clock: want.start.clock, life, cost, tags: tags.clone() };
        let sealed = self.view.seal(&value, sealing).map_err(|error| {
            tracing::warn!(%error, "a value cannot be encoded");
            inner.events.emit(|| Event::NotEncoded { key: want.redis_key.clone() });
            inner.report(&CacheError::Encode(error));
        });
        let keep = sealed.is_ok() && !said.no_store;
        let bytes = sealed.as_ref().map_or(0, Vec::len);
        // Tags that no ledger keeps could not be invalidated in Redis.
        let memory_only = inner.trust.is_alone() && !tags.is_empty();
        let put = sealed.ok().filter(|_| keep && !memory_only).map(|bytes| (bytes, life.kept()));
        // What is not kept gives its lease back, and leaves alone what was there before.
        let claim = match &want.start.claim {
            claim if keep || claim.is_lease() => claim.clone(),
            _ => Claim::None,
        };
        let entry = self.view.entry(value, bytes, life, tags, &want.start);
        Landing { want, entry, keep, claim, put }
    }

    fn hand_out<E: Send + Sync + 'static>(&self, landing: Landing<V, E>, stored: Stored) {
        let Landing { mut want, entry, keep, .. } = landing;
        let inner = &self.view.cache.inner;
        inner.events.emit(|| Event::Loaded { key: want.redis_key.clone(), ok: true });
        if stored != Stored::Yes {
            // Only Redis knows whether it was invalidated since its load began: it is good for those who came so early
            // that they need not have known.
            entry.facts().proved_only_at(want.looked_at.saturating_add(inner.trust.max_lag()));
        }
        if let Some(ticket) = want.ticket.take() {
            match (keep, stored) {
                (true, Stored::Yes) => {
                    self.view.commit(&want.redis_key, ticket, &entry, want.start.changes);
                }
                (true, Stored::Unknown) => {
                    if !matches!(want.start.claim, Claim::None) {
                        entry.facts().suspect();
                    }
                    self.view.commit(&want.redis_key, ticket, &entry, want.start.changes);
                }
                (true, Stored::Refused) => {
                    inner.counts.refused.add(1);
                    inner.events.emit(|| Event::Refused { key: want.redis_key.clone() });
                    ticket.deliver(entry.clone());
                }
                (false, _) => ticket.deliver(entry.clone()),
            }
        }
        want.tell(self.view.fetched(entry, Source::Loader, false).ok_or(FetchError::Dropped));
    }

    /// Ends keys without a value: what is in grace stands in for it, and leases are given back.
    pub(crate) async fn fail<E: Send + Sync + 'static>(&self, wants: Vec<Want<V, E>>, error: FetchError<E>) {
        let inner = &self.view.cache.inner;
        inner.counts.load_failures.add(1);
        let mut leases = Vec::new();
        for mut want in wants {
            inner.events.emit(|| Event::Loaded { key: want.redis_key.clone(), ok: false });
            let Some(ticket) = want.ticket.take() else { continue };
            match want.stale.take() {
                Some(stale) => {
                    self.emit_stale(&want);
                    let again = self.again(&stale);
                    self.view.commit(&want.redis_key, ticket, &again, want.start.changes);
                    want.tell(self.view.fetched(again, Source::Stale, false).ok_or(FetchError::Dropped));
                }
                None => {
                    ticket.fail(Arc::new(error.clone()));
                    want.tell(Err(error.clone()));
                }
            }
            if want.start.claim.is_lease() {
                leases.push((want.redis_key, want.start.claim));
            }
        }
        if !leases.is_empty() {
            let back = leases.iter().map(|(key, claim)| ToStore {
                key,
                claim: claim.clone(),
                ticket: None,
                put: None,
            });
            inner.store(back.collect()).await;
        }
    }

    /// An old value, taken for fresh until the loader may be asked again.
    fn again(&self, stale: &MemoryEntry) -> MemoryEntry {
        let inner = &self.view.cache.inner;
        let facts = stale.facts();
        let again = facts.again(inner.memory.clock().now(), self.policy.throttle());
        let value = stale.value::<V>().expect("it was made for this view").clone();
        MemoryEntry::new(value, again)
    }

    pub(super) fn emit_stale<E>(&self, want: &Want<V, E>) {
        let inner = &self.view.cache.inner;
        inner.counts.stale.add(1);
        inner.events.emit(|| Event::Stale { key: want.redis_key.clone() });
    }
}
