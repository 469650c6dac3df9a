//! Our own cache.

use super::{FetchThrough, Gate, InMemory, LoadFailed, OverCluster, OverRedis, TTL};
use crate::tool::Cluster;
use larder::{Builder, Cache, Codec, CodecError, Policy, Reach, View};
use std::future::Future;
use std::time::Duration;

#[derive(Clone)]
pub(crate) struct Larder(View<u64, u64, LoadFailed>);

impl FetchThrough for Larder {
    const NAME: &'static str = "larder";

    #[inline]
    async fn fetch<L, F>(&self, key: u64, load: L) -> Result<u64, LoadFailed>
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static,
    {
        match self.0.fetch(&key).load(|_| load()).await {
            Ok(fetched) => Ok(*fetched),
            Err(_) => Err(LoadFailed),
        }
    }

    async fn read(&self, key: u64) -> Option<u64> {
        self.0.read(&key).await.map(|found| *found)
    }

    async fn write(&self, key: u64, value: u64) {
        let reach = self.0.write(&key, value).await.expect("the value can be encoded");
        assert_eq!(reach, Reach::Everywhere, "every tier accepts the operation");
    }

    async fn try_invalidate(&self, key: u64) -> bool {
        let removal = self.0.delete(&key).await.expect("a key can be deleted");
        removal.reach == Reach::Everywhere
    }
}

/// With a grace period: an invalidated value must not be served even if the load fails.
fn builder() -> Builder {
    Cache::builder("bench").policy(Policy::new().ttl(TTL).grace(TTL))
}

impl InMemory for Larder {
    fn in_memory() -> Self {
        Larder(builder().build().expect("the options are in range").view("n"))
    }
}

impl OverRedis for Larder {
    fn node(url: &str, gate: &Gate) -> Self {
        let builder = builder().redis(url).redis_timeout(Duration::from_secs(10));
        let cache = builder.build().expect("the options are in range");
        Larder(cache.view_with_codec("n", Gated(gate.clone())))
    }
}

impl OverCluster for Larder {
    fn cluster_node(cluster: &Cluster) -> Self {
        Self::node(&cluster.url(), &Gate::open())
    }

    async fn redis_key(key: u64) -> Vec<u8> {
        format!("bench:n:{key}").into_bytes()
    }
}

/// Passes the gate in decoding, which is between Redis and memory.
struct Gated(Gate);

impl Codec<u64> for Gated {
    fn id(&self) -> u8 {
        128
    }

    fn encode(&self, value: &u64, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn decode(&self, _codec: u8, bytes: &[u8]) -> Result<u64, CodecError> {
        self.0.pass_blocking();
        Ok(u64::from_le_bytes(bytes.try_into()?))
    }
}
