//! A cache, with its options as text.

use crate::call::{blocking, run};
use crate::fibers::{Calls, calls_of};
use crate::options::{tags, text, time};
use crate::raised::{Raised, Result};
use crate::ruby::data::data;
use crate::ruby::method::{Arguments, methods};
use crate::ruby::{Ruby, Value};
use larder::{CacheError, Invalidation, Reach, Removal, TierStats};
use larder_host::{HostCache, PerProcess, StartError, cache_counters, mode_name, tier_counters};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A cache as its handles share it. In each process it is a node.
pub(crate) struct Node {
    host: HostCache,
    namespace: String,
    /// The calls of fibers.
    calls: PerProcess<Calls>,
    own: Weak<Node>,
}

/// What an object of the class `Cache` has.
struct Cache(Arc<Node>);

data!(Cache: c"Larder::Cache");

impl Node {
    pub(crate) fn host(&self) -> &HostCache {
        &self.host
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The calls of fibers, if there were any in this process.
    pub(crate) fn calls_under_way(&self) -> Option<&Calls> {
        self.calls.get()
    }

    pub(crate) fn calls(&self) -> std::result::Result<&Calls, StartError> {
        match self.calls.get() {
            Some(calls) => Ok(calls),
            None => self.calls.get_or_make(|| calls_of(&self.own, &self.host)),
        }
    }
}

/// The node of an object of the class `Cache`.
pub(crate) fn node_of(cache: Value<'_>) -> Result<&Arc<Node>> {
    Ok(&cache.data::<Cache>()?.0)
}

/// `Cache._open(namespace, [[name, text], …])`
fn open<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let namespace = text(ruby, given.get(0), "the namespace")?;
    let mut options = Vec::new();
    for pair in given.get(1).elements(ruby)? {
        let name = text(ruby, pair.element(0), "the name of an option")?;
        let value = text(ruby, pair.element(1), &name)?;
        options.push((name, value));
    }
    let host = HostCache::with_options(&namespace, options)?;
    let node = Arc::new_cyclic(|own| Node { host, namespace, calls: PerProcess::new(), own: own.clone() });
    ruby.object(given.this, Cache(node))
}

/// `Cache#namespace`
fn namespace<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    ruby.text(node_of(given.this)?.namespace())
}

/// `Cache#_invalidate_tags(tags, soft)`
fn invalidate_tags<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (node, tags) = (node_of(given.this)?, tags(ruby, given.get(0))?);
    let how = if given.get(1).is_true() { Invalidation::Soft } else { Invalidation::Hard };
    let cache = node.host().cache()?.clone();
    reached(ruby, node, async move { cache.invalidate_tags(tags, how).await })
}

/// `Cache#clear`
fn clear<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let node = node_of(given.this)?;
    let cache = node.host().cache()?.clone();
    reached(ruby, node, async move { cache.clear().await })
}

/// `Cache#delete_matched_with_reach(pattern)`
fn delete_matched<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (node, pattern) = (node_of(given.this)?, text(ruby, given.get(0), "the pattern")?);
    let cache = node.host().cache()?.clone();
    let deletion = async move { cache.delete_matched(&pattern).await };
    run(ruby, node, deletion, |ruby, removed| {
        let Removal { existed, reach } = removed?;
        ruby.array(&[ruby.count(existed)?, ruby.boolean(reach.is_everywhere())])
    })
}

/// `Cache#_drain(limit)`: how many invalidations are pending still.
fn drain<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (node, limit) = (node_of(given.this)?, time(ruby, "limit", given.get(0))?);
    let cache = node.host().cache()?.clone();
    run(ruby, node, async move { cache.close(limit).await }, |ruby, pending| ruby.count(pending as u64))
}

/// `Cache#_drain_at_exit(limit)`: the same, if this process has used the cache.
fn drain_at_exit<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (node, limit) = (node_of(given.this)?, time(ruby, "limit", given.get(0))?);
    let drained = blocking(ruby, || node.host().drain(limit))?;
    ruby.count(drained.map_err(Raised::fault)? as u64)
}

/// `Cache#_close(limit)`: ends the cache of this process. How many invalidations are lost.
fn close<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let (node, limit) = (node_of(given.this)?, time(ruby, "limit", given.get(0))?);
    let closed = blocking(ruby, || node.host().close(limit))?;
    crate::call::upkeep(ruby)?;
    ruby.count(closed.map_err(Raised::fault)? as u64)
}

/// `Cache#enabled=`
fn set_enabled<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    node_of(given.this)?.host().cache()?.set_enabled(given.get(0).is_true());
    Ok(ruby.nil())
}

/// `Cache#coherence`
fn coherence<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let now = node_of(given.this)?.host().cache()?.coherence();
    let hash = ruby.hash()?;
    ruby.put(hash, ruby.symbol("mode"), ruby.text(mode_name(now.mode))?)?;
    ruby.put(hash, ruby.symbol("memory_trusted"), ruby.boolean(now.memory_trusted))?;
    ruby.put(hash, ruby.symbol("proof_age"), ruby.seconds(now.proof_age)?)?;
    ruby.put(hash, ruby.symbol("disconnected"), ruby.seconds(now.disconnected)?)?;
    ruby.put(hash, ruby.symbol("pending_invalidations"), ruby.count(now.pending_invalidations as u64)?)?;
    let problem = now.problem.map_or_else(|| Ok(ruby.nil()), |problem| ruby.text(&problem.to_string()))?;
    ruby.put(hash, ruby.symbol("problem"), problem)?;
    Ok(hash)
}

/// `Cache#stats`
fn stats<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let stats = node_of(given.this)?.host().cache()?.stats();
    let hash = ruby.hash()?;
    ruby.put(hash, ruby.symbol("memory"), tier(ruby, &stats.memory)?)?;
    let redis = stats.redis.as_ref().map_or_else(|| Ok(ruby.nil()), |stats| tier(ruby, stats))?;
    ruby.put(hash, ruby.symbol("redis"), redis)?;
    for (name, count) in cache_counters(&stats) {
        ruby.put(hash, ruby.symbol(name), ruby.count(count)?)?;
    }
    Ok(hash)
}

fn tier<'r>(ruby: Ruby<'r>, stats: &TierStats) -> Result<Value<'r>> {
    let hash = ruby.hash()?;
    for (name, count) in tier_counters(stats) {
        let count = count.map_or_else(|| Ok(ruby.nil()), |count| ruby.count(count))?;
        ruby.put(hash, ruby.symbol(name), count)?;
    }
    Ok(hash)
}

impl<'r> Ruby<'r> {
    /// A time as a number of seconds.
    pub(crate) fn seconds(self, time: Duration) -> Result<Value<'r>> {
        self.float(time.as_secs_f64())
    }
}

/// A call that tells whether all nodes know of what it did.
pub(crate) fn reached<'r>(
    ruby: Ruby<'r>,
    node: &Arc<Node>,
    call: impl Future<Output = std::result::Result<Reach, CacheError>> + Send + 'static,
) -> Result<Value<'r>> {
    run(ruby, node, call, |ruby, reach| Ok(ruby.boolean(reach?.is_everywhere())))
}

pub(crate) fn define(ruby: Ruby<'_>) -> Result<()> {
    let class = ruby.class(c"Cache")?;
    ruby.add_functions(class, methods![c"_open" => open, 2..=2])?;
    ruby.add_methods(
        class,
        methods![
            c"namespace" => namespace, 0..=0;
            c"_invalidate_tags" => invalidate_tags, 2..=2;
            c"clear" => clear, 0..=0;
            c"delete_matched_with_reach" => delete_matched, 1..=1;
            c"_drain" => drain, 1..=1;
            c"_drain_at_exit" => drain_at_exit, 1..=1;
            c"_close" => close, 1..=1;
            c"enabled=" => set_enabled, 1..=1;
            c"coherence" => coherence, 0..=0;
            c"stats" => stats, 0..=0;
        ],
    )
}
