//! redis-rs with the memory of its own: a value that was read stays in the client until the server that it was read from
//! pushes its invalidation, which is Redis' client-side caching. It has no loader and no single-flight.

use super::{CAPACITY, FetchThrough, LoadFailed, OverCluster, TTL};
use crate::tool::Cluster;
use redis::aio::MultiplexedConnection;
use redis::caching::CacheConfig;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, FromRedisValue, ProtocolVersion, RedisResult};
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use tokio::sync::OnceCell;

#[derive(Clone)]
pub(crate) struct RedisRs(Arc<Remote>);

impl FetchThrough for RedisRs {
    const NAME: &'static str = "redis-rs";

    async fn fetch<L, F>(&self, key: u64, load: L) -> Result<u64, LoadFailed>
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static,
    {
        if let Some(found) = self.read(key).await {
            return Ok(found);
        }
        let loaded = load().await?;
        self.write(key, loaded).await;
        Ok(loaded)
    }

    /// While Redis does not answer, a caller would load the value.
    async fn read(&self, key: u64) -> Option<u64> {
        self.0.send(redis::cmd("GET").arg(name(key))).await.ok().flatten()
    }

    async fn write(&self, key: u64, value: u64) {
        let mut set = redis::cmd("SET");
        set.arg(name(key)).arg(value).arg("PX").arg(TTL.as_millis() as u64);
        self.0.send::<()>(&mut set).await.expect("Redis accepts the operation");
    }

    async fn try_invalidate(&self, key: u64) -> bool {
        self.0.send::<()>(redis::cmd("DEL").arg(name(key))).await.is_ok()
    }
}

impl OverCluster for RedisRs {
    fn cluster_node(cluster: &Cluster) -> Self {
        let size = NonZeroUsize::new(CAPACITY as usize).expect("a capacity is not zero");
        let memory = CacheConfig::new().set_size(size).set_default_client_ttl(TTL);
        RedisRs(Arc::new(Remote::cluster(cluster, memory)))
    }

    async fn redis_key(key: u64) -> Vec<u8> {
        name(key).into_bytes()
    }
}

fn name(key: u64) -> String {
    format!("redis-rs:{key}")
}

/// A connection of redis-rs, which the first command makes.
pub(super) enum Remote {
    #[cfg_attr(not(feature = "bench-peers"), expect(dead_code, reason = "only a peer uses one server"))]
    Server(redis::Client, OnceCell<MultiplexedConnection>),
    Cluster(redis::cluster::ClusterClient, OnceCell<ClusterConnection>),
}

impl Remote {
    #[cfg(feature = "bench-peers")]
    pub(super) fn server(url: &str) -> Self {
        Remote::Server(redis::Client::open(url).expect("the address is well formed"), OnceCell::new())
    }

    /// With the client's own memory.
    fn cluster(cluster: &Cluster, memory: CacheConfig) -> Self {
        // Invalidations are pushed in this version only.
        let builder = ClusterClientBuilder::new(cluster.urls()).use_protocol(ProtocolVersion::RESP3);
        let builder = builder.cache_config(memory);
        Remote::Cluster(builder.build().expect("the addresses are well formed"), OnceCell::new())
    }

    pub(super) async fn send<T: FromRedisValue>(&self, command: &mut Cmd) -> RedisResult<T> {
        match self {
            Remote::Server(client, connection) => {
                let connect = || client.get_multiplexed_async_connection();
                let mut connection = connection.get_or_try_init(connect).await?.clone();
                command.query_async(&mut connection).await
            }
            Remote::Cluster(client, connection) => {
                let connect = || client.get_async_connection();
                let mut connection = connection.get_or_try_init(connect).await?.clone();
                command.query_async(&mut connection).await
            }
        }
    }
}
