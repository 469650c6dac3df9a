//! What the cache did with a request, as enums with a string form, and the `Cache-Status` field (RFC 9211)
//! that tells it to clients. "Not cached" always has a reason: one list serves header, statistics and docs.

use std::fmt;
use std::io::Write as _;

use http::{HeaderName, HeaderValue};

pub(crate) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// Why a request bypassed the cache or its response was not stored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// The reason as it stands in `Cache-Status`, statistics and metrics.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// The method is neither GET nor HEAD.
    Method => "method",
    /// A header asks the application to treat the request as another method.
    MethodOverride => "method-override",
    /// A GET or HEAD that announces a body: the key does not cover it.
    RequestBody => "request-body",
    /// Two `Host` lines, a `Host` that differs from the target's authority, or one that is no authority.
    Authority => "authority",
    /// The request target is longer than a key may be.
    TargetTooLong => "target-too-long",
    /// The request carries `Authorization`, `Proxy-Authorization`, or a field that was configured as a credential.
    Authorization => "authorization",
    /// The request carries `Cookie`, and the response was not declared to ignore cookies.
    Cookie => "cookie",
    /// The request asks for a protocol upgrade.
    Upgrade => "upgrade",
    /// A range of something that is not stored.
    Range => "range",
    /// `If-Match` or `If-Unmodified-Since`: the handler must judge them.
    Precondition => "precondition",
    /// The client asked with `Cache-Control: no-store`.
    RequestNoStore => "request-no-store",
    /// The client asked with `only-if-cached`, and nothing is stored: answered 504.
    OnlyIfCached => "only-if-cached",
    /// A HEAD of something that is not stored: it has no body to store.
    Head => "head",
    /// A recent response for this key could not be stored, so requests do not wait for each other.
    HitForMiss => "hit-for-miss",
    /// The fill that was waited for ended without a value.
    Released => "released",
    /// The fill that was waited for took too long.
    WaitTimeout => "wait-timeout",
    /// The handler did not ask for the response to be cached.
    NotOptedIn => "not-opted-in",
    /// The handler, or code below it, forbade caching.
    Forbidden => "forbidden",
    /// The lowest TTL asked for is zero.
    ZeroTtl => "zero-ttl",
    /// The status may not be cached, or was not allowed to be.
    Status => "status",
    /// The response sets a cookie.
    SetCookie => "set-cookie",
    /// The response is `Cache-Control: private`.
    Private => "private",
    /// The response is `Cache-Control: no-store`.
    NoStore => "no-store",
    /// `Vary: *`.
    VaryAny => "vary-any",
    /// The response varies by `Cookie` or `Authorization`.
    VaryCredentials => "vary-credentials",
    /// `Vary` names more fields than a variant may have.
    VaryTooWide => "vary-too-wide",
    /// `Access-Control-Allow-Origin` names an origin, but the response does not vary by `Origin`.
    Cors => "cors",
    /// More tags than an entry may have.
    TooManyTags => "too-many-tags",
    /// The body is larger than the limit.
    BodyTooLarge => "body-too-large",
    /// The response has trailers.
    Trailers => "trailers",
    /// The body was shorter or longer than its `Content-Length`.
    BodyLength => "body-length",
    /// The body ended with an error.
    BodyError => "body-error",
    /// The handler returned an error instead of a response.
    HandlerError => "handler-error",
    /// The handler panicked; the panic goes on in the client's task.
    HandlerPanic => "handler-panic",
    /// A purge that covers the response came while it was made.
    Purged => "purged",
    /// The engine had no room for the entry.
    Refused => "refused",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the cache did with one request: the content of `Cache-Status`.
///
/// Loggers outside of the layer find it at [`Body::outcome`](crate::Body::outcome).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Answered from a fresh entry.
    Hit {
        /// Seconds of freshness left.
        ttl: u64,
    },
    /// Answered from an entry past its TTL, within its grace.
    Stale {
        /// Seconds since the TTL ended.
        over: u64,
    },
    /// The handler was asked, by this request or by one that it waited for.
    Miss {
        /// Whether a resource was stored, but no variant for this request.
        variant: bool,
        /// Whether the response came from another request's fill.
        collapsed: bool,
        /// `None` when the response was stored.
        unstored: Option<Reason>,
    },
    /// The request went by the cache.
    Bypass(Reason),
}

impl Outcome {
    /// One word for logs and metrics: `hit`, `stale`, `miss`, `collapsed` or `bypass`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Hit { .. } => "hit",
            Outcome::Stale { .. } => "stale",
            Outcome::Miss { collapsed: true, .. } => "collapsed",
            Outcome::Miss { .. } => "miss",
            Outcome::Bypass(_) => "bypass",
        }
    }

    pub(crate) fn header(self) -> HeaderValue {
        // On the stack: a hit allocates for the value itself and nothing more.
        let mut text = [0; 96];
        let mut rest = &mut text[..];
        write!(rest, "{self}").expect("the longest outcome is shorter");
        let unused = rest.len();
        let text = &text[..text.len() - unused];
        HeaderValue::from_bytes(text).expect("the words of Cache-Status are visible ASCII")
    }
}

/// The member of the `Cache-Status` list, for example `larder; hit; ttl=42`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("larder; ")?;
        match *self {
            Outcome::Hit { ttl } => write!(f, "hit; ttl={ttl}"),
            Outcome::Stale { over: 0 } => f.write_str("hit; ttl=0; detail=stale"),
            Outcome::Stale { over } => write!(f, "hit; ttl=-{over}; detail=stale"),
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_header() {
        let miss = |variant, collapsed, unstored| Outcome::Miss { variant, collapsed, unstored };
        for (outcome, text) in [
            (Outcome::Hit { ttl: 42 }, "larder; hit; ttl=42"),
            (Outcome::Stale { over: 3 }, "larder; hit; ttl=-3; detail=stale"),
            (miss(false, false, None), "larder; fwd=uri-miss; stored"),
            (miss(true, false, None), "larder; fwd=vary-miss; stored"),
            (miss(false, true, None), "larder; fwd=uri-miss; collapsed"),
            (miss(false, false, Some(Reason::SetCookie)), "larder; fwd=uri-miss; detail=set-cookie"),
            (Outcome::Stale { over: 0 }, "larder; hit; ttl=0; detail=stale"),
            (Outcome::Stale { over: u64::MAX }, "larder; hit; ttl=-18446744073709551615; detail=stale"),
            (Outcome::Bypass(Reason::Method), "larder; fwd=method"),
            (Outcome::Bypass(Reason::Authority), "larder; fwd=bypass; detail=authority"),
        ] {
            assert_eq!(outcome.header(), text);
        }
    }

    #[test]
    fn reasons_are_distinct_tokens() {
        let mut seen = std::collections::HashSet::new();
        for (number, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
            assert!(seen.insert(reason.as_str()), "{reason} twice");
            Outcome::Miss { variant: false, collapsed: false, unstored: Some(*reason) }.header();
            assert!(reason.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
        }
    }
}
