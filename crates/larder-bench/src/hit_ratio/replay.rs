//! One cache's way through the trace, and the row that comes of it.

use super::HitRatioArgs;
use super::contender::{self, Contender, Ledger, Value};
use crate::trace::Request;
use larder_engine::Policy;
use serde::Serialize;
use std::sync::Arc;

/// A cache and what is known of it so far.
pub(crate) struct Replay {
    source: &'static str,
    policy: &'static str,
    cache: Box<dyn Contender>,
    ledger: Arc<Ledger>,
    hits: u64,
    max_weight_seen: u64,
}

/// What one cache made of one trace.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// `larder`, the peer's crate, or `reference` for what is worked out here.
    pub(crate) source: String,
    pub(crate) policy: String,
    pub(crate) trace: String,
    pub(crate) capacity: u64,
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    pub(crate) hit_ratio: f64,
    /// The most that the values in memory weighed, or that the cache said it held, after any request.
    pub(crate) max_weight_seen: u64,
    pub(crate) within_capacity: bool,
    /// What no cache of this capacity can surpass on this trace.
    pub(crate) bound_hit_ratio: f64,
}

impl Replay {
    pub(super) fn new(source: &'static str, policy: &'static str, cache: Box<dyn Contender>) -> Self {
        Replay { source, policy, cache, ledger: Arc::default(), hits: 0, max_weight_seen: 0 }
    }

    /// Gets each key; inserts those that miss.
    pub(super) fn run(&mut self, requests: &[Request]) {
        for request in requests {
            if self.cache.get(request.key) {
                self.hits += 1;
            } else {
                self.cache.insert(request.key, Value::new(request.bytes.into(), &self.ledger));
            }
            let weight = self.ledger.weight().max(self.cache.weight().unwrap_or(0));
            self.max_weight_seen = self.max_weight_seen.max(weight);
        }
    }

    pub(super) fn finish(self, args: &HitRatioArgs, requests: u64, bound: f64) -> Row {
        Row {
            source: self.source.to_owned(),
            policy: self.policy.to_owned(),
            trace: args.trace.display().to_string(),
            capacity: args.capacity,
            requests,
            hits: self.hits,
            hit_ratio: self.hits as f64 / requests as f64,
            max_weight_seen: self.max_weight_seen,
            within_capacity: self.max_weight_seen <= args.capacity,
            bound_hit_ratio: bound,
        }
    }
}

impl Row {
    /// By which the cache is known where defaults need no word: `larder`, `moka`, `larder lru`.
    pub(crate) fn subject(&self) -> String {
        let by_default = match self.source.as_str() {
            contender::OURS => Policy::default().name(),
            "moka" => "tinylfu",
            "quick_cache" => "clock-pro",
            _ => "",
        };
        if self.policy == by_default {
            self.source.clone()
        } else {
            format!("{} {}", self.source, self.policy)
        }
    }
}
