//! What a fill asks the other replicas before it runs the handler, and what it stores for them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use larder::{Committed, SharedCopy, SharedFetch, SharedLease, SharedReload, SharedValue};
use tokio::time::sleep;
use twox_hash::XxHash3_128;

use crate::fill::elsewhere::Taken;
use crate::fill::{Fill, FillRole};
use crate::key::{self, Key};
use crate::policy::plan::Plan;
use crate::shared::codec::{self, SharedEntry, SharedResponse};
use crate::shared::replicas::redis_key;
use crate::shared::times::SharedTimes;
use crate::shared::{SharedStore, tags};
use crate::status::{Outcome, Reason};
use crate::stored::body::BoxError;
use crate::stored::chunks::Chunks;
use crate::stored::entry::{StoredBody, StoredResponse};
use crate::stored::purge::{PurgeKey, PurgeStamp};
use crate::stored::record::VaryRecord;

/// How often a fill looks whether another replica has refreshed the entry, and the pause after each look. For a refresh: nobody waits
/// for it.
const REFRESH_LOOKS: (usize, Duration) = (20, Duration::from_millis(100));
/// For a validation that clients wait for.
const VALIDATION_LOOKS: (usize, Duration) = (200, Duration::from_millis(10));
/// For a request that waits for no others.
const ONE_LOOK: (usize, Duration) = (1, Duration::ZERO);

/// The part of a fill that concerns other replicas.
#[derive(Debug, Default)]
pub(crate) struct FillShare {
    /// The right to load, until the response is shared.
    lease: Option<SharedLease>,
    /// Redis has the response of another fill by now, or the place for this one is gone: a purge is none of the reasons.
    is_replaced: bool,
    /// The handler must be asked, whatever other replicas have.
    is_alone: bool,
}

impl FillShare {
    /// Whether another replica has stored another response.
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    pub(crate) fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// The handler must be asked, whatever other replicas have.
    pub(crate) fn validate_alone(&mut self) {
        self.is_alone = true;
    }

    /// Whether the handler is asked although other replicas may have a response.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The id of the record that this fill makes. Another replica that loads at the same time makes the same record: both
    /// find the variants of each other, whoever of them stores it. `None` if nothing is stored in Redis.
    pub(crate) fn record_id(&self, plan: &Plan) -> Option<u128> {
        let mut parts = self.lease.as_ref()?.id()?.to_le_bytes().to_vec();
        parts.push(codec::number(plan.scope)?);
        for field in &plan.vary {
            parts.extend_from_slice(field.as_str().as_bytes());
            parts.push(b',');
        }
        Some(XxHash3_128::oneshot(&parts))
    }

    /// Ends the wait of other replicas: the response will not be stored.
    pub(crate) fn release(&mut self) {
        self.lease = None;
    }
}

/// Asks Redis for the response of a fill. Returns the request for the handler; if there is none, Redis has the response, or
/// another replica refreshes it, and the fill has ended.
pub(crate) async fn begin<B, E, ReqBody>(
    fill: &mut Fill<B, E>,
    mut request: Request<ReqBody>,
) -> Option<Request<ReqBody>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let cache = fill.cache.clone();
    let Some(store) = cache.core().store.shared.clone() else { return Some(request) };
    // Taken before Redis is asked: every later purge covers what it has.
    let stamp = fill.core().store.purges.stamp(key::uri_of(fill.location.resource.as_bytes()));
    fill.shared.is_alone = fill.must_ask_handler();
    loop {
        let key = redis_key(fill.location.key());
        let has_expired = fill.location.expired.is_some();
        let found = match &fill.role {
            _ if fill.shared.is_alone => SharedReload::Lease(store.view.unleased(&key).await),
            // Requests with credentials wait for no others until the resource is known to have a scope. Redis may know it.
            FillRole::Unticketed { .. } if has_expired => store.reloaded(&key, ONE_LOOK).await,
            FillRole::Unticketed { .. } => {
                let is_unscoped = fill.core().store.hit_for_miss.contains(&fill.unscoped_key());
                match if is_unscoped { None } else { store.view.read(&key).await } {
                    Some(value) => SharedReload::Found(value),
                    None => SharedReload::Lease(store.view.unleased(&key).await),
                }
            }
            FillRole::Leader(_) if has_expired => store.reloaded(&key, VALIDATION_LOOKS).await,
            FillRole::Leader(_) => match store.view.fetch(&key).await {
                SharedFetch::Found(value) => SharedReload::Found(value),
                SharedFetch::Lease(lease) => SharedReload::Lease(lease),
            },
            FillRole::Refresh(_) => store.reloaded(&key, REFRESH_LOOKS).await,
        };
        let value = match found {
            SharedReload::Found(value) => value,
            SharedReload::Lease(lease) => {
                fill.shared.lease = Some(lease);
                return Some(request);
            }
            SharedReload::Elsewhere if matches!(fill.role, FillRole::Refresh(_)) => return None,
            SharedReload::Elsewhere => {
                fill.shared.lease = Some(store.view.unleased(&key).await);
                return Some(request);
            }
        };
        // The gate may deny now what it has allowed before the wait for another replica.
        if fill.location.is_guarded() {
            request = fill.requester.ask_again(&cache.core().gate, request).await;
        }
        match fill.take(value, &stamp) {
            Taken::Answered => return None,
            Taken::Varies => {}
            // It can be validated: by this replica alone, or by one of all.
            Taken::Unusable if fill.location.expired.is_some() && (!has_expired || fill.shared.is_alone) => {}
            Taken::Unusable => {
                fill.shared.lease = Some(store.view.unleased(&key).await);
                return Some(request);
            }
        }
    }
}

/// Asks Redis for the response of a request that calls no handler for it, or not as a fill. Returns the request if Redis has
/// none for it.
pub(crate) async fn find<B, E, ReqBody>(
    fill: &mut Fill<B, E>,
    mut request: Request<ReqBody>,
) -> Option<Request<ReqBody>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let cache = fill.cache.clone();
    let Some(store) = cache.core().store.shared.clone() else { return Some(request) };
    let stamp = fill.core().store.purges.stamp(key::uri_of(fill.location.resource.as_bytes()));
    loop {
        let Some(value) = store.view.read(&redis_key(fill.location.key())).await else { break };
        if fill.location.is_guarded() {
            request = fill.requester.ask_again(&cache.core().gate, request).await;
        }
        match fill.take(value, &stamp) {
            Taken::Answered => return None,
            Taken::Varies => {}
            Taken::Unusable => break,
        }
    }
    // It may have the ticket of a variant, which others follow.
    fill.role.promote_follower();
    Some(request)
}

impl SharedStore {
    /// Fresh bytes, or the right to load them. Waits so long while another replica loads.
    async fn reloaded(&self, key: &[u8], (looks, pause): (usize, Duration)) -> SharedReload {
        for look in 1..=looks {
            match self.view.reload(key).await {
                SharedReload::Elsewhere if look < looks => sleep(pause).await,
                ended => return ended,
            }
        }
        SharedReload::Elsewhere
    }

    /// Ends a load with an entry. `None` for one that the format cannot hold: it stays on this replica.
    async fn commit(
        &self,
        lease: SharedLease,
        entry: Option<Vec<u8>>,
        options: &larder::WriteOptions,
    ) -> Committed {
        match entry {
            Some(bytes) => lease.commit(bytes, options).await,
            None => Committed::Here(lease.copy(options)),
        }
    }
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    fn take(&mut self, value: SharedValue, stamp: &PurgeStamp) -> Taken {
        let key = self.location.key().clone();
        let (ttl, kept_for, age) = (value.remaining_ttl(), value.remaining(), value.age());
        let Some((times, entry)) = SharedTimes::split(value.bytes()) else { return Taken::Unusable };
        match codec::decode(&key, entry) {
            Some(SharedEntry::Response(response)) => {
                let is_long = response.body.len() > self.core().limits.max_body_bytes;
                if is_long || self.requester.check(response.scope).is_err() {
                    return Taken::Unusable;
                }
                let Some(body) = self.keep(response.body) else { return Taken::Unusable };
                let varies = self.location.variant.as_ref();
                let plan = Plan {
                    age: Duration::from_millis(response.age_ms).saturating_add(age),
                    outlives_values: true,
                    scope: response.scope,
                    labels: response.labels.clone(),
                    vary: varies.map_or_else(Box::default, |(record, _)| record.fields().into()),
                    ..times.plan(ttl, kept_for)
                };
                let SharedResponse { status, headers, .. } = response;
                let now = self.core().store.entries.now_ms();
                let tags = self.tags(&plan);
                let stored = StoredResponse::new(status, &headers, body, &plan, tags, stamp.copy(), now);
                let stored = stored.with_copy(Some(value.into_copy()));
                self.answer_with(stored, &plan, now, |ttl| Outcome::Shared { ttl })
            }
            Some(SharedEntry::Record { id, scope, fields }) if self.location.variant.is_none() => {
                if self.requester.check(scope).is_err() {
                    return Taken::Unusable;
                }
                let record = VaryRecord::with_id(id, scope, fields, stamp.copy());
                _ = record.copy.set(value.into_copy());
                self.continue_with_variant(Arc::new(record), kept_for)
            }
            _ => Taken::Unusable,
        }
    }

    /// The body in memory that is charged to this cache.
    fn keep(&self, body: &[u8]) -> Option<StoredBody> {
        let mut chunks = Vec::new();
        self.core().store.memory.keep(Bytes::copy_from_slice(body), &mut chunks).ok()?;
        Some(StoredBody::Complete(Chunks::new(chunks)))
    }

    /// The times and tags of the response of this fill.
    fn options(&self, plan: &Plan) -> larder::WriteOptions {
        tags::options(plan, self.location.resource.as_bytes(), self.requester.principal())
    }

    /// Whether no response of another replica can be used: a client wants a validation, or what is stored is validated at each use.
    fn must_ask_handler(&self) -> bool {
        let is_for_client = matches!(self.role, FillRole::Refresh(_)) && self.client.is_some();
        is_for_client || self.location.expired.as_ref().is_some_and(|stored| stored.is_never_fresh())
    }

    /// What judges a response that Redis does not have: its body is still being filled, or it is of this replica alone.
    pub(crate) fn running_copy(&self, plan: &Plan) -> Option<SharedCopy> {
        let lease = self.shared.lease.as_ref()?;
        Some(lease.copy(&self.options(plan)))
    }

    /// The key among those that are hit-for-miss of a resource without a scope: requests with credentials do not look for
    /// one in Redis.
    fn unscoped_key(&self) -> PurgeKey {
        let core = self.core();
        core.store.purges.purge_key(&[b"\xffunscoped:", self.location.key().as_bytes()].concat())
    }

    /// The response is not stored, for this reason. If that is not for the gate to say, the next requests with
    /// credentials do not look for it in Redis.
    pub(crate) fn note_unscoped(&self, reason: Reason) {
        if self.core().store.shared.is_some()
            && matches!(self.role, FillRole::Unticketed { .. })
            && !matches!(reason, Reason::Gate | Reason::Scope)
        {
            self.core().store.hit_for_miss.insert(self.unscoped_key(), ());
        }
    }

    /// Whether the record of the resource does not fit its response: that varies by other fields, or has another scope.
    fn has_other_record(&self, plan: &Plan) -> bool {
        let record = self.location.variant.as_ref().map(|(record, _)| record);
        record.is_some_and(|record| *record.fields() != *plan.vary || record.scope() != plan.scope)
    }

    /// Stores a complete response in Redis, and gives it the copy that judges it from now on.
    pub(crate) async fn share(&mut self, stored: StoredResponse, plan: &Plan) -> StoredResponse {
        let Some(store) = self.core().store.shared.clone() else { return stored };
        let (resource, mut key) = (self.location.resource.clone(), self.location.key().clone());
        let has_other_record = self.has_other_record(plan);
        if has_other_record {
            key = resource.clone();
        }
        if has_other_record || self.shared.is_alone {
            // Nobody must find the old one, and all must find the new one.
            _ = store.view.delete(&redis_key(&key)).await;
        }
        let Some(lease) = &self.shared.lease else { return stored };
        let is_unleased = lease.id().is_none() && matches!(self.role, FillRole::Unticketed { .. });
        if has_other_record || self.shared.is_alone || is_unleased {
            self.shared.lease = lease.also(&redis_key(&key)).await;
            if self.shared.lease.is_none() {
                // Another replica has stored it meanwhile. The next request gets that, and not a second record.
                self.shared.is_replaced = true;
                return stored;
            }
        }
        let has_record = self.location.variant.is_some() && !has_other_record;
        let needs_record = !has_record && (!plan.vary.is_empty() || plan.is_guarded());
        let first = needs_record.then(|| self.new_variant(&stored, plan));
        let Some(lease) = self.shared.lease.take() else { return stored };
        let options = self.options(plan);
        let is_short = stored.complete_body().is_some_and(|body| body.len() <= store.max_body_bytes);
        let times = SharedTimes::of(plan, tags::kept(plan));
        let framed = |times: SharedTimes, entry: Vec<u8>| [&times.to_bytes()[..], &entry].concat();
        let encoded = |key: &Key| {
            let entry = is_short.then(|| codec::encode_response(key, &stored)).flatten();
            entry.map(|entry| framed(times, entry))
        };
        let committed = match first {
            None => store.commit(lease, encoded(&key), &options).await,
            // It is not stored here either.
            Some(Err(_)) => Committed::Here(lease.copy(&options)),
            Some(Ok((record, variant))) => {
                // First: who finds the record must find the variant.
                let committed = match lease.also(&redis_key(&variant)).await {
                    Some(lease) => store.commit(lease, encoded(&variant), &options).await,
                    None => Committed::Here(lease.copy(&options)),
                };
                let options = tags::record_options(plan, resource.as_bytes());
                let entry = codec::encode_record(&resource, &record);
                let entry = entry.map(|entry| framed(SharedTimes::default(), entry));
                match store.commit(lease, entry, &options).await {
                    Committed::Everywhere(copy) | Committed::Here(copy) => {
                        _ = record.copy.set(copy);
                        committed
                    }
                    Committed::Refused => Committed::Refused,
                }
            }
        };
        match committed {
            Committed::Everywhere(copy) | Committed::Here(copy) => stored.with_copy(Some(copy)),
            Committed::Refused => {
                self.shared.is_replaced = true;
                stored
            }
        }
    }
}
