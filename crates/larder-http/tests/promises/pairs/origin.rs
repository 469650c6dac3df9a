//! The handler: its bodies say what they were made from, and by which call.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use larder_http::Cached;

use super::drawn::{Resource, text};
use super::feature::Feature;
use crate::support::*;

/// How long each response is fresh.
pub(super) const TTL: Duration = Duration::from_secs(10);

/// The response of one handler call.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) at_ms: u64,
    pub(super) met: BTreeSet<Feature>,
}

/// What the handler and the test share.
#[derive(Debug, Default)]
pub(super) struct Origin {
    pub(super) calls: AtomicUsize,
    pub(super) now_ms: AtomicU64,
    pub(super) fails: AtomicBool,
    pub(super) loads: Mutex<HashMap<usize, Load>>,
}

impl Origin {
    pub(super) async fn answer(self: Arc<Self>, request: http::Request<String>) -> Reply {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let fails = self.fails.load(Ordering::SeqCst);
        let load = Load { at_ms: self.now_ms.load(Ordering::SeqCst), met: BTreeSet::new() };
        self.loads.lock().unwrap().insert(call, load);
        // Others follow meanwhile.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        if fails {
            let mut reply = plain("failed");
            *reply.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            return reply;
        }
        let field_of = |name| request.headers().get(name).map_or("", |value| value.to_str().unwrap());
        let resource = Resource::of_path(request.uri().path());
        let version = resource.version(field_of("language"), field_of("user"));
        let reply = field(plain(text(&version, call)), "content-type", "text/plain");
        let reply = if resource.varies { field(reply, "vary", "language") } else { reply };
        let settings = Cached::ttl(TTL).swr(resource.grace()).tag(resource.path());
        with_cached(reply, resource.scope.map_or(settings.clone(), |scope| settings.scope(scope)))
    }
}
