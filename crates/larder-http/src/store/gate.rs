//! Who may have a response: its scope, the gate that judges requests, and the lookup of guarded responses.
//!
//! ```text
//! key ──► record: scope, Vary ──► gate ──► key with the principal and the values of Vary ──► response
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::Request;
use http::request::Parts;
use tokio::time::timeout;

use crate::key::Key;
use crate::status::Reason;
use crate::store::{Asked, CacheCore, HttpCache, Lookup, Permits};
use crate::stored::vary::VaryRecord;

/// Who may get a stored response. The order is from the widest to the narrowest; of several, the narrowest counts.
///
/// A response without a scope is for requests without credentials: those without `Authorization`, without cookies, and
/// without what [`Builder::credential_fields`](crate::Builder::credential_fields) and
/// [`Builder::personal_extension`](crate::Builder::personal_extension) name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everyone: the response does not depend on who asks. Credentials of requests do not matter.
    Public,
    /// Every request that the [`gate`](crate::Builder::gate) allows. The gate is asked on each hit, so that a revoked
    /// session gets nothing more. The response must be the same for all of them. It is never served stale.
    Gated,
    /// One principal: the gate names it, and it is a part of the key. All else is as with `Gated`, and the response may
    /// be `Cache-Control: private`. Such responses take at most a quarter of
    /// [`Builder::max_bytes`](crate::Builder::max_bytes), and those of one principal a hundredth; the oldest go first.
    Private,
}

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
pub(crate) struct Gate(Arc<dyn Fn(&Parts) -> AccessFuture + Send + Sync>);

impl Gate {
    pub(crate) fn new<F, A>(gate: F) -> Gate
    where
        F: Fn(&Parts) -> A + Send + Sync + 'static,
        A: Future<Output = Access> + Send + 'static,
    {
        Gate(Arc::new(move |parts| Box::pin(gate(parts))))
    }

    /// Asks about a request, and returns it. The verdict does not borrow the request: its body may not be `Sync`.
    fn ask<B>(&self, request: Request<B>) -> (Request<B>, AccessFuture) {
        let (parts, body) = request.into_parts();
        let access = (self.0)(&parts);
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
    pub(crate) async fn ask<B>(&mut self, core: &CacheCore, request: Request<B>) -> Request<B> {
        let Some(gate) = &core.gate else { return request };
        let (request, access) = gate.ask(request);
        self.access = Some(timeout(core.gate_timeout, access).await.unwrap_or(Access::Denied));
        request
    }

    /// Asks the gate once more after a wait. The keys of a fill are those of its first verdict: if there is another one now,
    /// the request gets nothing from the cache and stores nothing.
    #[cfg(feature = "shared")]
    pub(crate) async fn ask_again<B>(&mut self, core: &CacheCore, request: Request<B>) -> Request<B> {
        let before = self.access.clone();
        let request = self.ask(core, request).await;
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

/// A resource whose responses are guarded: only the gate tells which of them a request may have.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) resource: Key,
    pub(crate) record: Arc<VaryRecord>,
}

/// Asks the gate, then looks up the response that the request may have. Returns the request.
///
/// # Errors
/// Why the request gets nothing from the cache.
pub(crate) async fn look_up<B>(
    cache: &HttpCache,
    request: Request<B>,
    guarded: Guarded,
    requester: &mut Requester,
    asked: Asked,
) -> (Request<B>, Result<Lookup, Reason>) {
    let core = cache.core();
    let request = requester.ask(core, request).await;
    let headers = request.headers();
    let look_up = |permits: Permits<'_>| core.look_up_guarded(&guarded, requester, headers, permits);
    let found = core.look_up_verified(asked, look_up).await;
    (request, found)
}
