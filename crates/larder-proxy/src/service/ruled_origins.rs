//! The service between the cache and the origins: refuses requests about which the gate had no answer, tells the origins how the
//! others have arrived, and applies rules to responses.

use crate::fields::arrival::Arrival;
use crate::fields::via::Pseudonym;
use crate::gate::GateProgress;
use crate::origin::Origins;
use crate::origin::origin_error::OriginError;
use crate::origin::request_body::RequestBody;
use crate::origin::response_body::OriginBody;
use crate::rules::{Rule, response};
use http::{Request, Response};
use larder_http::CacheCtx;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_service::Service;

/// The origins, whose responses obey the rules. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RuledOrigins {
    pub(super) unruled: Origins,
    pub(super) pseudonym: Pseudonym,
}

/// The future of a response that obeys the rules.
pub(crate) struct RuledFuture {
    /// The error is there for requests that no origin gets.
    response: Result<<Origins as Service<Request<RequestBody>>>::Future, Option<OriginError>>,
    rule: Option<Arc<Rule>>,
    ctx: Option<CacheCtx>,
}

impl Service<Request<RequestBody>> for RuledOrigins {
    type Response = Response<OriginBody>;
    type Error = OriginError;
    type Future = RuledFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        self.unruled.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> RuledFuture {
        if let Some(arrival) = request.extensions_mut().remove::<Arrival>() {
            arrival.add_to(request.headers_mut(), &self.pseudonym);
        }
        let extensions = request.extensions();
        let failure = extensions.get::<GateProgress>().and_then(GateProgress::failure);
        let (rule, ctx) = (extensions.get::<Arc<Rule>>().cloned(), extensions.get::<CacheCtx>().cloned());
        let response = match failure {
            Some(reason) => Err(Some(OriginError::Gate(reason))),
            None => Ok(self.unruled.call(request)),
        };
        RuledFuture { response, rule, ctx }
    }
}

impl Future for RuledFuture {
    type Output = Result<Response<OriginBody>, OriginError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut origin_response = match &mut self.response {
            Ok(future) => ready!(future.as_mut().poll(context))?,
            Err(error) => {
                return Poll::Ready(Err(error.take().expect("a completed future is not polled again")));
            }
        };
        response::apply(self.rule.as_deref(), self.ctx.as_ref(), &mut origin_response);
        Poll::Ready(Ok(origin_response))
    }
}
