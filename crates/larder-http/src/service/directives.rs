//! Requests whose client states its own terms by `Cache-Control` (RFC 9111, 5.2.1), or has cookies, under the profile `rfc`.

use std::sync::Arc;

use http::Request;

use super::{Call, HttpCacheService};
use crate::fill::FillRole;
use crate::fill::forward::{Handler, HandlerBody};
use crate::fill::miss;
use crate::headers::fields::FieldSet;
use crate::key::RequestKey;
use crate::policy::profile::Profile;
use crate::policy::scope::Scope;
use crate::request::traits::RequestTraits;
use crate::rfc::requesting::Use;
use crate::service::response_future::AnswerFuture;
use crate::status::Reason;
use crate::store::location::StoreLocation;
use crate::stored::entry::{StoreValue, StoredResponse};

impl<S: Clone, K: Send + Sync + 'static> HttpCacheService<S, K> {
    /// Whether a stored response may be refused to this client: it states terms, or has cookies.
    pub(super) fn has_terms(&self, traits: RequestTraits) -> bool {
        self.cache().core().rules.profile == Profile::Rfc
            && traits.fields.has(FieldSet::CACHE_CONTROL | FieldSet::COOKIE)
    }

    /// What to do with a stored response for a client that states its terms.
    pub(super) fn use_of<T>(&self, request: &Request<T>, stored: &StoredResponse, now: u64) -> Use {
        stored.use_for_request(request.headers(), now)
    }

    /// The expired response that a client accepts whose `max-stale` allows it, and the time now.
    pub(super) fn stale_for<T>(
        &self,
        call: &Call<T>,
        location: &StoreLocation,
    ) -> Option<(Arc<StoredResponse>, u64)> {
        let expired = location.expired.as_ref().filter(|_| self.has_terms(call.traits))?;
        let now = self.cache().core().store.entries.now_ms();
        let is_accepted = expired.scope < Some(Scope::Gated)
            && call.requester.check(expired.scope).is_ok()
            && self.use_of(&call.request, expired, now) == Use::Serve;
        is_accepted.then(|| (expired.clone(), now))
    }

    /// Validates a stored response for this client alone. Others are served from the store meanwhile. A HEAD is forwarded.
    pub(super) fn validate<ReqBody, B>(
        &self,
        call: Call<ReqBody>,
        stored: Arc<StoredResponse>,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        let is_head = call.traits.head;
        if is_head && call.traits.only_if_cached {
            return self.only_if_cached();
        }
        if !is_head && call.traits.fields.has(FieldSet::RANGE) {
            return self.decline(call, Reason::Range);
        }
        let Call { mut request, body_key, requester, traits } = call;
        let location = self.cache().core().location_of(RequestKey::new(&request, &body_key));
        let mut location = match location {
            Ok(location) => location,
            Err(reason) => return self.pass(request, reason, false),
        };
        location.expired = Some(stored.clone());
        if is_head {
            return self.answer_unfilled(request, &location, Reason::Head);
        }
        traits.mark(&mut request);
        let role = FillRole::Refresh(StoreValue::Response(stored));
        let (cache, inner) = (self.cache().clone(), self.inner());
        AnswerFuture::boxed(miss::run_fill(cache, inner, request, location, role, requester))
    }
}
