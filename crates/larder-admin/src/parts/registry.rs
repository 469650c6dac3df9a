//! The registry of the parts, from which the pages read their samples.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use futures_util::future::join_all;

use crate::moment::Moment;
use crate::parts::beginnings::Beginnings;
use crate::parts::estimates::Estimates;
use crate::parts::explain::{Explainer, Explanation};
use crate::parts::purge::Purger;
use crate::parts::sample::{PartSample, Sample, State};
use crate::unwind::{caught, caught_async};

/// Returns the figures of a part.
///
/// Implemented by every closure that returns a [`Sample`].
pub trait Source: Send + Sync {
    /// The current figures. Called for each request to a page, up to several times a second: it should be fast and must
    /// not block.
    fn sample(&self) -> Sample;
}

impl<F: Fn() -> Sample + Send + Sync> Source for F {
    fn sample(&self) -> Sample {
        self()
    }
}

/// The parts of a process. Clones share the parts.
#[derive(Clone, Default)]
pub struct Registry(Arc<Parts>);

#[derive(Default)]
struct Parts {
    list: RwLock<Vec<Part>>,
    beginnings: Beginnings,
    estimates: Estimates,
}

#[derive(Clone)]
struct Part {
    name: String,
    kind: &'static str,
    source: Arc<dyn Source>,
    purger: Option<Arc<dyn Purger>>,
    explainer: Option<Arc<dyn Explainer>>,
}

impl Registry {
    /// A registry without parts.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a part with a unique name and a kind (`cache`, `http`, `server`, `app`). It replaces a part of the same
    /// name, at the same position.
    pub fn register(&self, name: impl Into<String>, kind: &'static str, source: impl Source + 'static) {
        self.add(Part { name: name.into(), kind, source: Arc::new(source), purger: None, explainer: None });
    }

    /// Adds a part that can be purged.
    pub fn register_with_purger(
        &self,
        name: impl Into<String>,
        kind: &'static str,
        source: impl Source + 'static,
        purger: impl Purger + 'static,
    ) {
        let purger: Option<Arc<dyn Purger>> = Some(Arc::new(purger));
        self.add(Part { name: name.into(), kind, source: Arc::new(source), purger, explainer: None });
    }

    /// Lets a part that is registered explain keys and URLs; nothing happens if there is no such part.
    pub fn explain_with(&self, name: &str, explainer: impl Explainer + 'static) {
        let mut parts = self.0.list.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts.iter_mut().find(|part| part.name == name) {
            part.explainer = Some(Arc::new(explainer));
        }
    }

    fn list(&self) -> RwLockReadGuard<'_, Vec<Part>> {
        self.0.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, part: Part) {
        let mut parts = self.0.list.write().unwrap_or_else(PoisonError::into_inner);
        match parts.iter_mut().find(|existing| existing.name == part.name) {
            Some(existing) => *existing = part,
            None => parts.push(part),
        }
    }

    /// Samples every part, in the order of registration. If a source panics, the state of its part is unknown.
    pub(crate) fn sample(&self) -> Vec<PartSample> {
        // Called without the lock: a source may be slow, and may register other parts.
        let parts = self.list().clone();
        let mut samples: Vec<PartSample> = parts
            .into_iter()
            .map(|part| {
                let sample = caught(|| part.source.sample().merged());
                let purger = part.purger.as_ref();
                let targets = || purger.map_or_else(Vec::new, |purger| purger.targets().to_vec());
                let soft_purges = || purger.is_some_and(|purger| purger.has_soft_purges());
                let unknown = || Sample { state: State::Unknown, ..Sample::default() };
                PartSample {
                    name: part.name,
                    kind: part.kind,
                    purge_targets: caught(targets).unwrap_or_default(),
                    has_soft_purges: caught(soft_purges).unwrap_or_default(),
                    sample: sample.unwrap_or_else(unknown),
                }
            })
            .collect();
        self.0.beginnings.follow(&mut samples, Moment::now());
        self.0.estimates.bound(&mut samples);
        samples
    }

    /// What each part, or the one of a name, says about a target, in the order of registration. All are asked at once, so
    /// that the slowest decides how long it takes. Parts that say nothing are omitted; one whose explainer panics has an
    /// explanation that says so.
    pub(crate) async fn explain(&self, target: &str, name: Option<&str>) -> Vec<(String, Explanation)> {
        let parts = self.list().clone();
        let asked =
            parts.into_iter().filter(|part| name.is_none_or(|name| part.name == name)).map(async |part| {
                let explainer = part.explainer?;
                let explanation = caught_async(|| explainer.explain(target)).await;
                let failed = || Some(Explanation::new("unknown: the explainer of this part panicked"));
                Some((part.name, explanation.unwrap_or_else(failed)?))
            });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// `None` if there is no such part, `Some(None)` if it cannot be purged.
    pub(crate) fn purger(&self, name: &str) -> Option<Option<Arc<dyn Purger>>> {
        let parts = self.list();
        parts.iter().find(|part| part.name == name).map(|part| part.purger.clone())
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.list();
        f.debug_list().entries(parts.iter().map(|part| &part.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_registered_again_keeps_its_position() {
        let registry = Registry::new();
        registry.register("a", "cache", Sample::running);
        registry.register("b", "cache", Sample::running);
        registry.register("a", "server", || Sample { restarts: 1, ..Sample::default() });
        let samples = registry.sample();
        let parts: Vec<_> = samples.iter().map(|p| (p.name.as_str(), p.kind, p.sample.restarts)).collect();
        assert_eq!(parts, [("a", "server", 1), ("b", "cache", 0)]);
    }

    #[test]
    fn source_that_panics_does_not_affect_others() {
        let registry = Registry::new();
        registry.register("broken", "cache", || -> Sample { panic!("no figures") });
        registry.register("fine", "cache", Sample::running);
        let states: Vec<_> = registry.sample().iter().map(|part| part.sample.state).collect();
        assert_eq!(states, [State::Unknown, State::Running]);
    }
}
