//! Requests that fill no response: a HEAD, most ranges, and those that want a stored response or none. Before they go to
//! the handler they look on disk, or in a shared cache ask Redis.

use bytes::Bytes;
use http::Method;
use http::{Request, Response};
use tokio::sync::oneshot;
use tower_service::Service;

use crate::fill::forward::{FollowUp, Handler, HandlerBody, RangeCheck};
use crate::fill::head::HeadUpdate;
use crate::fill::{self, Fill, FillRole, RunningFill, ServiceResult, UnticketedFill};
use crate::headers::fields::FieldSet;
use crate::policy::gate::Requester;
use crate::request::traits::RequestTraits;
use crate::service::HttpCacheService;
use crate::service::response_future::AnswerFuture;
use crate::status::{Outcome, Reason};
use crate::store::core::CacheCore;
use crate::store::location::StoreLocation;

impl CacheCore {
    /// Why a request fills no response of this location; `None` if it may.
    pub(crate) fn why_unfilled(
        &self,
        traits: RequestTraits,
        requester: &Requester,
        location: &StoreLocation,
        is_hit_for_miss: bool,
    ) -> Option<Reason> {
        if traits.only_if_cached {
            return Some(Reason::OnlyIfCached);
        }
        if traits.head {
            return Some(Reason::Head);
        }
        // A handler that serves ranges gets this one, until it is known that a complete body can be stored: a client that asks
        // for a part of a long file must not get all of it.
        let may_fill = || {
            !is_hit_for_miss
                && self.store.may_fill_for_range(location)
                && (requester.credentials.is_none() || self.store.is_shared(location))
        };
        (traits.fields.has(FieldSet::RANGE) && !may_fill()).then_some(Reason::Range)
    }
}

impl<S: Clone, K: Send + Sync + 'static> HttpCacheService<S, K> {
    /// Answers a request that fills no response, for this reason.
    pub(crate) fn answer_unfilled<ReqBody, B>(
        &self,
        request: Request<ReqBody>,
        location: &StoreLocation,
        reason: Reason,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: http_body::Body<Data = Bytes>,
    {
        let follow_up = match reason {
            Reason::OnlyIfCached => return self.only_if_cached(),
            Reason::Range => FollowUp::LearnRange(RangeCheck::new(self.cache().core(), location, &request)),
            Reason::Head => HeadUpdate::new(self.cache(), location, &request)
                .map_or(FollowUp::Nothing, |update| FollowUp::UpdateStored(Box::new(update))),
            _ => FollowUp::Nothing,
        };
        self.forward(request, Outcome::Bypass(reason), follow_up)
    }

    /// The same, after a look on disk, or into Redis: another replica may have stored the response.
    pub(crate) fn find_elsewhere<ReqBody, B>(
        &self,
        mut request: Request<ReqBody>,
        location: StoreLocation,
        mut requester: Requester,
        reason: Reason,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        let service = self.clone();
        let future = async move {
            let cache = service.cache();
            let Some(running) = RunningFill::new(cache.core()) else {
                return service.answer_unfilled(request, &location, reason).await;
            };
            if requester.access.is_none() {
                request = requester.ask(&cache.core().gate, request).await;
            }
            let (client, mut response) = oneshot::channel::<ServiceResult<B, S::Error>>();
            let mut fill = Fill {
                cache: cache.clone(),
                location: location.clone(),
                role: FillRole::Unticketed { _counted: UnticketedFill::new(cache.core()) },
                request_headers: request.headers().clone(),
                requester,
                head_only: *request.method() == Method::HEAD,
                _running: running,
                client: Some(client),
                first_variant: Default::default(),
                shared: Default::default(),
                disk: Default::default(),
            };
            match fill::find(&mut fill, request).await {
                Some(request) => service.answer_unfilled(request, &location, reason).await,
                None => response.try_recv().expect("it was answered"),
            }
        };
        AnswerFuture::boxed(future)
    }
}
