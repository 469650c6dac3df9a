//! Where parts make themselves known, and where the pages ask them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use crate::purge::Purger;
use crate::sample::{Sample, State};

/// A part that can be asked for its figures.
///
/// Every closure that returns a [`Sample`] is one.
pub trait Source: Send + Sync {
    /// The figures now. Called for each request to a page, several times a second at most: it should neither block
    /// nor take long.
    fn sample(&self) -> Sample;
}

impl<F: Fn() -> Sample + Send + Sync> Source for F {
    fn sample(&self) -> Sample {
        self()
    }
}

/// The parts of a process. Clones share it.
#[derive(Clone, Default)]
pub struct Registry(Arc<RwLock<Vec<Part>>>);

#[derive(Clone)]
struct Part {
    name: String,
    kind: &'static str,
    source: Arc<dyn Source>,
    purger: Option<Arc<dyn Purger>>,
}

/// A part's sample with its name.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) can_purge: bool,
    pub(crate) sample: Sample,
}

impl Registry {
    /// A registry without parts.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a part: its name, which is unique, and its kind (`cache`, `http`, `server`, `app`). A part registered
    /// under the same name before is replaced, in its place.
    pub fn register(&self, name: impl Into<String>, kind: &'static str, source: impl Source + 'static) {
        self.put(Part { name: name.into(), kind, source: Arc::new(source), purger: None });
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
        self.put(Part { name: name.into(), kind, source: Arc::new(source), purger });
    }

    fn put(&self, part: Part) {
        let mut parts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match parts.iter_mut().find(|known| known.name == part.name) {
            Some(known) => *known = part,
            None => parts.push(part),
        }
    }

    /// Asks every part, in the order of registration. A source that panics is reported as unknown.
    pub(crate) fn sample(&self) -> Vec<Named> {
        // Asked outside the lock: a source may be slow, and may register parts itself.
        let parts = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        parts
            .into_iter()
            .map(|part| {
                let sample = catch_unwind(AssertUnwindSafe(|| part.source.sample()));
                let unknown = |_| Sample { state: State::Unknown, ..Sample::default() };
                Named {
                    name: part.name,
                    kind: part.kind,
                    can_purge: part.purger.is_some(),
                    sample: sample.unwrap_or_else(unknown),
                }
            })
            .collect()
    }

    /// `None` when there is no such part, `Some(None)` when it cannot be purged.
    pub(crate) fn purger(&self, name: &str) -> Option<Option<Arc<dyn Purger>>> {
        let parts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        parts.iter().find(|part| part.name == name).map(|part| part.purger.clone())
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(parts.iter().map(|part| &part.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_registered_again_keeps_its_place() {
        let registry = Registry::new();
        registry.register("a", "cache", Sample::running);
        registry.register("b", "cache", Sample::running);
        registry.register("a", "server", || Sample { restarts: 1, ..Sample::default() });
        let named = registry.sample();
        let seen: Vec<_> = named.iter().map(|p| (p.name.as_str(), p.kind, p.sample.restarts)).collect();
        assert_eq!(seen, [("a", "server", 1), ("b", "cache", 0)]);
    }

    #[test]
    fn a_source_that_panics_hides_no_other() {
        let registry = Registry::new();
        registry.register("broken", "cache", || -> Sample { panic!("no figures") });
        registry.register("fine", "cache", Sample::running);
        let states: Vec<_> = registry.sample().iter().map(|part| part.sample.state).collect();
        assert_eq!(states, [State::Unknown, State::Running]);
    }
}
