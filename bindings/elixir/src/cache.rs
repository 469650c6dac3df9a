//! A cache, which belongs to the process that has opened it.

use crate::call::{self, Here};
use crate::erl::nif::Call;
use crate::erl::resource::{Handle, Kind, Resource};
use crate::erl::{Env, Pid, Term, atom};
use crate::options::{cache_options, tags, text, time};
use crate::raised::{Raised, Result};
use larder::{CacheError, Invalidation, Reach, Removal, TierStats};
use larder_host::{HostCache, LoadId, Waiting, cache_counters, mode_name, tier_counters};
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the end of the owner waits for invalidations that Redis has not confirmed.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// A cache.
pub(crate) struct Cache {
    pub(crate) host: HostCache,
    pub(crate) namespace: String,
    is_closed: AtomicBool,
    /// The loads under way, by their processes: one that loads a key must not wait for it.
    loading: Mutex<HashMap<Pid, Vec<Loaded>>>,
}

/// The view and the key of a load.
type Loaded = (Arc<str>, Vec<u8>);

impl Cache {
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn native(&self) -> Result<&larder::Cache> {
        if self.is_closed() { Err(Raised::closed()) } else { Ok(self.host.cache()?) }
    }

    /// Whether the process loads the key.
    pub(crate) fn is_loading(&self, view: &Arc<str>, key: &[u8], process: Pid) -> bool {
        let loading = self.loading();
        let of_process = loading.get(&process).into_iter().flatten();
        of_process.into_iter().any(|(of_view, of_key)| of_view == view && of_key == key)
    }

    /// The wait of a process for loads of a view. An error if one of them waits for a load of that process.
    pub(crate) fn waiting<'k>(
        &self,
        view: &Arc<str>,
        keys: impl Iterator<Item = &'k [u8]>,
        process: Pid,
    ) -> Result<Option<Waiting>> {
        let held = {
            let loading = self.loading();
            let Some(of_process) = loading.get(&process) else { return Ok(None) };
            of_process.iter().map(|(view, key)| self.load_id(view, key)).collect()
        };
        Ok(Waiting::begin(held, keys.map(|key| self.load_id(view, key)).collect())?)
    }

    /// No other load of the system process has this name.
    fn load_id(&self, view: &Arc<str>, key: &[u8]) -> LoadId {
        [format!("{self:p}\0{view}\0").as_bytes(), key].concat()
    }

    fn loading(&self) -> MutexGuard<'_, HashMap<Pid, Vec<Loaded>>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, limit: Duration) -> usize {
        self.is_closed.store(true, Ordering::Relaxed);
        // This is no thread of a runtime, and nothing else goes wrong.
        self.host.close(limit).unwrap_or_default()
    }
}

/// Notes that a process loads a key, until this is dropped.
pub(crate) struct Loading {
    cache: Arc<Cache>,
    process: Pid,
    load: Loaded,
}

impl Loading {
    pub(crate) fn new(cache: &Arc<Cache>, view: &Arc<str>, key: &[u8], process: Pid) -> Self {
        let load = (view.clone(), key.to_vec());
        cache.loading().entry(process).or_default().push(load.clone());
        Loading { cache: cache.clone(), process, load }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        let mut loading = self.cache.loading();
        let Some(of_process) = loading.get_mut(&self.process) else { return };
        if let Some(own) = of_process.iter().position(|load| *load == self.load) {
            of_process.swap_remove(own);
        }
        if of_process.is_empty() {
            loading.remove(&self.process);
        }
    }
}

/// What terms refer to.
pub(crate) struct CacheResource(Arc<Cache>);

static CACHE: Kind = Kind::new();

impl Resource for CacheResource {
    const NAME: &'static CStr = c"cache";

    fn kind() -> &'static Kind {
        &CACHE
    }

    /// The process was killed before it could close the cache.
    fn process_ended(&self) {
        if !self.0.is_closed.swap(true, Ordering::Relaxed) {
            let cache = self.0.clone();
            elsewhere(move || _ = cache.close(DRAIN_LIMIT));
        }
    }
}

impl Drop for CacheResource {
    /// The memory of a cache takes long to free.
    fn drop(&mut self) {
        let cache = self.0.clone();
        elsewhere(move || drop(cache));
    }
}

/// Runs something that takes long, which nobody waits for.
pub(crate) fn elsewhere(run: impl FnOnce() + Send + 'static) {
    // Where the system has no more threads, it is not run.
    _ = std::thread::Builder::new().name("larder-end".into()).spawn(run);
}

/// The cache that a term refers to.
pub(crate) fn cache_of<'e>(term: Term<'e>) -> Result<&'e Arc<Cache>> {
    let resource = term.resource::<CacheResource>().ok_or_else(|| Raised::fault("it is no cache"))?;
    Ok(&resource.0)
}

/// `open_cache(namespace, options)`: starts a cache, which the calling process owns. Starts threads.
pub(crate) fn open<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let namespace = text(call.given[0], "namespace")?;
    let host = HostCache::with_options(&namespace, cache_options(call.given[1])?)?;
    host.cache()?;
    let cache = Cache { host, namespace, is_closed: AtomicBool::new(false), loading: Mutex::default() };
    let handle = Handle::new(CacheResource(Arc::new(cache)));
    handle.watch(Some(call.env), call.env.caller());
    Ok(handle.term(call.env))
}

/// `close_cache(cache, limit)`: ends it, and returns how many invalidations Redis has not confirmed. Blocks.
pub(crate) fn close<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let cache = cache_of(call.given[0])?;
    Ok(call.env.unsigned(cache.close(time("limit", call.given[1])?) as u64))
}

/// `invalidate_tags(cache, reference, tags, soft)`
pub(crate) fn invalidate_tags<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let cache = cache_of(call.given[0])?;
    let (native, tags) = (cache.native()?.clone(), tags(call.given[2])?);
    let how = if call.given[3].boolean() == Some(true) { Invalidation::Soft } else { Invalidation::Hard };
    call::start(
        call,
        &cache.host,
        call.given[1],
        async move { native.invalidate_tags(tags, how).await },
        reached,
    )
}

/// `clear(cache, reference)`
pub(crate) fn clear<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let cache = cache_of(call.given[0])?;
    let native = cache.native()?.clone();
    call::start(call, &cache.host, call.given[1], async move { native.clear().await }, reached)
}

/// `delete_matched(cache, reference, pattern)`: how many there were in Redis.
pub(crate) fn delete_matched<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let cache = cache_of(call.given[0])?;
    let (native, pattern) = (cache.native()?.clone(), text(call.given[2], "the pattern")?);
    let deletion = async move { native.delete_matched(&pattern).await };
    call::start(
        call,
        &cache.host,
        call.given[1],
        deletion,
        |here, removed: std::result::Result<Removal<u64>, CacheError>| {
            let removed = removed?;
            Ok(here.env.tuple([reach(here.env, removed.reach), here.env.unsigned(removed.existed)]))
        },
    )
}

/// `drain(cache, reference, limit)`: how many invalidations Redis has not confirmed by then.
pub(crate) fn drain<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let cache = cache_of(call.given[0])?;
    let (native, limit) = (cache.native()?.clone(), time("limit", call.given[2])?);
    let drained = async move { native.close(limit).await };
    call::start(call, &cache.host, call.given[1], drained, |here, pending| {
        Ok(here.env.unsigned(pending as u64))
    })
}

/// `set_enabled(cache, enabled)`
pub(crate) fn set_enabled<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let enabled = call.given[1];
    let is_enabled = enabled
        .boolean()
        .ok_or_else(|| Raised::option(format!("enabled is {}; it must be true or false", enabled.shown())))?;
    cache_of(call.given[0])?.native()?.set_enabled(is_enabled);
    Ok(call.env.atom(&atom::OK))
}

/// `coherence(cache)`
pub(crate) fn coherence<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (env, now) = (call.env, cache_of(call.given[0])?.native()?.coherence());
    Ok(env.record([
        (&atom::MODE, env.named(&mode_name(now.mode).replace(' ', "_"))),
        (&atom::MEMORY_TRUSTED, env.boolean(now.memory_trusted)),
        (&atom::PROOF_AGE, milliseconds(env, now.proof_age)),
        (&atom::DISCONNECTED, milliseconds(env, now.disconnected)),
        (&atom::PENDING_INVALIDATIONS, env.unsigned(now.pending_invalidations as u64)),
        (&atom::PROBLEM, now.problem.map_or(env.nil(), |problem| env.binary(problem.to_string().as_bytes()))),
    ]))
}

/// `stats(cache)`
pub(crate) fn stats<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (env, stats) = (call.env, cache_of(call.given[0])?.native()?.stats());
    let redis = stats.redis.as_ref().map_or_else(|| env.nil(), |stats| tier(env, stats));
    let tiers = [(env.atom(&atom::MEMORY), tier(env, &stats.memory)), (env.atom(&atom::REDIS), redis)];
    let counters = cache_counters(&stats).map(|(name, count)| (env.named(name), env.unsigned(count)));
    Ok(env.map(tiers.into_iter().chain(counters)))
}

fn tier<'e>(env: Env<'e>, stats: &TierStats) -> Term<'e> {
    env.map(
        tier_counters(stats).map(|(name, count)| {
            (env.named(name), count.map_or_else(|| env.nil(), |count| env.unsigned(count)))
        }),
    )
}

/// What a mutation results in: `:ok` if all nodes know, `:queued` if Redis has not confirmed it.
pub(crate) fn reach(env: Env<'_>, reach: Reach) -> Term<'_> {
    env.atom(if reach.is_everywhere() { &atom::OK } else { &atom::QUEUED })
}

pub(crate) fn reached<'a>(
    here: Here<'a>,
    result: std::result::Result<Reach, CacheError>,
) -> Result<Term<'a>> {
    Ok(reach(here.env, result?))
}

/// A time in whole milliseconds.
pub(crate) fn milliseconds(env: Env<'_>, time: Duration) -> Term<'_> {
    env.unsigned(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
