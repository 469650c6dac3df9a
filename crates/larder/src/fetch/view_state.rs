//! The state that all clones of a view share: its configuration, and the node with its protocol.

use crate::coherence::Coordinator;
use crate::key::{KeyBuf, MemoryKey, MemoryKeyRef};
use crate::node::Node;
use crate::node::view_config::ViewConfig;
use crate::policy::{Lifetime, Policy};
use std::sync::Arc;

pub(crate) struct ViewState<V> {
    pub(crate) config: ViewConfig<V>,
    pub(crate) coordinator: Arc<Coordinator>,
}

impl<V> ViewState<V> {
    pub(crate) fn node(&self) -> &Node {
        &self.coordinator.node
    }

    pub(crate) fn memory_key<'k>(&self, key: &'k KeyBuf) -> MemoryKeyRef<'k> {
        MemoryKeyRef { view: self.config.number, bytes: key.as_bytes() }
    }

    pub(crate) fn redis_key(&self, key: &KeyBuf) -> Vec<u8> {
        self.node().keyspace.redis_key(&self.config.name, key)
    }

    pub(crate) fn both_keys(&self, key: &KeyBuf) -> (MemoryKey, Vec<u8>) {
        (self.memory_key(key).into_owned(), self.redis_key(key))
    }
}

impl<V: 'static> ViewState<V> {
    /// How long a value is fresh and kept by this policy, and by the view's where it leaves something open.
    pub(crate) fn lifetime(&self, value: &V, policy: Policy) -> Lifetime {
        self.config.lifetime(value, policy.or(self.config.policy), &self.node().random)
    }
}

impl<V> Clone for ViewState<V> {
    fn clone(&self) -> Self {
        ViewState { config: self.config.clone(), coordinator: self.coordinator.clone() }
    }
}
