//! The replay of a trace through one cache, and the row of results.

use super::cache::{self, LiveWeight, ReplayedCache, Value};
use crate::trace::Request;
use larder_engine::Policy;
use serde::Serialize;
use std::sync::Arc;

/// A cache and its results so far.
pub(crate) struct Replay {
    source: &'static str,
    policy: &'static str,
    cache: Box<dyn ReplayedCache>,
    live_weight: Arc<LiveWeight>,
    /// The number of requests so far.
    now: u64,
    hits: u64,
    max_weight_seen: u64,
}

/// The results of one cache on the same requests.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// `larder`, the crate of the peer, or `reference` for the plain LRU.
    pub(crate) source: String,
    pub(crate) policy: String,
    /// The file, or the generated workload with all of its parameters.
    pub(crate) trace: String,
    pub(crate) capacity: u64,
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    pub(crate) hit_ratio: f64,
    /// The highest weight after any request, by our count of the live values or by that of the cache.
    pub(crate) max_weight_seen: u64,
    pub(crate) within_capacity: bool,
    /// The highest hit ratio that a cache of this capacity can have on this trace.
    pub(crate) bound_hit_ratio: f64,
}

impl Replay {
    pub(super) fn new(source: &'static str, policy: &'static str, cache: Box<dyn ReplayedCache>) -> Self {
        Replay { source, policy, cache, live_weight: Arc::default(), now: 0, hits: 0, max_weight_seen: 0 }
    }

    /// Gets each key and inserts it after a miss.
    pub(super) fn run(&mut self, requests: &[Request]) {
        for request in requests {
            if self.cache.get(request.key, self.now) {
                self.hits += 1;
            } else {
                self.cache.insert(request.key, Value::new(request, self.now, &self.live_weight));
            }
            let weight = self.live_weight.weight().max(self.cache.weight().unwrap_or(0));
            self.max_weight_seen = self.max_weight_seen.max(weight);
            self.now += 1;
        }
    }

    /// The results, over the trace of this name.
    pub(super) fn finish(self, trace: String, capacity: u64, requests: u64, bound: f64) -> Row {
        Row {
            source: self.source.to_owned(),
            policy: self.policy.to_owned(),
            trace,
            capacity,
            requests,
            hits: self.hits,
            hit_ratio: self.hits as f64 / requests as f64,
            max_weight_seen: self.max_weight_seen,
            within_capacity: self.max_weight_seen <= capacity,
            bound_hit_ratio: bound,
        }
    }
}

impl Row {
    /// The name of the cache, followed by its policy unless that is its default: `larder`, `moka`, `larder lru`.
    pub(crate) fn subject(&self) -> String {
        let default_policy = match self.source.as_str() {
            cache::OURS => Policy::default().name(),
            "moka" => "tinylfu",
            "quick_cache" => "clock-pro",
            _ => "",
        };
        if self.policy == default_policy {
            self.source.clone()
        } else {
            format!("{} {}", self.source, self.policy)
        }
    }
}
