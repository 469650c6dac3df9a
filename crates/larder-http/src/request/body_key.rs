//! Request bodies as a part of the key: which requests have one ([`BodyRules`]), and the bounded read of the body.
//!
//! A body is read before the lookup, in full and up to a limit. The inner service gets the same bytes again, in the
//! same body type, so a layer without rules accepts any body and one with rules needs `From<Bytes>`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, StatusCode, Uri};

#[cfg(feature = "graphql")]
use crate::graphql;
use crate::request::read_body::{BodyReader, ReadLimits, ReadMemory};
use crate::status::Reason;

/// A body that was read, and what it contributes to the key, or why it has none.
pub(crate) type ReadBody = Result<(Bytes, Result<Bytes, Reason>), BodyRejection>;

/// The reason why the layer answers a request itself: its body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRejection {
    pub(crate) reason: Reason,
    limit: usize,
}

impl BodyRejection {
    pub(crate) fn status(self) -> StatusCode {
        match self.reason {
            Reason::RequestBodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Reason::RequestBodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Reason::RequestBodyMemory => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The answer's body: one line of text.
    pub(crate) fn message(self) -> String {
        match self.reason {
            Reason::RequestBodyTooLarge => {
                format!("the request body is longer than the limit of {} bytes\n", self.limit)
            }
            Reason::RequestBodyTimeout => "the request body did not arrive in time\n".to_owned(),
            Reason::RequestBodyMemory => "too many request bodies are being read\n".to_owned(),
            _ => "the request body ended early\n".to_owned(),
        }
    }
}

/// The treatment of request bodies of the type `ReqBody` by a layer: [`NoBodyKey`] or [`BodyRules`]. Sealed.
pub trait BodyKey<ReqBody>: sealed::Sealed + Clone + Send + Sync + 'static {
    #[doc(hidden)]
    type Rule: Send;

    /// A body that is being read.
    #[doc(hidden)]
    type Reader: Send;

    /// The rule for a request, decided by its head.
    #[doc(hidden)]
    fn rule(&self, method: &Method, uri: &Uri) -> Option<Self::Rule>;

    /// Whether a rule applies to other requests for this URI.
    #[doc(hidden)]
    fn has_rule_for(&self, uri: &Uri) -> bool;

    /// Whether the rule is one for GraphQL.
    #[doc(hidden)]
    fn is_graphql(&self, rule: &Self::Rule) -> bool;

    /// Whether the body is a part of the key, or why the request is forwarded unread.
    #[doc(hidden)]
    fn has_body_key(&self, rule: &mut Self::Rule, request: &Request<ReqBody>) -> Result<bool, Reason>;

    /// Starts to read a body.
    #[doc(hidden)]
    fn reader(rule: &Self::Rule, body: ReqBody) -> Self::Reader;

    /// Reads the body to its end.
    #[doc(hidden)]
    fn poll_read(
        &self,
        rule: &Self::Rule,
        reader: Pin<&mut Self::Reader>,
        cx: &mut Context<'_>,
    ) -> Poll<ReadBody>;

    /// The body that was read, for the inner service.
    #[doc(hidden)]
    fn restore(rule: &Self::Rule, body: Bytes) -> ReqBody;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::NoBodyKey {}
    impl Sealed for super::BodyRules {}
}

/// No body is a part of a key: only GET and HEAD are answered from the cache. The default of a layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBodyKey;

impl<ReqBody: 'static> BodyKey<ReqBody> for NoBodyKey {
    type Rule = Infallible;
    type Reader = Infallible;

    fn rule(&self, _: &Method, _: &Uri) -> Option<Infallible> {
        None
    }

    fn has_rule_for(&self, _: &Uri) -> bool {
        false
    }

    fn is_graphql(&self, rule: &Infallible) -> bool {
        match *rule {}
    }

    fn has_body_key(&self, rule: &mut Infallible, _: &Request<ReqBody>) -> Result<bool, Reason> {
        match *rule {}
    }

    fn reader(rule: &Infallible, _: ReqBody) -> Infallible {
        *rule
    }

    fn poll_read(&self, rule: &Infallible, _: Pin<&mut Infallible>, _: &mut Context<'_>) -> Poll<ReadBody> {
        match *rule {}
    }

    fn restore(rule: &Infallible, _: Bytes) -> ReqBody {
        match *rule {}
    }
}

/// The routes whose POST or QUERY requests are answered from the cache; see
/// [`HttpCacheLayer::body_rules`](crate::HttpCacheLayer::body_rules).
///
/// A request with a rule is treated like a GET: it does not invalidate its URI, its response is stored if the handler
/// opts in, and concurrent equal requests call the handler once. Its key has the method, the URI, the fields
/// `Content-Type`, `Content-Encoding` and `Content-Language`, and the complete body; all are compared in full. A purge
/// of the URI covers the responses to all bodies. Requests without a rule are forwarded without reading their body. The
/// rule of a GraphQL endpoint differs: see [`BodyRule::graphql`].
///
/// ```
/// use larder_http::{BodyRule, BodyRules};
///
/// let rules = BodyRules::new()
///     .route("/search", BodyRule::post().max_bytes(16 << 10))
///     .route("/graphql", BodyRule::graphql());
/// ```
#[derive(Clone, Debug, Default)]
pub struct BodyRules(Arc<Vec<(String, BodyRule)>>);

impl BodyRules {
    /// No rules.
    pub fn new() -> BodyRules {
        BodyRules::default()
    }

    /// Adds a rule for requests whose raw path is `path`, without decoding. If several rules match a request, the first one
    /// applies.
    pub fn route(mut self, path: impl Into<String>, rule: BodyRule) -> BodyRules {
        Arc::make_mut(&mut self.0).push((path.into(), rule));
        self
    }
}

impl<ReqBody> BodyKey<ReqBody> for BodyRules
where
    ReqBody: http_body::Body + From<Bytes> + Send + 'static,
    ReqBody::Data: Send,
    ReqBody::Error: Send,
{
    type Rule = AppliedRule;
    type Reader = BodyReader<ReqBody>;

    fn rule(&self, method: &Method, uri: &Uri) -> Option<AppliedRule> {
        let applies = |(path, rule): &(String, BodyRule)| rule.applies_to(method) && path == uri.path();
        Some(AppliedRule {
            index: self.0.iter().position(applies)?,
            #[cfg(feature = "graphql")]
            format: None,
            is_too_long: false,
        })
    }

    fn has_rule_for(&self, uri: &Uri) -> bool {
        self.0.iter().any(|(path, _)| path == uri.path())
    }

    fn is_graphql(&self, applied: &AppliedRule) -> bool {
        match self.0[applied.index].1.kind {
            RuleKind::Whole(_) => false,
            #[cfg(feature = "graphql")]
            RuleKind::Graphql(_) => true,
        }
    }

    fn has_body_key(&self, applied: &mut AppliedRule, request: &Request<ReqBody>) -> Result<bool, Reason> {
        self.0[applied.index].1.has_body_key(applied, request)
    }

    fn reader(_: &AppliedRule, body: ReqBody) -> BodyReader<ReqBody> {
        BodyReader::new(body)
    }

    fn poll_read(
        &self,
        applied: &AppliedRule,
        reader: Pin<&mut BodyReader<ReqBody>>,
        cx: &mut Context<'_>,
    ) -> Poll<ReadBody> {
        self.0[applied.index].1.poll_read(applied, reader, cx)
    }

    fn restore(_: &AppliedRule, body: Bytes) -> ReqBody {
        ReqBody::from(body)
    }
}

/// A rule, by its place among the others, and the request that it applies to.
#[derive(Debug)]
pub struct AppliedRule {
    index: usize,
    /// How a GraphQL request is written, once its head was checked.
    #[cfg(feature = "graphql")]
    format: Option<graphql::Format>,
    /// The request declares a body that is longer than the limit: it is not read.
    is_too_long: bool,
}

/// A rule that makes the body of a request a part of its key: as it is, in full, or as a GraphQL request.
#[derive(Clone, Debug)]
pub struct BodyRule {
    kind: RuleKind,
    limits: ReadLimits,
}

#[derive(Clone, Debug)]
enum RuleKind {
    /// The body of requests with this method, as it is.
    Whole(Method),
    #[cfg(feature = "graphql")]
    Graphql(Arc<graphql::Endpoint>),
}

/// The default of [`BodyRule::max_reading_bytes`].
const MAX_READING_BYTES: usize = 64 << 20;
/// The budget of each table of a GraphQL endpoint.
#[cfg(feature = "graphql")]
const TABLE_BYTES: u64 = 4 << 20;

impl BodyRule {
    fn new(kind: RuleKind) -> BodyRule {
        let memory = ReadMemory::new(MAX_READING_BYTES);
        BodyRule {
            kind,
            limits: ReadLimits { max_bytes: 64 << 10, timeout: Duration::from_secs(10), memory },
        }
    }

    /// A rule for POST requests. They must not change anything: the handler runs only on a miss.
    pub fn post() -> BodyRule {
        BodyRule::new(RuleKind::Whole(Method::POST))
    }

    /// A rule for QUERY requests (RFC 10008), which are safe by definition.
    pub fn query() -> BodyRule {
        let method = Method::from_bytes(b"QUERY").expect("a token is a method");
        BodyRule::new(RuleKind::Whole(method))
    }

    /// A rule for the GET, POST and QUERY requests of a GraphQL endpoint. Queries are answered from the cache if the
    /// handler opts in. Mutations, subscriptions, batches, and requests that the cache does not understand are forwarded
    /// with their body intact. They are not cached, and do not invalidate the endpoint. Responses with top-level `errors`
    /// are never stored.
    ///
    /// The key of a POST or QUERY has the tokens of the document, the operation name, the variables with the members of
    /// their objects in order, and the extensions except `persistedQuery` and `clientLibrary`. The key of a GET is its URI.
    /// Persisted queries are resolved to the document that came with their SHA-256 hash. Needs the feature `graphql`.
    #[cfg(feature = "graphql")]
    pub fn graphql() -> BodyRule {
        BodyRule::new(RuleKind::Graphql(Arc::new(graphql::Endpoint::new(TABLE_BYTES))))
    }

    /// The memory of a GraphQL rule, in bytes, for each of two tables: the contents that were parsed before, whose keys
    /// are found without parsing, and the documents of persisted queries. Both evict. Any value; other rules have no
    /// tables. Needs the feature `graphql`. Default: 4 MiB.
    #[cfg(feature = "graphql")]
    pub fn table_bytes(mut self, bytes: u64) -> BodyRule {
        if let RuleKind::Graphql(endpoint) = &mut self.kind {
            *endpoint = Arc::new(graphql::Endpoint::new(bytes));
        }
        self
    }

    /// The longest body, in bytes. A longer one is answered with 413, and is not read if its length is declared. A
    /// GraphQL request that declares a longer one is forwarded instead. Any value. Default: 64 KiB.
    pub fn max_bytes(mut self, bytes: usize) -> BodyRule {
        self.limits.max_bytes = bytes;
        self
    }

    /// The maximum time until the whole body has arrived; after that the answer is 408. Default: 10 s.
    pub fn read_timeout(mut self, timeout: Duration) -> BodyRule {
        self.limits.timeout = timeout;
        self
    }

    /// The bytes of all bodies together that are being read for this rule. A body that finds no room is answered with 503. One
    /// that arrives at once, in a single frame, is not counted.
    /// Any value. Default: 64 MiB.
    pub fn max_reading_bytes(mut self, bytes: usize) -> BodyRule {
        self.limits.memory = ReadMemory::new(bytes);
        self
    }

    fn applies_to(&self, method: &Method) -> bool {
        match &self.kind {
            RuleKind::Whole(own) => own == method,
            #[cfg(feature = "graphql")]
            RuleKind::Graphql(_) => graphql::is_query_method(method),
        }
    }

    fn is_exceeded_by<B: http_body::Body>(&self, request: &Request<B>) -> bool {
        declared_length(request) > self.limits.max_bytes as u64
    }

    fn has_body_key<B: http_body::Body>(
        &self,
        applied: &mut AppliedRule,
        request: &Request<B>,
    ) -> Result<bool, Reason> {
        match &self.kind {
            RuleKind::Whole(_) => {
                applied.is_too_long = self.is_exceeded_by(request);
                Ok(true)
            }
            #[cfg(feature = "graphql")]
            RuleKind::Graphql(endpoint) if matches!(*request.method(), Method::GET | Method::HEAD) => {
                endpoint.check_uri(request.uri()).map(|()| false)
            }
            #[cfg(feature = "graphql")]
            RuleKind::Graphql(_) => {
                applied.format = Some(graphql::Endpoint::format(request)?);
                if self.is_exceeded_by(request) { Err(Reason::RequestBodyTooLarge) } else { Ok(true) }
            }
        }
    }

    /// Reads the body. Its trailers are dropped (RFC 9110, 6.5.1 allows it).
    fn poll_read<ReqBody>(
        &self,
        applied: &AppliedRule,
        reader: Pin<&mut BodyReader<ReqBody>>,
        cx: &mut Context<'_>,
    ) -> Poll<ReadBody>
    where
        ReqBody: http_body::Body,
    {
        let read = match applied.is_too_long {
            true => Err(Reason::RequestBodyTooLarge),
            false => ready!(reader.poll(&self.limits, cx)),
        };
        let body = match read {
            Ok(body) => body,
            Err(reason) => {
                return Poll::Ready(Err(BodyRejection { reason, limit: self.limits.max_bytes }));
            }
        };
        let key = match &self.kind {
            RuleKind::Whole(_) => Ok(body.clone()),
            #[cfg(feature = "graphql")]
            RuleKind::Graphql(endpoint) => {
                endpoint.key(applied.format.expect("the head was checked before"), &body)
            }
        };
        Poll::Ready(Ok((body, key)))
    }
}

/// The length of the body if that is known, else the one that the head declares; an invalid length is declared as too long.
fn declared_length<B: http_body::Body>(request: &Request<B>) -> u64 {
    let hint = request.body().size_hint();
    if let Some(length) = hint.exact() {
        return length;
    }
    let lengths = request.headers().get_all(CONTENT_LENGTH).iter();
    let in_headers = lengths.map(|length| length.to_str().ok()?.parse().ok());
    in_headers.map(|length| length.unwrap_or(u64::MAX)).max().unwrap_or(0).max(hint.lower())
}
