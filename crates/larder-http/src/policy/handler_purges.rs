//! The purges that a handler asks for. They take effect at once, and again when the handler ends: a load that started in
//! between may have read the state before the handler's transaction was committed.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "shared")]
use crate::shared::HomeRuntime;
use crate::store::HttpCache;

/// The purges of one handler.
#[derive(Debug)]
pub(crate) struct HandlerPurges {
    cache: HttpCache,
    /// The tags to purge again; `None` after the handler has ended.
    tags: Mutex<Option<HashSet<Box<str>>>>,
    #[cfg(feature = "shared")]
    runtime: HomeRuntime,
}

impl HandlerPurges {
    pub(crate) fn new(cache: HttpCache) -> HandlerPurges {
        HandlerPurges {
            #[cfg(feature = "shared")]
            runtime: HomeRuntime::of(cache.core()),
            cache,
            tags: Mutex::new(Some(HashSet::new())),
        }
    }

    pub(crate) fn purge_tag(&self, tag: &str) {
        self.purge(tag);
        let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tags) = &mut *tags {
            tags.insert(tag.into());
        }
    }

    /// The handler has ended. Without effect when called again.
    pub(crate) fn end(&self) {
        let tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner).take();
        tags.into_iter().flatten().for_each(|tag| self.purge(&tag));
    }

    fn purge(&self, tag: &str) {
        #[cfg(feature = "shared")]
        let _entered = self.runtime.enter();
        self.cache.purge_tag(tag);
    }
}
