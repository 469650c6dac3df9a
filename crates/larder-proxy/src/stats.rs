//! What a proxy tells of its origins and its responses, for dashboards. The figures of its cache are those of the cache.

use std::time::{Duration, SystemTime};

/// The figures of a proxy since its start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProxyStats {
    /// The origins, in the order of the configuration.
    pub origins: Vec<OriginStats>,
    /// Responses that clients got.
    pub responses: u64,
    /// Those of them whose status is 500 or above: from an origin, or from the proxy for want of an origin.
    pub server_errors: u64,
    /// When the first certificate of the chain expires; `None` without TLS.
    pub certificate_expires: Option<SystemTime>,
}

/// One origin.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OriginStats {
    /// Its URL.
    pub url: String,
    /// Requests that got no response by its fault.
    pub failures: u64,
    /// For how long it has not answered, if its last three requests failed.
    pub down_for: Option<Duration>,
}
