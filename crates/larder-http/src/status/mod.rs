//! The outcome of a request and its reason, as enums with a string form, and the `Cache-Status` field (RFC 9211).
//! A response that is not cached always has a reason. Headers, statistics and metrics use the same list.

pub(crate) mod seconds;
pub(crate) mod stats;

use std::fmt;
use std::io::Write as _;

use http::{HeaderName, HeaderValue};

use crate::status::seconds::SecondsValues;

pub(crate) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// The reason why a request bypassed the cache or its response was not stored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// All reasons, in the order of their discriminants.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// The name of the reason in `Cache-Status`, statistics and metrics.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// The method is neither GET nor HEAD, and no body rule applies.
    Method => "method",
    /// A header overrides the request method.
    MethodOverride => "method-override",
    /// A GET or HEAD with a body, which the key does not cover.
    RequestBody => "request-body",
    /// The request body is longer than the limit of its rule: the answer is 413. On a GraphQL endpoint a request that
    /// declares the length is forwarded.
    RequestBodyTooLarge => "request-body-too-large",
    /// The request bodies that are being read have reached their limit together: the answer is 503.
    RequestBodyMemory => "request-body-memory",
    /// The request body did not arrive in the time of its rule: the answer is 408.
    RequestBodyTimeout => "request-body-timeout",
    /// The request body ended with an error: the answer is 400.
    RequestBodyError => "request-body-error",
    /// A GraphQL request that is not understood: its content type, its fields, or its form.
    GraphqlRequest => "graphql-request",
    /// Several GraphQL requests in one.
    GraphqlBatch => "graphql-batch",
    /// The GraphQL document is not understood.
    GraphqlDocument => "graphql-document",
    /// The GraphQL document does not have the operation that the request names, or it names none of several.
    GraphqlOperation => "graphql-operation",
    /// The GraphQL document has a mutation or a subscription.
    GraphqlMutation => "graphql-mutation",
    /// The GraphQL document has `@defer`, `@stream` or `@live`.
    GraphqlIncremental => "graphql-incremental",
    /// The hash of a persisted query is unknown, or is not that of the document beside it.
    GraphqlPersisted => "graphql-persisted",
    /// The GraphQL response has top-level `errors`.
    GraphqlErrors => "graphql-errors",
    /// The response to a GraphQL query is not JSON with `data`.
    GraphqlResponse => "graphql-response",
    /// Two `Host` lines, a `Host` that differs from the target's authority, or an invalid authority.
    Authority => "authority",
    /// The request target exceeds the longest key.
    TargetTooLong => "target-too-long",
    /// The request has `Authorization`, `Proxy-Authorization`, or a field that is configured as a credential, and the
    /// response has no scope.
    Authorization => "authorization",
    /// The request has `Cookie`, other than the ignored ones, and the response has no scope.
    Cookie => "cookie",
    /// The request has an extension that is configured as personal, and the response has no scope.
    PersonalExtension => "personal-extension",
    /// The gate denied the request, or the one whose response was to be stored.
    Gate => "gate",
    /// The response is gated or private, and the cache has no gate; or it is private, and the gate named no principal.
    Scope => "scope",
    /// The response is private and longer than the share of one principal.
    PrivateShare => "private-share",
    /// The request asks for a protocol upgrade.
    Upgrade => "upgrade",
    /// A range request for a response that is not stored.
    Range => "range",
    /// A rule of the service in front of the cache: see [`HttpCacheService::bypass`](crate::HttpCacheService::bypass).
    Rule => "rule",
    /// `If-Match`, `If-Unmodified-Since`, or any condition or range of a POST: the handler must evaluate them.
    Precondition => "precondition",
    /// The request has `Cache-Control: no-store`.
    RequestNoStore => "request-no-store",
    /// The request has `only-if-cached`, and no response is stored: the answer is 504.
    OnlyIfCached => "only-if-cached",
    /// A HEAD request for a response that is not stored. It has no body to store.
    Head => "head",
    /// A recent response for this key could not be stored, so requests do not wait for each other.
    HitForMiss => "hit-for-miss",
    /// The fill that the request followed did not store a response.
    Released => "released",
    /// The fill that the request followed took too long.
    WaitTimeout => "wait-timeout",
    /// The fill did not end in time.
    FillTimeout => "fill-timeout",
    /// The head was sent before the end of the body, which decides whether the response is stored.
    Streaming => "streaming",
    /// Too many fills are running.
    TooManyFills => "too-many-fills",
    /// Too many requests wait for fills.
    TooManyWaiters => "too-many-waiters",
    /// The handler did not opt in.
    NotOptedIn => "not-opted-in",
    /// No field of the response states or suggests how long it is fresh, and it has no validator.
    NoFreshness => "no-freshness",
    /// The handler, or nested code, forbade caching.
    Forbidden => "forbidden",
    /// The lowest TTL is zero.
    ZeroTtl => "zero-ttl",
    /// The status is never cached, or the handler did not allow it.
    Status => "status",
    /// The response sets a cookie.
    SetCookie => "set-cookie",
    /// The response is `Cache-Control: private`, and its scope is not.
    Private => "private",
    /// The response is `Cache-Control: no-store`.
    NoStore => "no-store",
    /// The response is `Cache-Control: no-cache`.
    NoCache => "no-cache",
    /// `Vary: *`.
    VaryAny => "vary-any",
    /// The response varies by `Cookie` or `Authorization`.
    VaryCredentials => "vary-credentials",
    /// `Vary` names more fields than a variant may have.
    VaryTooWide => "vary-too-wide",
    /// The request's values of the fields that `Vary` names exceed the longest key.
    VariantTooLong => "variant-too-long",
    /// `Access-Control-Allow-Origin` names an origin, but the response does not vary by `Origin`.
    Cors => "cors",
    /// The handler has read a field of the request through [`RequestFields`](crate::RequestFields), and `Vary` does not name it.
    UnkeyedField => "unkeyed-field",
    /// `No-Vary-Search` says of the queries of this path another thing than before: the next response is stored.
    QueryRule => "query-rule",
    /// The response has too many tags.
    TooManyTags => "too-many-tags",
    /// The origin has replied to a validation with a 304 about another response than the stored one: the answer is 502.
    Validation => "validation",
    /// The body is larger than the limit.
    BodyTooLarge => "body-too-large",
    /// The bodies in the store, in fills and in replies have reached their limit together.
    BodyMemory => "body-memory",
    /// The response has trailers.
    Trailers => "trailers",
    /// The body was shorter or longer than its `Content-Length`.
    BodyLength => "body-length",
    /// The body ended with an error.
    BodyError => "body-error",
    /// The handler returned an error instead of a response.
    HandlerError => "handler-error",
    /// The handler panicked. The client's task panics too.
    HandlerPanic => "handler-panic",
    /// A purge covered the response before it was stored, or its URI was invalidated by an unsafe method; or so it
    /// was with those of two fills that the request has waited for.
    Purged => "purged",
    /// The engine did not store the entry: it is too heavy.
    Refused => "refused",
    /// Another response took its place meanwhile, on this replica or on another one.
    Replaced => "replaced",
    /// Redis has not replied for so long that this replica may have missed a purge: only the requests that waited for the
    /// response got it.
    RedisLost => "redis-lost",
    /// This process inherited the cache through a fork: tasks that fill it exist in the parent only.
    Forked => "forked",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The outcome of one request: the content of `Cache-Status`.
///
/// Loggers outside of the layer read it from [`Body::outcome`](crate::Body::outcome).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Answered from a fresh entry.
    Hit {
        /// Remaining TTL in seconds.
        ttl: u64,
    },
    /// Answered from an entry that another replica has stored, without the handler.
    Shared {
        /// Remaining TTL in seconds.
        ttl: u64,
    },
    /// Answered from an entry on disk, without the handler.
    Disk {
        /// Remaining TTL in seconds.
        ttl: u64,
    },
    /// Answered from a stale entry, within its grace period.
    Stale {
        /// Seconds since the TTL ended.
        over: u64,
    },
    /// Answered from an entry that the handler has validated for this request: it replied with a 304.
    Validated,
    /// Answered by the handler, which ran for this request or for the request that it followed.
    Miss {
        /// Whether other variants of the resource were stored.
        variant: bool,
        /// Whether the response comes from the fill of another request.
        collapsed: bool,
        /// Why the response was not stored, or [`Reason::Streaming`] if that is not known yet; `None` if it was.
        unstored: Option<Reason>,
    },
    /// The request bypassed the cache.
    Bypass(Reason),
    /// Answered by the layer itself, with an error: the request's body could not be read.
    Rejected(Reason),
}

impl Outcome {
    /// One word for logs and metrics: `hit`, `shared`, `disk`, `stale`, `validated`, `miss`, `collapsed`, `bypass` or `rejected`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Hit { .. } => "hit",
            Outcome::Shared { .. } => "shared",
            Outcome::Disk { .. } => "disk",
            Outcome::Stale { .. } => "stale",
            Outcome::Validated => "validated",
            Outcome::Miss { collapsed: true, .. } => "collapsed",
            Outcome::Miss { .. } => "miss",
            Outcome::Bypass(_) => "bypass",
            Outcome::Rejected(_) => "rejected",
        }
    }

    pub(crate) fn header(self) -> HeaderValue {
        static HITS: SecondsValues = SecondsValues::new("larder; hit; ttl=");
        if let Outcome::Hit { ttl } = self {
            return HITS.value(ttl);
        }
        // Formatted on the stack: only the value is allocated.
        let mut text = [0; 96];
        let mut rest = &mut text[..];
        write!(rest, "{self}").expect("every outcome fits the buffer");
        let unused = rest.len();
        let text = &text[..text.len() - unused];
        HeaderValue::from_bytes(text).expect("Cache-Status is visible ASCII")
    }
}

/// Formats the member of the `Cache-Status` list, for example `larder; hit; ttl=42`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("larder; ")?;
        match *self {
            Outcome::Hit { ttl } => write!(f, "hit; ttl={ttl}"),
            Outcome::Shared { ttl } => write!(f, "hit; ttl={ttl}; detail=shared"),
            Outcome::Disk { ttl } => write!(f, "hit; ttl={ttl}; detail=disk"),
            Outcome::Stale { over: 0 } => f.write_str("hit; ttl=0; detail=stale"),
            Outcome::Stale { over } => write!(f, "hit; ttl=-{over}; detail=stale"),
            Outcome::Validated => f.write_str("fwd=stale; fwd-status=304; stored"),
            Outcome::Miss { variant, collapsed, unstored } => {
                f.write_str(if variant { "fwd=vary-miss" } else { "fwd=uri-miss" })?;
                match unstored {
                    _ if collapsed => f.write_str("; collapsed"),
                    None => f.write_str("; stored"),
                    Some(reason) => write!(f, "; detail={reason}"),
                }
            }
            Outcome::Bypass(Reason::Method) => f.write_str("fwd=method"),
            Outcome::Bypass(reason) => write!(f, "fwd=bypass; detail={reason}"),
            Outcome::Rejected(reason) => write!(f, "detail={reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_format_as_cache_status() {
        let miss = |variant, collapsed, unstored| Outcome::Miss { variant, collapsed, unstored };
        for (outcome, text) in [
            (Outcome::Hit { ttl: 42 }, "larder; hit; ttl=42"),
            (Outcome::Shared { ttl: 42 }, "larder; hit; ttl=42; detail=shared"),
            (Outcome::Disk { ttl: 42 }, "larder; hit; ttl=42; detail=disk"),
            (Outcome::Stale { over: 3 }, "larder; hit; ttl=-3; detail=stale"),
            (Outcome::Validated, "larder; fwd=stale; fwd-status=304; stored"),
            (miss(false, false, None), "larder; fwd=uri-miss; stored"),
            (miss(true, false, None), "larder; fwd=vary-miss; stored"),
            (miss(false, true, None), "larder; fwd=uri-miss; collapsed"),
            (miss(false, false, Some(Reason::SetCookie)), "larder; fwd=uri-miss; detail=set-cookie"),
            (Outcome::Stale { over: 0 }, "larder; hit; ttl=0; detail=stale"),
            (Outcome::Stale { over: u64::MAX }, "larder; hit; ttl=-18446744073709551615; detail=stale"),
            (Outcome::Bypass(Reason::Method), "larder; fwd=method"),
            (Outcome::Rejected(Reason::RequestBodyTimeout), "larder; detail=request-body-timeout"),
            (Outcome::Bypass(Reason::Authority), "larder; fwd=bypass; detail=authority"),
        ] {
            assert_eq!(outcome.header(), text);
        }
    }

    #[test]
    fn reasons_format_as_distinct_tokens() {
        let mut names = std::collections::HashSet::new();
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(names.insert(reason.as_str()), "{reason} twice");
            Outcome::Miss { variant: false, collapsed: false, unstored: Some(*reason) }.header();
            assert!(reason.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
        }
    }
}
