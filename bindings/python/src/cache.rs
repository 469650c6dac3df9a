//! A cache, with its options as text.

use crate::call::Call;
use crate::options::time;
use crate::raised::{LarderError, of_host};
use larder::{CacheError, Invalidation, Reach, TierStats};
use larder_host::{HostCache, cache_counters, mode_name, tier_counters};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::Duration;

/// A namespace with its tiers.
#[pyclass(frozen, subclass, module = "larder_cache")]
pub(crate) struct Cache {
    host: HostCache,
    namespace: String,
}

impl Cache {
    pub(crate) fn host(&self) -> &HostCache {
        &self.host
    }

    pub(crate) fn namespace_name(&self) -> &str {
        &self.namespace
    }

    fn cache(&self) -> PyResult<&larder::Cache> {
        self.host.cache().map_err(of_host)
    }
}

#[pymethods]
impl Cache {
    /// Options are pairs of texts.
    #[new]
    fn new(namespace: String, options: Vec<(String, String)>) -> PyResult<Self> {
        let host = HostCache::with_options(&namespace, options).map_err(of_host)?;
        Ok(Cache { host, namespace })
    }

    /// The name that this cache has in Redis.
    #[getter]
    fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether it was closed: it does not start again.
    #[getter]
    fn _is_closed(&self) -> bool {
        self.host.is_closed()
    }

    fn _invalidate_tags(&self, tags: Vec<String>, soft: bool) -> PyResult<Call> {
        let (cache, how) =
            (self.cache()?.clone(), if soft { Invalidation::Soft } else { Invalidation::Hard });
        Ok(self.reached(async move { cache.invalidate_tags(tags, how).await }))
    }

    fn _clear(&self) -> PyResult<Call> {
        let cache = self.cache()?.clone();
        Ok(self.reached(async move { cache.clear().await }))
    }

    fn _delete_matched(&self, pattern: String) -> PyResult<Call> {
        let cache = self.cache()?.clone();
        let deletion = async move { cache.delete_matched(&pattern).await };
        Ok(Call::new(&self.host, deletion, |py, removed| {
            let removed = removed.map_err(of_host)?;
            Ok((removed.existed, removed.reach.is_everywhere()).into_pyobject(py)?.into_any())
        }))
    }

    fn _drain(&self, limit: &Bound<'_, PyAny>) -> PyResult<Call> {
        let (cache, limit) = (self.cache()?.clone(), time("limit", limit)?);
        let drained = async move { cache.close(limit).await };
        Ok(Call::new(&self.host, drained, |py, pending| Ok(pending.into_pyobject(py)?.into_any())))
    }

    /// The same at the exit of the interpreter, for a cache that was started.
    fn _drain_at_exit(&self, py: Python<'_>, limit: &Bound<'_, PyAny>) -> PyResult<usize> {
        let limit = time("limit", limit)?;
        py.detach(|| self.host.drain(limit)).map_err(|error| LarderError::new_err(error.to_string()))
    }

    /// Ends the cache of this process and its threads: later calls raise `CacheClosed`. Returns the number of invalidations that are lost.
    #[pyo3(signature = (limit = None))]
    fn close(&self, py: Python<'_>, limit: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let limit = match limit {
            Some(limit) => time("limit", limit)?,
            None => Duration::from_secs(2),
        };
        py.detach(|| self.host.close(limit)).map_err(|error| LarderError::new_err(error.to_string()))
    }

    /// Turns the cache off or on.
    fn set_enabled(&self, enabled: bool) -> PyResult<()> {
        self.cache()?.set_enabled(enabled);
        Ok(())
    }

    /// The coherence with other nodes.
    fn coherence<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let now = self.cache()?.coherence();
        let dict = PyDict::new(py);
        dict.set_item("mode", mode_name(now.mode))?;
        dict.set_item("memory_trusted", now.memory_trusted)?;
        dict.set_item("proof_age", now.proof_age.as_secs_f64())?;
        dict.set_item("disconnected", now.disconnected.as_secs_f64())?;
        dict.set_item("pending_invalidations", now.pending_invalidations)?;
        dict.set_item("problem", now.problem.map(|problem| problem.to_string()))?;
        Ok(dict)
    }

    /// The counters of this process.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.cache()?.stats();
        let dict = PyDict::new(py);
        dict.set_item("memory", tier(py, &stats.memory)?)?;
        dict.set_item("redis", stats.redis.as_ref().map(|stats| tier(py, stats)).transpose()?)?;
        for (name, count) in cache_counters(&stats) {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }
}

impl Cache {
    fn reached(&self, call: impl Future<Output = Result<Reach, CacheError>> + Send + 'static) -> Call {
        reached(&self.host, call)
    }
}

/// A call that tells whether all nodes know of what it did.
pub(crate) fn reached(
    cache: &HostCache,
    call: impl Future<Output = Result<Reach, CacheError>> + Send + 'static,
) -> Call {
    Call::new(cache, call, |py, reach| {
        let reach = reach.map_err(of_host)?;
        Ok(reach.is_everywhere().into_pyobject(py)?.to_owned().into_any())
    })
}

fn tier<'py>(py: Python<'py>, stats: &TierStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in tier_counters(stats) {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}
