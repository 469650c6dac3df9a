//! The purges that a handler asks for. They take effect at once, and again when the handler ends: a load that started in
//! between may have read the state before the handler's transaction was committed.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::policy::home_runtime::HomeRuntime;

/// What purges by tags: the cache in front of the handler.
pub(crate) trait PurgeTag: fmt::Debug + Send + Sync {
    fn purge_tag(&self, tag: &str);
}

/// The purges of one handler.
#[derive(Debug)]
pub(crate) struct HandlerPurges {
    cache: Arc<dyn PurgeTag>,
    /// The tags to purge again; `None` after the handler has ended.
    tags: Mutex<Option<HashSet<Box<str>>>>,
    runtime: HomeRuntime,
}

impl HandlerPurges {
    pub(crate) fn new(cache: Arc<dyn PurgeTag>, runtime: HomeRuntime) -> HandlerPurges {
        HandlerPurges { cache, tags: Mutex::new(Some(HashSet::new())), runtime }
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
        let _entered = self.runtime.enter();
        self.cache.purge_tag(tag);
    }
}
