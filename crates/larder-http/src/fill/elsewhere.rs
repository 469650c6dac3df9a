//! A response that a fill finds elsewhere than in memory, so that it calls no handler: on disk, or in Redis. It answers the client
//! and all who follow, and stays in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_engine::{Load, Ttl};

use crate::fill::{Fill, FillRole, UnticketedFill};
use crate::key::{self, Key};
use crate::policy::plan::Plan;
use crate::policy::profile::Profile;
use crate::rfc::requesting::Use;
use crate::shared::{Permits, Verdict};
use crate::status::{Outcome, Reason};
use crate::store::location::StoreLocation;
use crate::stored::body::BoxError;
use crate::stored::entry::{self, ReplayRequest, StoreValue, StoredResponse};
use crate::stored::record::VaryRecord;

/// What became of an entry from elsewhere.
pub(super) enum Taken {
    /// It is stored and has answered the client.
    Answered,
    /// It was a record: the fill is now for a variant.
    Varies,
    /// It is malformed, purged meanwhile, longer than this replica stores, there is no memory for it, or it must be validated.
    Unusable,
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Stores a response from elsewhere, which answers the followers, and sends it to the client. `hit` is its outcome while it
    /// is fresh, for so many seconds.
    pub(super) fn answer_with(
        &mut self,
        stored: StoredResponse,
        plan: &Plan,
        now: u64,
        hit: impl FnOnce(u64) -> Outcome,
    ) -> Taken {
        let stored = Arc::new(self.with_siblings(stored, plan));
        let verdict = self.core().store.verdict(&StoreValue::Response(stored.clone()), Permits::default());
        if verdict == Verdict::Dead || self.must_be_validated(&stored, now) {
            return Taken::Unusable;
        }
        // If it is not stored, it was purged meanwhile or finds no room; the client asked before.
        if self.store(&stored, plan).is_ok() {
            let core = self.core();
            core.store.hit_for_miss.remove(&core.store.hit_for_miss_key(&self.location));
        }
        if let Some(client) = self.client.take() {
            let outcome = match stored.outcome(now) {
                Outcome::Hit { ttl } => hit(ttl),
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

    /// Whether the client may not have a response as it is: it is expired, or the client states terms that it does not meet. If it
    /// can be validated, the fill does that.
    fn must_be_validated(&mut self, stored: &Arc<StoredResponse>, now: u64) -> bool {
        let meets_terms = self.client.is_none()
            || self.core().rules.profile != Profile::Rfc
            || matches!(
                stored.use_for_request(&self.request_headers, now),
                Use::Serve | Use::ServeAndValidate
            );
        let is_expired = stored.is_expired(now);
        if meets_terms && !is_expired {
            return false;
        }
        if stored.is_of_origin() && stored.kept_ms(now) > 0 {
            self.location.expired = Some(stored.clone());
        }
        if !is_expired {
            self.shared.validate_alone();
        }
        true
    }

    /// Stores the record of a resource that varies. The fill goes on for the variant that its request selects.
    pub(super) fn continue_with_variant(&mut self, record: Arc<VaryRecord>, kept_for: Duration) -> Taken {
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
        let store = &cache.core().store;
        let put = || self.role.store(cache.core(), &resource, value.clone(), Ttl::After(kept_for));
        if self.disk.put(store, (&resource, &resource), &value, put).is_err() {
            return Taken::Unusable;
        }
        self.role = role;
        self.location = StoreLocation { resource, variant: Some((record, variant)), expired: None };
        Taken::Varies
    }
}
