//! The gate, which judges requests for responses that are for some clients only; and what is known of a client, by the gate
//! and by the credentials of its request, which decides whether it may get or fill a response of a scope.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::request::Parts;
use tokio::time::timeout;

use crate::policy::scope::Scope;
use crate::status::Reason;

/// The verdict of a [`gate`](crate::Builder::gate) on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The request gets nothing from the cache: it goes to the handler, which answers it as it always does.
    Denied,
    /// The request may have gated responses. It has no principal, so no private ones.
    Allowed,
    /// The same, and the responses that are private to this principal, such as the id of a user.
    AllowedAs(String),
}

/// The future of a gate's verdict.
pub(crate) type AccessFuture = Pin<Box<dyn Future<Output = Access> + Send>>;

/// The application's judgement of requests; see [`Builder::gate`](crate::Builder::gate).
#[derive(Clone)]
pub(crate) struct Gate {
    judge: Arc<dyn Fn(&Parts) -> AccessFuture + Send + Sync>,
    /// How long a verdict may take.
    timeout: Duration,
}

impl Gate {
    pub(crate) fn new<F, A>(judge: F) -> Gate
    where
        F: Fn(&Parts) -> A + Send + Sync + 'static,
        A: Future<Output = Access> + Send + 'static,
    {
        Gate { judge: Arc::new(move |parts| Box::pin(judge(parts))), timeout: Duration::ZERO }
    }

    pub(crate) fn with_timeout(self, timeout: Duration) -> Gate {
        Gate { timeout, ..self }
    }

    /// Asks about a request, and returns it. The verdict does not borrow the request: its body may not be `Sync`.
    fn ask<B>(&self, request: Request<B>) -> (Request<B>, AccessFuture) {
        let (parts, body) = request.into_parts();
        let access = (self.judge)(&parts);
        (Request::from_parts(parts, body), access)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

/// What is known of the client of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requester {
    /// The kind of credentials that the request has.
    pub(crate) credentials: Option<Reason>,
    /// `None` until the gate was asked.
    pub(crate) access: Option<Access>,
}

impl Requester {
    /// Asks the gate, if the cache has one.
    pub(crate) async fn ask<B>(&mut self, gate: &Option<Gate>, request: Request<B>) -> Request<B> {
        let Some(gate) = gate else { return request };
        let (request, access) = gate.ask(request);
        self.access = Some(timeout(gate.timeout, access).await.unwrap_or(Access::Denied));
        request
    }

    /// Asks the gate once more after a wait. The keys of a fill are those of its first verdict: if there is another one now,
    /// the request gets nothing from the cache and stores nothing.
    #[cfg(feature = "shared")]
    pub(crate) async fn ask_again<B>(&mut self, gate: &Option<Gate>, request: Request<B>) -> Request<B> {
        let before = self.access.clone();
        let request = self.ask(gate, request).await;
        if self.access != before {
            self.access = Some(Access::Denied);
        }
        request
    }

    pub(crate) fn principal(&self) -> Option<&str> {
        match &self.access {
            Some(Access::AllowedAs(principal)) => Some(principal),
            _ => None,
        }
    }

    /// # Errors
    /// Why this client may neither get nor fill a response of this scope.
    pub(crate) fn check(&self, scope: Option<Scope>) -> Result<(), Reason> {
        match (scope, &self.access) {
            (None, _) => self.credentials.map_or(Ok(()), Err),
            (Some(Scope::Public), _) => Ok(()),
            (Some(_), Some(Access::Denied)) => Err(Reason::Gate),
            (Some(Scope::Gated), Some(_)) | (Some(Scope::Private), Some(Access::AllowedAs(_))) => Ok(()),
            (Some(_), _) => Err(Reason::Scope),
        }
    }
}
