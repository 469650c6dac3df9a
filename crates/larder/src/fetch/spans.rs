//! Spans of `tracing` for fetches that memory does not answer at once. A hit makes none: it would cost more than the hit.
//!
//! | span, all at the level debug | what | fields |
//! |---|---|---|
//! | `larder.fetch` | a fetch from its miss in memory to its answer | `cache`, `view`, `tier`, `outcome` |
//! | `larder.load` | the lookup in Redis and the loader, in a task of its own | `cache`, `view`, `lease` |
//! | `larder.wait` | the wait for the load of another caller; follows from its `larder.load` | `cache`, `view` |
//! | `larder.lease_wait` | the wait for another node, whose `larder.load` has that `lease` | `lease` |
//!
//! `tracing-opentelemetry` makes a link of what one span follows from. Two nodes have no span in common, so the lease, which is
//! random, names the load in both traces.

use super::Outcome;
use super::view_state::ViewState;
use crate::key::{KeyBuf, MemoryKey};
use crate::node::fetched::{Fetched, Source};
use std::sync::Arc;
use tracing::field::Empty;
use tracing::{Span, debug_span};

/// The span of a load that others find until this is dropped.
pub(super) struct SharedSpan<V> {
    view: Arc<ViewState<V>>,
    key: MemoryKey,
}

impl<V> Drop for SharedSpan<V> {
    fn drop(&mut self) {
        self.view.node().load_spans.end(&self.key);
    }
}

/// A load whose span others find until it ends.
pub(super) async fn shared_until_end<V>(load: impl Future<Output = ()>, shared: Option<SharedSpan<V>>) {
    load.await;
    drop(shared);
}

impl<V> ViewState<V> {
    /// The span of a fetch that memory does not answer.
    pub(super) fn fetch_span(&self) -> Span {
        let (cache, view) = (self.node().keyspace.namespace(), &*self.config.name);
        debug_span!("larder.fetch", cache, view, tier = Empty, outcome = Empty)
    }

    /// The span of a load, and what lets others find it while it runs.
    pub(super) fn load_span(self: &Arc<Self>, key: &KeyBuf) -> (Span, Option<SharedSpan<V>>) {
        let (cache, view) = (self.node().keyspace.namespace(), &*self.config.name);
        let span = debug_span!("larder.load", cache, view, lease = Empty);
        let shared = (!span.is_disabled()).then(|| {
            let key = self.memory_key(key).into_owned();
            self.node().load_spans.begin(key.clone(), span.clone());
            SharedSpan { view: self.clone(), key }
        });
        (span, shared)
    }

    /// The span of a wait for the load of another caller.
    pub(super) fn wait_span(&self, key: &KeyBuf) -> Span {
        let (cache, view) = (self.node().keyspace.namespace(), &*self.config.name);
        let span = debug_span!("larder.wait", cache, view);
        if !span.is_disabled()
            && let Some(load) = self.node().load_spans.of(self.memory_key(key))
        {
            span.follows_from(load.id());
        }
        span
    }
}

/// Notes in the span of a fetch how it ended.
pub(super) fn record_outcome<V, E>(span: &Span, outcome: &Outcome<V, E>) {
    if span.is_disabled() {
        return;
    }
    let (tier, how) = match outcome {
        Ok(fetched) => (tier_of(fetched), if fetched.coalesced() { "coalesced" } else { how_of(fetched) }),
        Err(_) => ("none", "error"),
    };
    span.record("tier", tier).record("outcome", how);
}

/// Where the value came from.
fn tier_of<V>(fetched: &Fetched<V>) -> &'static str {
    match fetched.source() {
        Source::Redis => "redis",
        Source::Loader => "loader",
        Source::Memory | Source::Stale => "memory",
    }
}

fn how_of<V>(fetched: &Fetched<V>) -> &'static str {
    match fetched.source() {
        Source::Loader => "loaded",
        Source::Stale => "stale",
        Source::Memory | Source::Redis => "hit",
    }
}
