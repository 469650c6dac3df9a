//! What becomes of a response: stored under its key and with its record, or not stored and remembered as such.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use larder_engine::{Op, Ttl};

use super::role::put;
use super::{Fill, FillRole};
use crate::fill::stream::{Published, Stream};
use crate::key::{self, Key};
use crate::policy::plan::{KNOWN_AFTER_END, Plan};
use crate::policy::scope::Scope;
use crate::shared::{Permits, Verdict};
use crate::status::Reason;
use crate::store::location::StoreLocation;
use crate::stored::body::{BoxError, Rest};
use crate::stored::entry::{StoreValue, StoredResponse};
use crate::stored::purge::PurgeKey;
use crate::stored::record::VaryRecord;

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Stores the response, whose head its client has already.
    pub(super) fn store_streamed(&mut self, stored: Arc<StoredResponse>, plan: &Plan, stream: Stream<B>) {
        let result = match stream.published() {
            Some(published) => self.replace_published(&stored, plan, published),
            None => self.store(&stored, plan).map(drop),
        };
        let result = self.settle(result);
        if let Err(reason) = result {
            self.core().counters.count_unstored(reason);
        }
        match result {
            Ok(()) => stream.complete(),
            Err(Reason::Purged) => stream.fail(Reason::Purged, Rest::Nothing),
            // Not stored, but whole.
            Err(_) => {
                stream.withdraw();
                stream.complete();
            }
        }
    }

    /// Replaces the entry whose body was being filled by the complete one, also if it was evicted meanwhile.
    pub(super) fn replace_published(
        &self,
        stored: &Arc<StoredResponse>,
        plan: &Plan,
        published: &Published,
    ) -> Result<(), Reason> {
        self.check_storable(stored)?;
        self.take_share(stored, &published.key)?;
        let (store, key) = (&self.core().store, &published.key);
        let (ttl, value) = (Ttl::After(plan.stored_for()), StoreValue::Response(stored.clone()));
        store.replace(&self.location.resource, key, &value, || {
            let replaced = store.entries.compute(key.clone(), |present| match present {
                Some(entry) if !entry.value().is_same(&published.value) => (Op::Keep, false),
                _ => (Op::Put(value.clone(), ttl), true),
            });
            match replaced {
                _ if !replaced.result => Err(Reason::Replaced),
                _ if replaced.refused.is_some() => Err(Reason::Refused),
                _ => Ok(()),
            }
        })
    }

    /// Counts a stored response and ends hit-for-miss, or releases the followers.
    ///
    /// # Errors
    /// Why later requests do not get the response.
    pub(super) fn settle(&mut self, result: Result<(), Reason>) -> Result<(), Reason> {
        match result {
            Ok(()) => {
                let core = self.core();
                core.store.hit_for_miss.remove(&core.store.hit_for_miss_key(&self.location));
                if core.store.serves_waiting_requests_only() {
                    return Err(Reason::RedisLost);
                }
                core.counters.stores.add(1);
            }
            Err(reason) => self.abandon_store(reason, StatusCode::OK),
        }
        result
    }

    /// Whether the response may be stored: it was not purged meanwhile, and no other replica has stored another one.
    pub(super) fn check_storable(&self, stored: &Arc<StoredResponse>) -> Result<(), Reason> {
        if self.verdict(stored) == Verdict::Dead {
            return Err(Reason::Purged);
        }
        // What a soft purge during its fill has made stale may still be of use to all who accept that.
        if stored.is_ended_by_purge(self.core().store.entries.now_ms()) {
            return Err(Reason::Purged);
        }
        if self.shared.is_replaced() {
            return Err(Reason::Replaced);
        }
        Ok(())
    }

    /// What purges, and other replicas, say of a response of this location.
    pub(super) fn verdict(&self, stored: &Arc<StoredResponse>) -> Verdict {
        let store = &self.core().store;
        match stored.is_unpurged(&store.purges, self.location.resource.as_bytes()) {
            true => store.verdict(&StoreValue::Response(stored.clone()), Permits::default()),
            false => Verdict::Dead,
        }
    }

    /// What purges the response beside its URI: the handler's tags, its principal, and the end of the rule that made its query.
    pub(crate) fn tags(&self, plan: &Plan) -> Box<[PurgeKey]> {
        let core = self.core();
        let principal = self.requester.principal().filter(|_| plan.scope == Some(Scope::Private));
        let tags = plan.tags.iter().map(|tag| core.store.purges.purge_key(tag.as_bytes()));
        let ruled_path = key::ruled_path(key::uri_of(self.location.resource.as_bytes()));
        tags.chain(principal.map(|principal| core.store.principal_key(principal)))
            .chain(ruled_path.map(|path| core.store.ruled_path_key(path)))
            .collect()
    }

    /// Returns the key under which the response is stored.
    pub(crate) fn store(&mut self, stored: &Arc<StoredResponse>, plan: &Plan) -> Result<Key, Reason> {
        let cache = self.cache.clone();
        let cache = cache.core();
        if let Err(reason) = self.check_storable(stored) {
            self.role.release_followers_of_purged_fill();
            return Err(reason);
        }
        let ttl = Ttl::After(plan.stored_for());
        let value = StoreValue::Response(stored.clone());
        let StoreLocation { resource, variant, .. } = &self.location;
        match variant {
            None if plan.vary.is_empty() && !plan.is_guarded() => {
                let put = || self.role.store(cache, resource, value.clone(), ttl);
                self.disk.put(&cache.store, (resource, resource), &value, put)?;
                self.remember_scope(plan);
                Ok(resource.clone())
            }
            None => {
                let (record, key) = self.new_variant(stored, plan)?;
                cache.store.replace(resource, &key, &value, || put(cache, &key, value.clone(), ttl))?;
                let record = StoreValue::Varies(record);
                let put = || self.role.store(cache, resource, record.clone(), Ttl::After(plan.record_ttl()));
                let result = cache.store.replace(resource, resource, &record, put);
                if result.is_err() {
                    cache.store.forget_on_disk(&key);
                    cache.store.entries.remove(&key);
                }
                result.map(|()| key)
            }
            Some((record, key)) if *record.fields() == *plan.vary && record.scope() == plan.scope => {
                self.take_share(stored, key)?;
                let put = || self.role.store(cache, key, value.clone(), ttl);
                self.disk.put(&cache.store, (resource, key), &value, put)?;
                if let Some(evicted) = record.add_variant(key) {
                    cache.store.entries.remove(&evicted);
                }
                cache.store.update_record(resource, record, plan.record_ttl());
                cache.store.add_missing_to_disk(resource, &StoreValue::Varies(record.clone()));
                Ok(key.clone())
            }
            Some((record, _)) => {
                // The resource varies by other fields now, or its scope is another: lookups must not find its old
                // variants.
                self.role.release_followers();
                let old = StoreValue::Varies(record.clone());
                let replacement = if plan.vary.is_empty() && !plan.is_guarded() {
                    Ok((value, ttl, resource.clone()))
                } else {
                    self.new_variant(stored, plan).and_then(|(record, key)| {
                        cache
                            .store
                            .replace(resource, &key, &value, || put(cache, &key, value.clone(), ttl))?;
                        Ok((StoreValue::Varies(record), Ttl::After(plan.record_ttl()), key))
                    })
                };
                match replacement {
                    Ok((value, ttl, key)) => {
                        let put = || FillRole::Refresh(old).store(cache, resource, value.clone(), ttl);
                        cache.store.replace(resource, resource, &value, put).map(|()| key)
                    }
                    Err(reason) => {
                        cache.store.forget_on_disk(resource);
                        cache.store.entries.remove_if(resource, |entry| entry.value().is_same(&old));
                        Err(reason)
                    }
                }
            }
        }
    }

    /// Remembers that the resource is public, or forgets it. One that varies has a record, which tells it.
    pub(super) fn remember_scope(&self, plan: &Plan) {
        let (known, key) =
            (&self.core().store.known_resources, self.core().store.hit_for_miss_key(&self.location));
        match plan.scope {
            Some(Scope::Public) => {
                known.insert_with_ttl(key, (), Ttl::After(plan.stored_for() + KNOWN_AFTER_END));
            }
            _ => drop(known.remove(&key)),
        }
    }

    /// A record with one variant: the response to this request. The same at each call.
    pub(crate) fn new_variant(
        &self,
        stored: &StoredResponse,
        plan: &Plan,
    ) -> Result<(Arc<VaryRecord>, Key), Reason> {
        if let Some(first) = self.first_variant.get() {
            return Ok(first.clone());
        }
        let (scope, fields, stamp) = (plan.scope, plan.vary.clone(), stored.stamp.copy());
        let record = match self.shared.record_id(plan) {
            Some(id) => VaryRecord::with_id(id, scope, fields, stamp),
            None => VaryRecord::new(scope, fields, stamp),
        };
        let key = key::with_key_buffer(|key| {
            record.write_key(key, self.requester.principal(), &self.request_headers)?;
            Ok(Key::new(key))
        })?;
        self.take_share(stored, &key)?;
        record.add_variant(&key);
        Ok(self.first_variant.get_or_init(|| (Arc::new(record), key)).clone())
    }

    /// Takes a part of its principal's share for a private response, and removes those that must go for it.
    pub(super) fn take_share(&self, stored: &StoredResponse, key: &Key) -> Result<(), Reason> {
        let Some(principal) = self.requester.principal().filter(|_| stored.scope == Some(Scope::Private))
        else {
            return Ok(());
        };
        let core = self.core();
        let (share, displaced) =
            core.store.private_shares.take(core.store.principal_key(principal), key, stored.bytes())?;
        let _ = stored.share.set(share);
        for key in &displaced {
            core.store.entries.remove(key);
        }
        Ok(())
    }

    /// Releases the followers of a response that is not stored, and marks its key as hit-for-miss if the reason is likely
    /// to apply to the next response too.
    pub(super) fn abandon_store(&mut self, reason: Reason, status: StatusCode) {
        if is_passing(reason, status) {
            self.restore_expired();
        } else if matches!(self.role, FillRole::Leader(_)) {
            // Before anybody looks there again.
            self.core().store.forget_on_disk(self.location.key());
        }
        self.role.release_followers();
        let is_lasting =
            !matches!(reason, Reason::BodyError | Reason::BodyMemory | Reason::Purged | Reason::Replaced)
                && !is_of_requester(reason);
        // A fill without a ticket has no followers, and its request may be another one: with credentials, or long fields.
        if is_lasting && matches!(self.role, FillRole::Leader(_)) {
            self.mark_hit_for_miss();
        }
        if is_of_requester(reason) {
            // The scope is another one now: requests with credentials do not wait for each other in vain again.
            let core = self.core();
            core.store.known_resources.remove(&core.store.hit_for_miss_key(&self.location));
        }
        // Nor do those that the gate may judge in another way: each of them may store the response.
        if matches!(reason, Reason::Gate | Reason::Scope) && matches!(self.role, FillRole::Leader(_)) {
            self.core().store.mark_guarded(&self.location);
        }
        // The handler no longer opts in, or not for all, so the stale entry must go. If it failed or was too slow, the entry
        // stays.
        if (is_lasting || matches!(reason, Reason::Scope | Reason::Gate))
            && reason != Reason::FillTimeout
            && !status.is_server_error()
            && let FillRole::Refresh(old) = &self.role
        {
            self.core().store.forget_on_disk(self.location.key());
            self.core().store.remove_if_same(self.location.key().clone(), old);
        }
    }

    pub(super) fn mark_hit_for_miss(&self) {
        let core = self.core();
        core.store.hit_for_miss.insert(core.store.hit_for_miss_key(&self.location), ());
    }
}

/// Whether the origin, or this process, has failed: what was stored before is not outdated by that.
fn is_passing(reason: Reason, status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            reason,
            Reason::BodyError
                | Reason::BodyLength
                | Reason::BodyMemory
                | Reason::FillTimeout
                | Reason::HandlerError
        )
}

/// Whether the response is not stored because of who asked, or how: that of another client may be.
fn is_of_requester(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Authorization
            | Reason::Cookie
            | Reason::PersonalExtension
            | Reason::Gate
            | Reason::Scope
            | Reason::VariantTooLong
    )
}
