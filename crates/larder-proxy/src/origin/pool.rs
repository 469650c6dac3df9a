//! The open connections to one origin that wait for a request.

use crate::origin::connect::{Connected, Http1Sender, Protocols};
use crate::origin::lender::LentBody;
use hyper::client::conn::http2;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How long a connection of HTTP/1.1 may wait. Many servers close one after 60 s or more, some after 5 s: hyper notices that,
/// and the shorter the wait, the fewer requests meet a server that is about to close.
const MAX_IDLE_TIME: Duration = Duration::from_secs(15);
/// Connections of HTTP/1.1 that wait at a time.
const MAX_IDLE: usize = 128;

/// The open connections to one origin that wait for a request.
#[derive(Default)]
pub(super) struct Pool {
    /// The one that was used last is the last.
    idle: Mutex<Vec<Idle>>,
    /// One connection of HTTP/2 serves all requests.
    http2: Mutex<Option<http2::SendRequest<LentBody>>>,
}

struct Idle {
    sender: Http1Sender,
    since: Instant,
}

impl Pool {
    /// An open connection, if there is one. The origin may have closed it already.
    pub(super) fn take(&self, protocols: Protocols) -> Option<Connected> {
        if protocols == Protocols::Any {
            let mut shared = self.http2.lock();
            match &*shared {
                Some(sender) if !sender.is_closed() => return Some(Connected::Http2(sender.clone())),
                _ => *shared = None,
            }
        }
        let mut idle = self.idle.lock();
        while let Some(Idle { sender, since }) = idle.pop() {
            if since.elapsed() > MAX_IDLE_TIME {
                // All others have waited for longer.
                idle.clear();
            } else if !sender.requests.is_closed() {
                return Some(Connected::Http1(sender));
            }
        }
        None
    }

    /// Returns a connection of HTTP/1.1 after its request and its response have ended.
    pub(super) fn put(&self, sender: Http1Sender) {
        let now = Instant::now();
        let mut idle = self.idle.lock();
        let first = idle.partition_point(|idle| now.duration_since(idle.since) > MAX_IDLE_TIME);
        idle.drain(..first);
        idle.retain(|idle| !idle.sender.requests.is_closed());
        if idle.len() < MAX_IDLE {
            idle.push(Idle { sender, since: now });
        }
    }

    /// Shares a new connection of HTTP/2, unless another one is open.
    pub(super) fn share(&self, sender: &http2::SendRequest<LentBody>) {
        let mut shared = self.http2.lock();
        if shared.as_ref().is_none_or(|sender| sender.is_closed()) {
            *shared = Some(sender.clone());
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("idle", &self.idle.lock().len()).finish_non_exhaustive()
    }
}
