//! The future of a response: reads the body of the request, if that is a part of the key, and then waits for the answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::fill::ServiceResult;
use crate::fill::forward::{Forward, Handler, HandlerBody};
use crate::request::body_key::{BodyKey, NoBodyKey};
use crate::request::traits::RequestTraits;
use crate::service::HttpCacheService;
use crate::stored::body::Body;

pin_project! {
    /// The future of a response: from the store, from the inner service, or from a fill.
    pub struct ResponseFuture<S, ReqBody, B, K = NoBodyKey>
    where
        S: Service<Request<ReqBody>>,
        B: http_body::Body,
        K: BodyKey<ReqBody>,
    {
        #[pin]
        stage: Stage<S, ReqBody, B, K>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, ReqBody, B, K>
    where
        S: Service<Request<ReqBody>>,
        B: http_body::Body,
        K: BodyKey<ReqBody>,
    {
        // Here and not in a future of its own: it would be allocated for each request that has a body rule.
        Reading {
            service: HttpCacheService<S, K>,
            call: Option<(Parts, RequestTraits)>,
            rule: K::Rule,
            #[pin]
            reader: K::Reader,
        },
        Answering { #[pin] answer: AnswerFuture<S, ReqBody, B> },
    }
}

impl<S, ReqBody, B, K> ResponseFuture<S, ReqBody, B, K>
where
    S: Service<Request<ReqBody>>,
    B: http_body::Body,
    K: BodyKey<ReqBody>,
{
    /// Reads the body first.
    pub(crate) fn reading(
        service: HttpCacheService<S, K>,
        request: Request<ReqBody>,
        rule: K::Rule,
        traits: RequestTraits,
    ) -> Self {
        let (head, body) = request.into_parts();
        let reader = K::reader(&rule, body);
        ResponseFuture { stage: Stage::Reading { service, call: Some((head, traits)), rule, reader } }
    }

    pub(crate) fn answering(answer: AnswerFuture<S, ReqBody, B>) -> Self {
        ResponseFuture { stage: Stage::Answering { answer } }
    }
}

impl<S, ReqBody, B, K> Future for ResponseFuture<S, ReqBody, B, K>
where
    S: Handler<ReqBody, B>,
    ReqBody: Send + 'static,
    B: HandlerBody,
    K: BodyKey<ReqBody>,
{
    type Output = ServiceResult<B, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = match self.as_mut().project().stage.project() {
            StageProjection::Answering { answer } => return answer.poll(cx),
            StageProjection::Reading { service, call, rule, reader } => {
                let read = ready!(service.body_key().poll_read(rule, reader, cx));
                let (head, traits) = call.take().expect("a completed future is not polled again");
                let into_body = |body| K::restore(rule, body);
                match read {
                    Ok((body, Ok(key))) => {
                        service.answer(Request::from_parts(head, body), into_body, Some(key), traits)
                    }
                    Ok((body, Err(reason))) => {
                        service.pass(Request::from_parts(head, into_body(body)), reason, false)
                    }
                    Err(rejection) => AnswerFuture::ready(service.reject(rejection)),
                }
            }
        };
        // A hit is ready: it is not moved once more.
        if let Kind::Ready { response } = &mut answer.kind {
            return Poll::Ready(Ok(response.take().expect("nobody has taken it")));
        }
        self.set(ResponseFuture::answering(answer));
        self.poll(cx)
    }
}

pin_project! {
    /// The answer to a request whose key is known.
    pub(crate) struct AnswerFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: http_body::Body,
    {
        #[pin]
        kind: Kind<S, ReqBody, B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: http_body::Body,
    {
        Ready { response: Option<Response<Body<B>>> },
        Forward { #[pin] future: Forward<S, ReqBody> },
        Boxed { future: Pin<Box<dyn Future<Output = ServiceResult<B, S::Error>> + Send>> },
    }
}

impl<S, ReqBody, B> AnswerFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>>,
    B: http_body::Body,
{
    pub(crate) fn ready(response: Response<Body<B>>) -> Self {
        AnswerFuture { kind: Kind::Ready { response: Some(response) } }
    }

    pub(crate) fn forward(future: Forward<S, ReqBody>) -> Self {
        AnswerFuture { kind: Kind::Forward { future } }
    }

    pub(crate) fn boxed(future: impl Future<Output = ServiceResult<B, S::Error>> + Send + 'static) -> Self {
        AnswerFuture { kind: Kind::Boxed { future: Box::pin(future) } }
    }
}

impl<S, ReqBody, B> Future for AnswerFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>, Response = Response<B>>,
    B: http_body::Body<Data = Bytes>,
{
    type Output = ServiceResult<B, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::Ready { response } => {
                Poll::Ready(Ok(response.take().expect("a completed future is not polled again")))
            }
            KindProjection::Forward { future } => future.poll(cx),
            KindProjection::Boxed { future } => future.as_mut().poll(cx),
        }
    }
}
