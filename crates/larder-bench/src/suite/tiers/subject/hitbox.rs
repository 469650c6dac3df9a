//! hitbox, with moka and Redis as its backends.

use super::{CAPACITY, FetchThrough, Gate, InMemory, LoadFailed, OverRedis, TTL};
use hitbox::concurrency::BroadcastConcurrencyManager;
use hitbox::fsm::CacheFuture;
use hitbox::policy::{ConcurrencyLimit, PolicyConfig};
use hitbox::{CacheContext, CacheKey, CacheValue, DisabledOffload, Extractor, Neutral};
use hitbox_backend::composition::policy::RefillPolicy;
use hitbox_backend::compressor::CompressionError;
use hitbox_backend::format::BincodeFormat;
use hitbox_backend::{CacheBackend, Compose, CompositionBackend, Compressor};
use hitbox_fn::{Args, FnExtractor, FnUpstream};
use hitbox_moka::MokaBackend;
use hitbox_redis::{ConnectionMode, RedisBackend};
use std::future::Future;
use std::sync::Arc;

type Arguments = Args<(u64,)>;

pub(crate) type InMoka = MokaBackend;
pub(crate) type InMokaAndRedis =
    CompositionBackend<MokaBackend, RedisBackend<BincodeFormat, Gated>, DisabledOffload>;

pub(crate) struct Hitbox<B> {
    backend: Arc<B>,
    policy: Arc<PolicyConfig>,
    loading: BroadcastConcurrencyManager<Result<u64, LoadFailed>>,
}

impl<B> Hitbox<B> {
    fn with_backend(backend: B) -> Self {
        let one_load = ConcurrencyLimit::new(1).expect("the limit is in range");
        let policy = PolicyConfig::builder().ttl(TTL).concurrency(one_load).build();
        Hitbox {
            backend: Arc::new(backend),
            policy: Arc::new(policy),
            loading: BroadcastConcurrencyManager::new(),
        }
    }
}

impl<B> Clone for Hitbox<B> {
    fn clone(&self) -> Self {
        Hitbox { backend: self.backend.clone(), policy: self.policy.clone(), loading: self.loading.clone() }
    }
}

fn extractor() -> FnExtractor<Arguments> {
    FnExtractor::new("n")
}

async fn cache_key(key: u64) -> CacheKey {
    extractor().get(Args((key,))).await.into_cache_key().1
}

impl<B: CacheBackend + Send + Sync + 'static> FetchThrough for Hitbox<B> {
    const NAME: &'static str = "hitbox";

    #[inline]
    async fn fetch<L, F>(&self, key: u64, load: L) -> Result<u64, LoadFailed>
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static,
    {
        let mut load = Some(load);
        let upstream =
            FnUpstream::new(move |_: Arguments| load.take().expect("the loader runs at most once")());
        let (fetched, _) = CacheFuture::new(
            self.backend.clone(),
            Args((key,)),
            upstream,
            Neutral::<Arguments>::new(),
            Neutral::<u64>::new(),
            extractor(),
            self.policy.clone(),
            DisabledOffload,
            self.loading.clone(),
        )
        .await;
        fetched
    }

    /// A fetch whose load fails, because only a fetch copies values from Redis to memory.
    async fn read(&self, key: u64) -> Option<u64> {
        self.fetch(key, || async { Err(LoadFailed) }).await.ok()
    }

    async fn write(&self, key: u64, value: u64) {
        let mut context = CacheContext::default().boxed();
        let value = CacheValue::new(value, None, None);
        self.backend
            .set::<u64>(&cache_key(key).await, &value, &mut context)
            .await
            .expect("every tier accepts the operation");
    }

    async fn try_invalidate(&self, key: u64) -> bool {
        let mut context = CacheContext::default().boxed();
        self.backend.delete(&cache_key(key).await, &mut context).await.is_ok()
    }
}

fn moka() -> MokaBackend {
    MokaBackend::builder().max_entries(CAPACITY).build()
}

impl InMemory for Hitbox<InMoka> {
    fn in_memory() -> Self {
        Hitbox::with_backend(moka())
    }
}

impl OverRedis for Hitbox<InMokaAndRedis> {
    fn node(url: &str, gate: &Gate) -> Self {
        over(ConnectionMode::single(url), gate)
    }
}

/// With the option to copy values from Redis to memory.
fn over(redis: ConnectionMode, gate: &Gate) -> Hitbox<InMokaAndRedis> {
    let redis = RedisBackend::builder()
        .connection(redis)
        .compressor(Gated(gate.clone()))
        .build()
        .expect("the options are in range");
    Hitbox::with_backend(moka().compose(redis, DisabledOffload).refill(RefillPolicy::Always))
}

/// Passes the gate in decompression, which is between Redis and memory.
#[derive(Clone, Debug)]
pub(crate) struct Gated(Gate);

impl Compressor for Gated {
    fn compress(&self, data: &[u8]) -> Result<Vec<u8>, CompressionError> {
        Ok(data.to_owned())
    }

    fn decompress(&self, data: &[u8]) -> Result<Vec<u8>, CompressionError> {
        self.0.pass_blocking();
        Ok(data.to_owned())
    }

    fn clone_box(&self) -> Box<dyn Compressor> {
        Box::new(self.clone())
    }
}
