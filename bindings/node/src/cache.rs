//! A cache: one in the process for all threads that open it with the same options.

use crate::environment::{Calls, Environment};
use crate::js::external::External;
use crate::js::function::Arguments;
use crate::js::{Env, Value};
use crate::options::time;
use crate::raised::{Raised, Result};
use larder::{CacheError, Invalidation, Reach, TierStats};
use larder_host::{ErrorClass, HostCache, Spelling, cache_counters, mode_name, tier_counters};
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Names and texts of the options.
type Options = Vec<(String, String)>;

/// A cache of the process.
struct Shared {
    host: HostCache,
    key: (String, Options),
}

/// The caches that are open.
type OpenCaches = HashMap<(String, Options), Open>;

static OPEN: LazyLock<Mutex<OpenCaches>> = LazyLock::new(Mutex::default);

/// A cache that is open, by so many handles.
struct Open {
    shared: Arc<Shared>,
    handles: usize,
}

fn open_caches() -> MutexGuard<'static, OpenCaches> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the end of a cache or of the process waits for invalidations that Redis has not confirmed.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// A cache as one environment has it.
pub(crate) struct CacheHandle {
    shared: Arc<Shared>,
    calls: OnceCell<Rc<Calls>>,
    is_closed: Cell<bool>,
}

impl CacheHandle {
    /// Options are pairs of texts, in their order.
    fn open(namespace: String, options: Options) -> Result<Self> {
        let key = (namespace, options);
        let mut open = open_caches();
        if let Some(found) = open.get_mut(&key) {
            found.handles += 1;
            return Ok(CacheHandle::of(found.shared.clone()));
        }
        let shared =
            Arc::new(Shared { host: HostCache::with_options(&key.0, key.1.clone())?, key: key.clone() });
        open.insert(key, Open { shared: shared.clone(), handles: 1 });
        Ok(CacheHandle::of(shared))
    }

    fn of(shared: Arc<Shared>) -> Self {
        CacheHandle { shared, calls: OnceCell::new(), is_closed: Cell::new(false) }
    }

    pub(crate) fn host(&self) -> Result<&HostCache> {
        if self.is_closed.get() {
            return Err(Raised::of(ErrorClass::Closed, "the cache was closed"));
        }
        Ok(&self.shared.host)
    }

    fn cache(&self) -> Result<&larder::Cache> {
        Ok(self.host()?.cache()?)
    }

    /// The calls of this environment.
    pub(crate) fn calls(&self, environment: &Environment) -> Result<&Calls> {
        let host = self.host()?;
        if let Some(calls) = self.calls.get() {
            return Ok(calls);
        }
        let calls = environment.calls_on(host)?;
        Ok(self.calls.get_or_init(|| calls))
    }

    /// Lets go of the cache. Who was the last to have it ends it, after `limit` at most, and nobody waits for that.
    fn release(&self, limit: Duration) {
        if self.is_closed.replace(true) {
            return;
        }
        let mut open = open_caches();
        let Some(found) = open.get_mut(&self.shared.key) else { return };
        found.handles -= 1;
        if found.handles == 0 {
            open.remove(&self.shared.key);
            let host = self.shared.host.clone();
            std::thread::spawn(move || host.close(limit));
        }
    }
}

impl Drop for CacheHandle {
    /// JavaScript has forgotten it, or its thread ends.
    fn drop(&mut self) {
        self.release(DRAIN_LIMIT);
    }
}

/// `openCache(namespace, [[name, text], …])`
pub(crate) fn open<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let namespace = text(env, given[0], "the namespace")?;
    let mut options = Vec::new();
    for pair in given[1].elements(env)? {
        let name = text(env, pair.element(env, 0)?, "the name of an option")?;
        let value = text(env, pair.element(env, 1)?, &name)?;
        options.push((name, value));
    }
    env.external(External::Cache(Rc::new(CacheHandle::open(namespace, options)?)))
}

/// `cacheId(cache)`: a text that no other cache of the process has, and that all its handles have.
pub(crate) fn id<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    env.text(&format!("{:p}", Arc::as_ptr(&given[0].cache(env)?.shared)))
}

/// `releaseCache(cache)`, which was drained.
pub(crate) fn release<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    given[0].cache(env)?.release(Duration::ZERO);
    env.undefined()
}

/// `timeOptions()`: the names of the options of a cache that are times.
pub(crate) fn time_options<'s>(env: Env<'s>, _: &Arguments<'s>) -> Result<Value<'s>> {
    let names = larder_host::time_options().map(|name| env.text(name)).collect::<Result<Vec<_>>>()?;
    env.array_of(names)
}

/// `invalidateTags(cache, tags, soft)`
pub(crate) fn invalidate_tags<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let handle = given[0].cache(env)?;
    let tags = crate::options::tags(env, given[1])?;
    let how = if given[2].boolean(env)? { Invalidation::Soft } else { Invalidation::Hard };
    let cache = handle.cache()?.clone();
    reached(env, handle, async move { cache.invalidate_tags(tags, how).await })
}

/// `clear(cache)`
pub(crate) fn clear<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let handle = given[0].cache(env)?;
    let cache = handle.cache()?.clone();
    reached(env, handle, async move { cache.clear().await })
}

/// `deleteMatched(cache, pattern)`: how many there were.
pub(crate) fn delete_matched<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let handle = given[0].cache(env)?;
    let (cache, pattern) = (handle.cache()?.clone(), text(env, given[1], "the pattern")?);
    let deletion = async move { cache.delete_matched(&pattern).await };
    Environment::of(env)?.start(env, handle, deletion, |env, removed: std::result::Result<_, CacheError>| {
        let removed: larder::Removal<u64> = removed?;
        env.number(removed.existed as f64)
    })
}

/// `drain(cache, limit)`: how many invalidations are pending still.
pub(crate) fn drain<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let handle = given[0].cache(env)?;
    let (cache, limit) = (handle.cache()?.clone(), time(env, "limit", given[1])?);
    let drained = async move { cache.close(limit).await };
    Environment::of(env)?.start(env, handle, drained, |env, pending| env.number(pending as f64))
}

/// `drainAll()`, before the process ends: blocks while there are invalidations that Redis has not confirmed, for some time.
pub(crate) fn drain_all<'s>(env: Env<'s>, _: &Arguments<'s>) -> Result<Value<'s>> {
    let open = std::mem::take(&mut *open_caches());
    for Open { shared, .. } in open.into_values() {
        // The process ends whatever it says, and its threads with it.
        _ = shared.host.drain(DRAIN_LIMIT);
        std::mem::forget(shared);
    }
    env.undefined()
}

/// `setEnabled(cache, enabled)`
pub(crate) fn set_enabled<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    given[0].cache(env)?.cache()?.set_enabled(given[1].boolean(env)?);
    env.undefined()
}

/// `coherence(cache)`
pub(crate) fn coherence<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let now = given[0].cache(env)?.cache()?.coherence();
    let object = env.object()?;
    object.put(env, "mode", env.text(mode_name(now.mode))?)?;
    object.put(env, "memoryTrusted", env.boolean(now.memory_trusted)?)?;
    object.put(env, "proofAge", env.number(milliseconds(now.proof_age))?)?;
    object.put(env, "disconnected", env.number(milliseconds(now.disconnected))?)?;
    object.put(env, "pendingInvalidations", env.number(now.pending_invalidations as f64)?)?;
    let problem = now.problem.map_or_else(|| env.null(), |problem| env.text(&problem.to_string()))?;
    object.put(env, "problem", problem)?;
    Ok(object)
}

/// `stats(cache)`
pub(crate) fn stats<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    let stats = given[0].cache(env)?.cache()?.stats();
    let object = env.object()?;
    object.put(env, "memory", tier(env, &stats.memory)?)?;
    let redis = stats.redis.as_ref().map_or_else(|| env.null(), |stats| tier(env, stats))?;
    object.put(env, "redis", redis)?;
    for (name, count) in cache_counters(&stats) {
        object.put(env, &Spelling::Camel.of(name), env.number(count as f64)?)?;
    }
    Ok(object)
}

fn tier<'s>(env: Env<'s>, stats: &TierStats) -> Result<Value<'s>> {
    let object = env.object()?;
    for (name, count) in tier_counters(stats) {
        let count = count.map_or_else(|| env.null(), |count| env.number(count as f64))?;
        object.put(env, name, count)?;
    }
    Ok(object)
}

/// A call that tells whether all nodes know of what it did.
pub(crate) fn reached<'s>(
    env: Env<'s>,
    handle: &CacheHandle,
    call: impl Future<Output = std::result::Result<Reach, CacheError>> + Send + 'static,
) -> Result<Value<'s>> {
    Environment::of(env)?.start(env, handle, call, |env, reach| env.boolean(reach?.is_everywhere()))
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// A text, or an error that names what it is not.
pub(crate) fn text<'s>(env: Env<'s>, value: Value<'s>, name: &str) -> Result<String> {
    let refused = || -> Raised {
        Raised::of(ErrorClass::Option, format!("{name} is {}; it must be a text", value.shown(env)))
    };
    if value.kind(env)? != crate::js::Kind::Text {
        return Err(refused());
    }
    value.text(env)?.ok_or_else(refused)
}
