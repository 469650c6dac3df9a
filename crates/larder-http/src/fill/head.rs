//! What the response to a HEAD means for the stored response to a GET, under the profile `rfc` (RFC 9111, 4.3.5): if it is about
//! that response, that is fresh again, and has the fields of the HEAD; if it is about another one, that is stale.
//!
//! A HEAD changes what its lookup has found, and nothing that was stored since. It keeps to the rules of a fill: what its handler sees,
//! the purges meanwhile, who may have the response. What replicas share stays as it is, because only a lease may replace it, and so does
//! what is on disk alone.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::COOKIE;
use http::{Request, Response, StatusCode};

use super::validation::Merged;
use super::{Fill, FillRole, RunningFill};
use crate::headers::fields::FieldSet;
use crate::key;
use crate::policy::ctx::CacheCtx;
use crate::policy::gate::Requester;
use crate::policy::plan::Plan;
use crate::policy::profile::Profile;
use crate::policy::scope::Scope;
use crate::rfc::validation::HeadMatch;
use crate::shared::Verdict;
use crate::store::HttpCache;
use crate::store::location::StoreLocation;
use crate::stored::entry::{StoreValue, StoredResponse};
use crate::stored::purge::PurgeStamp;

/// A HEAD whose response may change a stored one.
pub(crate) struct HeadUpdate {
    /// Replaces what was found. It has no client, so that the types of bodies and errors do not matter.
    fill: Fill<String, Infallible>,
    found: Arc<StoredResponse>,
    stamp: PurgeStamp,
    begun_ms: u64,
}

impl HeadUpdate {
    /// Of a HEAD that is sent now. `None` if it changes nothing: nothing is stored for it, or it has credentials or cookies, so that
    /// its response may be another one than that of others.
    pub(crate) fn new<T>(
        cache: &HttpCache,
        location: &StoreLocation,
        request: &Request<T>,
    ) -> Option<HeadUpdate> {
        let core = cache.core();
        let has_credentials =
            core.rules.personal.credentials(request, FieldSet::of(request.headers())).is_some();
        if core.rules.profile != Profile::Rfc
            || core.store.shared.is_some()
            || has_credentials
            || request.headers().contains_key(COOKIE)
        {
            return None;
        }
        let found = location.expired.clone().filter(|found| {
            found.is_of_origin() && found.scope < Some(Scope::Gated) && found.complete_body().is_some()
        })?;
        let fill = Fill {
            cache: cache.clone(),
            location: StoreLocation { expired: None, ..location.clone() },
            role: FillRole::Refresh(StoreValue::Response(found.clone())),
            request_headers: request.headers().clone(),
            requester: Requester::default(),
            head_only: true,
            _running: RunningFill::new(core)?,
            client: None,
            first_variant: Default::default(),
            shared: Default::default(),
            disk: Default::default(),
        };
        // In this order: every purge covers either what was found or what will be stored.
        let stamp = core.store.purges.stamp(key::uri_of(location.resource.as_bytes()));
        let is_valid = fill.verdict(&found) == Verdict::Usable;
        is_valid.then(|| HeadUpdate { fill, found, stamp, begun_ms: core.store.entries.now_ms() })
    }

    /// Changes what is stored, if the response tells that.
    pub(super) fn follow<T>(&mut self, response: &Response<T>, ctx: &CacheCtx) {
        if response.status() != StatusCode::OK {
            return;
        }
        match self.found.match_head(response.headers()) {
            HeadMatch::Stored => self.renew(response, ctx),
            HeadMatch::Other => self.end_freshness(),
            HeadMatch::Unknown => {}
        }
    }

    fn renew<T>(&mut self, response: &Response<T>, ctx: &CacheCtx) {
        let (mut head, ()) = Response::new(()).into_parts();
        head.headers = response.headers().clone();
        head.extensions = response.extensions().clone();
        let now = self.fill.core().store.entries.now_ms();
        let delay = Duration::from_millis(now.saturating_sub(self.begun_ms));
        let Merged { stored, plan, unstored, .. } =
            self.fill.merge(&self.found, head, ctx, false, self.stamp.copy(), (now, delay));
        if let Some(reason) = unstored {
            return self.fill.abandon_store(reason, StatusCode::OK);
        }
        if !self.is_for_location(&plan) {
            return self.end_freshness();
        }
        let stored = Arc::new(self.fill.with_siblings(stored, &plan));
        let result = self.fill.store(&stored, &plan).map(drop);
        // Whatever became of it, the client gets the response to its HEAD.
        _ = self.fill.settle(result);
    }

    /// Whether requests that select what was found may have a response with this plan: it varies by the same fields, and has the same
    /// scope.
    fn is_for_location(&self, plan: &Plan) -> bool {
        match &self.fill.location.variant {
            None => plan.vary.is_empty() && !plan.is_guarded(),
            Some((record, _)) => *record.fields() == *plan.vary && record.scope() == plan.scope,
        }
    }

    /// What was found must be validated before its next use.
    fn end_freshness(&self) {
        let store = &self.fill.core().store;
        let now = store.entries.now_ms();
        if !self.found.is_expired(now) {
            // There it would be as fresh as before.
            store.forget_on_disk(self.fill.location.key());
            self.found.mark_stale_since(now);
        }
    }
}
