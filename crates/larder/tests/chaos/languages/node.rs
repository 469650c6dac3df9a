//! Nodes of a run: a cache of this process, or one in another language.

use crate::languages::remote::RemoteNode;
use crate::promise::book::Value;
use crate::promise::calls::{NodeCalls, Outcome};
use crate::promise::node::Node;
use larder::{CoherenceMode, Source, Update};
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum AnyNode {
    Rust(Box<Node>),
    Child(RemoteNode),
}

/// Makes the same call of either kind of node.
macro_rules! either {
    ($any:ident, $node:ident => $call:expr) => {
        match $any {
            AnyNode::Rust($node) => $call,
            AnyNode::Child($node) => $call,
        }
    };
}

impl AnyNode {
    /// Whether it owes nothing to other nodes and hears of all; otherwise what it says.
    pub(crate) async fn settled(&self) -> Result<(), String> {
        let node = match self {
            AnyNode::Rust(node) => node,
            AnyNode::Child(node) => return node.settled().await,
        };
        let coherence = node.cache.coherence();
        let owes_nothing = coherence.pending_invalidations == 0;
        let is_settled = owes_nothing && coherence.memory_trusted && coherence.mode == CoherenceMode::Full;
        if is_settled { Ok(()) } else { Err(format!("{coherence:?}")) }
    }
}

impl NodeCalls for AnyNode {
    fn note_coherence(&self) {
        either!(self, node => node.note_coherence());
    }

    async fn fetch(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
    ) -> Option<Value> {
        either!(self, node => node.fetch(key, loading).await)
    }

    async fn lease(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
        leaves: bool,
    ) -> Option<Value> {
        either!(self, node => node.lease(key, loading, leaves).await)
    }

    async fn fetch_many<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Vec<Option<Value>> {
        either!(self, node => node.fetch_many(key, loader).await)
    }

    async fn lease_many<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Vec<Option<Value>> {
        either!(self, node => node.lease_many(key, loader).await)
    }

    async fn refresh(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
    ) -> Option<(Value, Source)> {
        either!(self, node => node.refresh(key, loading).await)
    }

    async fn hit(&self, key: usize) -> Option<Value> {
        either!(self, node => node.hit(key).await)
    }

    async fn read(&self, key: usize) -> Option<Value> {
        either!(self, node => node.read(key).await)
    }

    async fn read_many(&self) -> Vec<Option<Value>> {
        either!(self, node => node.read_many().await)
    }

    async fn write(&self, key: usize, value: Value) -> bool {
        either!(self, node => node.write(key, value).await)
    }

    async fn delete(&self, key: usize) -> bool {
        either!(self, node => node.delete(key).await)
    }

    async fn add(&self, key: usize, value: Value, tagged: bool) -> Result<bool, String> {
        either!(self, node => node.add(key, value, tagged).await)
    }

    async fn take(&self, key: usize) -> Result<Option<Value>, String> {
        either!(self, node => node.take(key).await)
    }

    async fn expire(&self, key: usize) {
        either!(self, node => node.expire(key).await);
    }

    async fn update(
        &self,
        key: usize,
        update: impl FnMut(Option<&Value>) -> Update<Value> + Send + 'static,
    ) -> Result<bool, String> {
        either!(self, node => node.update(key, update).await)
    }

    async fn touch(&self, key: usize, ttl: Duration) {
        either!(self, node => node.touch(key, ttl).await);
    }

    async fn soften_tag(&self, key: usize) {
        either!(self, node => node.soften_tag(key).await);
    }

    async fn use_raw(&self, key: usize) {
        either!(self, node => node.use_raw(key).await);
    }

    async fn invalidate_tag(&self, key: usize) -> bool {
        either!(self, node => node.invalidate_tag(key).await)
    }

    async fn delete_matched(&self, key: Option<usize>) -> bool {
        either!(self, node => node.delete_matched(key).await)
    }

    async fn clear(&self) -> bool {
        either!(self, node => node.clear().await)
    }

    async fn clear_space(&self, level: usize) -> bool {
        either!(self, node => node.clear_space(level).await)
    }
}
