//! Real nodes in this process: those that listen, and one that deletes.

use anyhow::{Result, ensure};
use larder::{Cache, CoherenceMode, Raw, View};
use std::time::{Duration, Instant};

type Values = View<u64, Vec<u8>>;

/// Each node has looked up so many keys, so that all of its connections are open.
const LOOKED_UP: u64 = 64;
const COHERENT_WITHIN: Duration = Duration::from_secs(30);
/// As for nodes on a busy machine: a late reply would end what is measured.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A cache, and its only view. It has the options that a cache has if none is set.
pub(super) struct Node {
    cache: Cache,
    values: Values,
}

impl Node {
    /// A node whose connections are open.
    async fn start(url: &str) -> Result<Self> {
        let cache = Cache::builder("bench")
            .ttl(Duration::from_secs(3_600))
            .redis(url)
            .redis_timeout(TIMEOUT)
            .build()?;
        let values: Values = cache.view_with_codec("v", Raw);
        let node = Node { cache, values };
        for key in 0..LOOKED_UP {
            node.values.fetch(&key).load(|_| async { Ok(Vec::new()) }).await?;
        }
        node.delete(1).await?;
        Ok(node)
    }

    /// Deletes a key, and has the confirmation of all servers that must hear of it.
    pub(super) async fn delete(&self, key: u64) -> Result<()> {
        ensure!(self.values.delete(&key).await?.reach.is_everywhere(), "Redis did not confirm a deletion");
        Ok(())
    }

    /// The same with many keys in one call.
    pub(super) async fn delete_many(&self, keys: &[u64]) -> Result<()> {
        let deleted = self.values.delete_multi(keys).await?;
        ensure!(deleted.reach.is_everywhere(), "Redis did not confirm a deletion");
        Ok(())
    }

    async fn await_coherence(&self) -> Result<()> {
        let start = Instant::now();
        while self.cache.coherence().mode != CoherenceMode::Full {
            ensure!(
                start.elapsed() < COHERENT_WITHIN,
                "a node is not coherent: {:?}",
                self.cache.coherence()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Adds nodes until there are so many, and waits until all of them are coherent.
pub(super) async fn grow(nodes: &mut Vec<Node>, count: usize, url: &str) -> Result<()> {
    while nodes.len() < count {
        nodes.push(Node::start(url).await?);
    }
    for node in nodes {
        node.await_coherence().await?;
    }
    Ok(())
}

/// The node that deletes. It listens too, as every node does.
pub(super) async fn deleter(url: &str) -> Result<Node> {
    let node = Node::start(url).await?;
    node.await_coherence().await?;
    Ok(node)
}
