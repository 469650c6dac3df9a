//! What a fill asks the other replicas before it runs the handler, and what it stores for them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use larder::{Committed, SharedCopy, SharedFetch, SharedLease, SharedReload, SharedValue};
use larder_engine::{Load, Ttl};
use tokio::time::sleep;
use twox_hash::XxHash3_128;

use crate::fill::{Fill, FillRole, UnticketedFill};
use crate::key::{self, Key};
use crate::policy::plan::Plan;
use crate::shared::codec::{self, SharedEntry, SharedResponse};
use crate::shared::replicas::redis_key;
use crate::shared::{Permits, SharedStore, Verdict, tags};
use crate::status::{Outcome, Reason};
use crate::store::location::StoreLocation;
use crate::stored::body::BoxError;
use crate::stored::chunks::Chunks;
use crate::stored::entry::{self, ReplayRequest, StoreValue, StoredBody, StoredResponse};
use crate::stored::purge::{PurgeKey, PurgeStamp};
use crate::stored::record::VaryRecord;

/// How often a refresh looks whether another replica has refreshed the entry, and the pause before each look.
const REFRESH_LOOKS: (usize, Duration) = (20, Duration::from_millis(100));

/// The part of a fill that concerns other replicas.
#[derive(Debug, Default)]
pub(crate) struct FillShare {
    /// The right to load, until the response is shared.
    lease: Option<SharedLease>,
    /// Redis has the response of another fill by now, or the place for this one is gone: a purge is none of the reasons.
    is_replaced: bool,
}

impl FillShare {
    /// Whether another replica has stored another response.
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    pub(crate) fn has_lease(&self) -> bool {
        self.lease.is_some()
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
    loop {
        let key = redis_key(fill.location.key());
        let value = match &fill.role {
            // Requests with credentials wait for no others until the resource is known to have a scope. Redis may know it.
            FillRole::Unticketed { .. } => {
                let is_unscoped = fill.core().store.hit_for_miss.contains(&fill.unscoped_key());
                let found = if is_unscoped { None } else { store.view.read(&key).await };
                let Some(value) = found else {
                    fill.shared.lease = Some(store.view.unleased(&key).await);
                    return Some(request);
                };
                value
            }
            FillRole::Leader(_) => match store.view.fetch(&key).await {
                SharedFetch::Found(value) => value,
                SharedFetch::Lease(lease) => {
                    fill.shared.lease = Some(lease);
                    return Some(request);
                }
            },
            FillRole::Refresh(_) => match store.refreshed(&key).await {
                SharedReload::Found(value) => value,
                SharedReload::Lease(lease) => {
                    fill.shared.lease = Some(lease);
                    return Some(request);
                }
                SharedReload::Elsewhere => return None,
            },
        };
        // The gate may deny now what it has allowed before the wait for another replica.
        if fill.location.is_guarded() {
            request = fill.requester.ask_again(&cache.core().gate, request).await;
        }
        match fill.take(value, &stamp) {
            Taken::Answered => return None,
            Taken::Varies => {}
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

/// What became of a value from Redis.
enum Taken {
    /// It is stored and has answered the client.
    Answered,
    /// It was a record: the fill is now for a variant.
    Varies,
    /// It is malformed, purged meanwhile, longer than this replica stores, or there is no memory for it.
    Unusable,
}

impl SharedStore {
    /// Waits while another replica refreshes an entry.
    async fn refreshed(&self, key: &[u8]) -> SharedReload {
        let (looks, pause) = REFRESH_LOOKS;
        for _ in 0..looks {
            match self.view.reload(key).await {
                SharedReload::Elsewhere => sleep(pause).await,
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
        match codec::decode(&key, value.bytes()) {
            Some(SharedEntry::Response(response)) => {
                let is_long = response.body.len() > self.core().limits.max_body_bytes;
                if is_long || self.requester.check(response.scope).is_err() {
                    return Taken::Unusable;
                }
                let Some(body) = self.keep(response.body) else { return Taken::Unusable };
                let varies = self.location.variant.as_ref();
                let plan = Plan {
                    ttl,
                    grace: kept_for.saturating_sub(ttl),
                    age: Duration::from_millis(response.age_ms).saturating_add(age),
                    outlives_values: true,
                    scope: response.scope,
                    labels: response.labels.clone(),
                    vary: varies.map_or_else(Box::default, |(record, _)| record.fields().into()),
                    ..Plan::default()
                };
                let SharedResponse { status, headers, .. } = response;
                let now = self.core().store.entries.now_ms();
                let tags = self.tags(&plan);
                let stored = StoredResponse::new(status, &headers, body, &plan, tags, stamp.copy(), now);
                self.answer_with(stored.with_copy(Some(value.into_copy())), &plan, now)
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

    /// Stores a response from Redis, which answers the followers, and sends it to the client.
    fn answer_with(&mut self, stored: StoredResponse, plan: &Plan, now: u64) -> Taken {
        let stored = Arc::new(self.with_siblings(stored, plan));
        let verdict = self.core().store.verdict(&StoreValue::Response(stored.clone()), Permits::default());
        if verdict == Verdict::Dead {
            return Taken::Unusable;
        }
        // If it is not stored, it was purged meanwhile or finds no room; the client asked before.
        if self.store(&stored, plan).is_ok() {
            let core = self.core();
            core.store.hit_for_miss.remove(&core.store.hit_for_miss_key(&self.location));
        }
        if let Some(client) = self.client.take() {
            let outcome = match stored.outcome(now) {
                Outcome::Hit { ttl } => Outcome::Shared { ttl },
                stale => stale,
            };
            let counters = &self.core().counters;
            let request =
                ReplayRequest { head_only: self.head_only, ..ReplayRequest::get(&self.request_headers) };
            let response = entry::answer(counters, &stored, request, outcome, now);
            _ = client.send(Ok(response));
        }
        Taken::Answered
    }

    /// Stores the record of a resource that varies. The fill goes on for the variant that its request selects.
    fn continue_with_variant(&mut self, record: Arc<VaryRecord>, kept_for: Duration) -> Taken {
        let written = key::with_key_buffer(|key| {
            record.write_key(key, self.requester.principal(), &self.request_headers)?;
            Ok::<_, Reason>(Key::new(key))
        });
        let Ok(variant) = written else { return Taken::Unusable };
        let (cache, resource) = (self.cache.clone(), self.location.resource.clone());
        // Before others can find the record, so that they follow this fill.
        let role = match cache.core().store.entries.load(&variant) {
            Load::Lead(ticket) => FillRole::Leader(Some(ticket)),
            Load::Hit(_) | Load::Follow(_) => {
                FillRole::Unticketed { _counted: UnticketedFill::new(cache.core()) }
            }
        };
        let value = StoreValue::Varies(record.clone());
        if self.role.store(cache.core(), &resource, value, Ttl::After(kept_for)).is_err() {
            return Taken::Unusable;
        }
        self.role = role;
        self.location = StoreLocation { resource, variant: Some((record, variant)), expired: None };
        Taken::Varies
    }

    /// The times and tags of the response of this fill.
    fn options(&self, plan: &Plan) -> larder::WriteOptions {
        tags::options(plan, self.location.resource.as_bytes(), self.requester.principal())
    }

    /// What judges a response whose body is still being filled.
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
            // Nobody must find the old record, and all must find the new one.
            _ = store.view.delete(&redis_key(&key)).await;
        }
        if has_other_record || matches!(self.role, FillRole::Unticketed { .. }) {
            let Some(lease) = &self.shared.lease else { return stored };
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
        let encoded = |key: &Key| codec::encode_response(key, &stored).filter(|_| is_short);
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
                match store.commit(lease, codec::encode_record(&resource, &record), &options).await {
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
