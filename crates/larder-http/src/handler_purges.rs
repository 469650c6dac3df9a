//! The purges that a handler asks for. They take effect at once, and again when the handler ends: a load that started in
//! between may have read the state before the handler's transaction was committed.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "shared")]
use tokio::runtime::Handle;

use crate::cache::HttpCache;

/// The purges of one handler.
#[derive(Debug)]
pub(crate) struct HandlerPurges {
    cache: HttpCache,
    /// The tags to purge again; `None` after the handler has ended.
    tags: Mutex<Option<HashSet<Box<str>>>>,
    /// That of the request, for a shared cache. The handler may purge on a thread that has none.
    #[cfg(feature = "shared")]
    runtime: Option<Handle>,
}

impl HandlerPurges {
    pub(crate) fn new(cache: HttpCache) -> HandlerPurges {
        #[cfg(feature = "shared")]
        let runtime = cache.core().shared.as_ref().and_then(|_| Handle::try_current().ok());
        HandlerPurges {
            cache,
            tags: Mutex::new(Some(HashSet::new())),
            #[cfg(feature = "shared")]
            runtime,
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
        let _entered = self.runtime.as_ref().map(Handle::enter);
        self.cache.purge_tag(tag);
    }
}
