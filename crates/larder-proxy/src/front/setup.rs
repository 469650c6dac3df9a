//! What all connections of clients share.

use crate::config::{Config, ms};
use crate::service::ProxyService;
use larder_tls::Certificate;
use larder_web::Network;
use std::sync::Arc;
use std::time::Duration;

/// The limits of the clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrontLimits {
    pub(crate) max_connections: usize,
    pub(crate) max_head_bytes: usize,
    /// For a head, and for a handshake.
    pub(crate) header: Duration,
    /// For a client that takes nothing.
    pub(crate) write: Duration,
    /// For a connection without a request.
    pub(crate) keepalive: Duration,
    /// For what runs when the proxy stops.
    pub(crate) drain: Duration,
}

impl FrontLimits {
    pub(crate) fn new(config: &Config) -> FrontLimits {
        FrontLimits {
            max_connections: config.max_connections,
            max_head_bytes: config.max_head_bytes,
            header: ms(config.header_timeout_ms),
            write: ms(config.write_timeout_ms),
            keepalive: ms(config.keepalive_timeout_ms),
            drain: ms(config.drain_timeout_ms),
        }
    }
}

/// What serves the clients.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub(crate) service: ProxyService,
    pub(crate) certificate: Option<Arc<Certificate>>,
    pub(crate) trusted: Arc<[Network]>,
    pub(crate) limits: FrontLimits,
}
