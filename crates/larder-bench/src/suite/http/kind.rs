//! What the servers in this process differ in.

use std::time::Duration;

/// How long responses are stored.
pub(super) const TTL: Duration = Duration::from_secs(3_600);

/// What a server does for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The handler encodes the value for each request; `larder-http` in front of the router stores the responses.
    Cached,
    /// The same with a small store. Once it is full, each new response displaces another, as in a store that has run
    /// for a while; until then, most of the time of a large response is that in which the system hands out new memory.
    Full,
    /// The handler encodes the value for each request.
    Encoded,
    /// The handler returns bytes that were encoded before: what no cache can beat with this framework.
    Bare,
    /// A layer of another crate, in front of the same handler.
    #[cfg(feature = "bench-peers")]
    Peer,
}

impl Kind {
    pub(super) fn subject(self) -> &'static str {
        match self {
            Kind::Cached | Kind::Full => "larder",
            Kind::Encoded => "no cache",
            Kind::Bare => "axum",
            #[cfg(feature = "bench-peers")]
            Kind::Peer => "tower-http-cache",
        }
    }
}
