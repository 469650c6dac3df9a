//! One node: the real cache over its simulated way to the server.

use crate::book::{KEYS, MAX_LAG, Value};
use crate::rng::Rng;
use larder::tier::Tier;
use larder::{Cache, CacheError, Invalidation, Policy, View, WriteOptions};
use larder_engine::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Node {
    cache: Cache,
    view: View<u64, Value, &'static str>,
}

const ALL: [u64; KEYS] = [0, 1, 2];

impl Node {
    pub(crate) fn start(tier: Arc<dyn Tier>, disconnected: Duration, rng: &Rng) -> Self {
        let began = Instant::now();
        // Clocks of different machines have nothing in common but their pace.
        let offset = rng.ms(0..1_000_000);
        let grace = if rng.chance(500) { Duration::from_secs(30) } else { Duration::ZERO };
        let ttl = if rng.chance(300) { Duration::from_millis(700) } else { Duration::from_secs(60) };
        let policy = Policy::new().ttl(ttl).grace(grace).retry_after(Duration::from_millis(300));
        let policy = if rng.chance(300) { policy.hard_timeout(Duration::from_secs(1)) } else { policy };
        let policy = if rng.chance(300) { policy.soft_timeout(Duration::from_millis(20)) } else { policy };
        let cache = Cache::builder("c")
            .memory_bytes(1 << 20)
            .ttl(ttl)
            .policy(policy)
            .tier(tier)
            .max_lag(MAX_LAG)
            .disconnected(disconnected)
            .foreign_writers(rng.chance(300))
            .lease_wait(rng.ms(1..300))
            .clock(Clock::custom(move || offset + began.elapsed()))
            .build()
            .expect("the options are in range");
        Node { view: cache.view("v"), cache }
    }

    /// The tag of a key: the first two share one.
    pub(crate) fn tag(key: usize) -> &'static str {
        if key < 2 { "t" } else { "u" }
    }

    pub(crate) async fn fetch(
        &self,
        key: usize,
        loading: impl Future<Output = Result<Value, &'static str>> + Send + 'static,
    ) -> Option<Value> {
        let fetch = self.view.fetch(&(key as u64));
        // Half of the tags are named when the load is over.
        let fetch = if key == 0 { fetch.tag(Self::tag(key)) } else { fetch };
        let loaded = fetch.load(move |cx| async move {
            let value = loading.await;
            cx.tag(Self::tag(key));
            value
        });
        loaded.await.ok().map(|value| *value)
    }

    pub(crate) async fn refresh(
        &self,
        key: usize,
        loading: impl Future<Output = Result<Value, &'static str>> + Send + 'static,
    ) -> Option<Value> {
        let fetch = self.view.fetch(&(key as u64)).refresh().tag(Self::tag(key));
        fetch.load(move |_| loading).await.ok().map(|value| *value)
    }

    pub(crate) async fn read(&self, key: usize) -> Option<Value> {
        self.view.read(&(key as u64)).await.map(|value| *value)
    }

    pub(crate) async fn read_many(&self) -> [Option<Value>; KEYS] {
        let found = self.view.read_multi(&ALL).await;
        std::array::from_fn(|key| found[key].as_deref().copied())
    }

    /// All keys of one tag, by one bulk loader.
    pub(crate) async fn fetch_many<F>(
        &self,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> [Option<Value>; KEYS]
    where
        F: Future<Output = Result<Value, &'static str>> + Send + 'static,
    {
        let loader = Arc::new(loader);
        let fetch = self.view.fetch_multi(&ALL[..2]).tag(Self::tag(0));
        let found = fetch.load(move |keys: Vec<u64>, _| {
            let loader = loader.clone();
            async move {
                let mut values = Vec::with_capacity(keys.len());
                for key in keys {
                    values.push((key, loader(key as usize).await?));
                }
                Ok(values)
            }
        });
        let found = found.await;
        std::array::from_fn(|key| found.get(key)?.as_deref().ok().copied())
    }

    pub(crate) async fn write(&self, key: usize, value: Value) -> bool {
        let options = WriteOptions::new().tag(Self::tag(key));
        self.view.write_with(&(key as u64), value, &options).await.is_ok()
    }

    pub(crate) async fn delete(&self, key: usize) -> bool {
        self.view.delete(&(key as u64)).await.is_ok()
    }

    /// Whether it was stored, or why that is not known.
    pub(crate) async fn add(&self, key: usize, value: Value) -> Result<bool, CacheError> {
        self.view.add(&(key as u64), value).await
    }

    pub(crate) async fn take(&self, key: usize) -> Result<Option<Value>, CacheError> {
        Ok(self.view.take(&(key as u64)).await?.map(|value| *value))
    }

    pub(crate) async fn expire(&self, key: usize) {
        // Soft: nothing is promised, and nothing may break.
        _ = self.view.expire(&(key as u64)).await;
    }

    pub(crate) async fn invalidate_tag(&self, key: usize) -> bool {
        self.cache.invalidate_tags([Self::tag(key)], Invalidation::Hard).await.is_ok()
    }

    pub(crate) async fn clear(&self) -> bool {
        self.cache.clear().await.is_ok()
    }
}
