//! The cache as the suite sees it. Time passes by hand: the clock of memory is moved, and what Redis keeps is given so
//! much less to live.

use crate::mutation::Mutation;
use larder::{Cache, Counters, FetchError, Fetched, Invalidation, Policy, View, WriteOptions};
use larder_engine::{Clock, ManualClock};
use larder_testkit::RedisServer;
use larder_testkit::conformance::{BulkLoader, Failure, How, Loaded, Loading, Subject, Value};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone)]
pub(crate) struct Tiers(Arc<Inner>);

struct Inner {
    cache: Cache,
    view: View<str, Value, String>,
    counters: Counters<str>,
    hand: ManualClock,
    server: Option<RedisServer>,
}

impl Tiers {
    pub(crate) fn new(memory_bytes: u64, server: Option<RedisServer>) -> Self {
        let (clock, hand) = Clock::manual();
        let builder =
            Cache::builder("c").memory_bytes(memory_bytes).ttl(Duration::from_secs(60)).clock(clock);
        let builder = match &server {
            Some(server) => builder.redis(server.url()).redis_timeout(Duration::from_secs(10)),
            None => builder,
        };
        let cache = builder.build().expect("the options are in range");
        let (view, counters) = (cache.view("v"), cache.counters("n"));
        Tiers(Arc::new(Inner { cache, view, counters, hand, server }))
    }

    pub(crate) fn command(&self, line: &str) -> String {
        self.0.server.as_ref().expect("with Redis").command(line)
    }
}

fn policy(how: &How) -> Policy {
    let mut policy = Policy::new();
    type Set = fn(Policy, Duration) -> Policy;
    let times: [(Option<Duration>, Set); 5] = [
        (how.ttl, Policy::ttl),
        (how.grace, Policy::grace),
        (how.retry_after, Policy::retry_after),
        (how.soft_timeout, Policy::soft_timeout),
        (how.hard_timeout, Policy::hard_timeout),
    ];
    for (time, set) in times {
        if let Some(time) = time {
            policy = set(policy, time);
        }
    }
    policy
}

fn value(fetched: Fetched<Value>) -> Value {
    (*fetched).clone()
}

fn outcome(outcome: Result<Fetched<Value>, FetchError<String>>) -> Result<Value, Failure> {
    outcome.map(value).map_err(|error| match error {
        FetchError::Load(error) => Failure::Loader((*error).clone()),
        FetchError::LoaderPanicked => Failure::Panicked,
        FetchError::Timeout => Failure::Timeout,
        other => panic!("{other}"),
    })
}

/// Runs one of the suite's loaders as one of the cache's.
async fn load(loading: Loading, cx: larder::LoadCx<Value>) -> Result<larder::Loaded<Value>, String> {
    let Loaded { value, ttl, tags, no_store, not_modified } = loading.await?;
    tags.into_iter().for_each(|tag| cx.tag(tag));
    if let Some(ttl) = ttl {
        cx.ttl(ttl);
    }
    if no_store {
        cx.no_store();
    }
    Ok(if not_modified { larder::Loaded::NotModified } else { larder::Loaded::New(value) })
}

impl Subject for Tiers {
    async fn read(&self, key: &str) -> Option<Value> {
        self.0.view.read(key).await.map(value)
    }

    async fn read_multi(&self, keys: &[&str]) -> Vec<Option<Value>> {
        let found = self.0.view.read_multi(keys.iter().copied()).await;
        found.into_iter().map(|found| found.map(value)).collect()
    }

    async fn write(&self, key: &str, value: Value, how: How) {
        let options = how.tags.iter().fold(WriteOptions::new().policy(policy(&how)), |o, tag| o.tag(*tag));
        self.0.view.write_with(key, value, &options).await.everywhere();
    }

    async fn write_multi(&self, pairs: &[(&str, Value)]) {
        let pairs = pairs.iter().map(|(key, value)| (*key, value.clone()));
        self.0.view.write_multi(pairs).await.everywhere();
    }

    async fn write_if_absent(&self, key: &str, value: Value) -> bool {
        self.0.view.add(key, value).await.expect("added or not")
    }

    async fn fetch(&self, key: &str, how: How, loader: Loading) -> Result<Value, Failure> {
        let fetch = self.0.view.fetch(key).policy(policy(&how));
        let fetch = how.tags.iter().fold(fetch, |fetch, tag| fetch.tag(*tag));
        outcome(fetch.load_or_keep(move |cx| load(loader, cx)).await)
    }

    async fn fetch_multi(&self, keys: &[&str], loader: BulkLoader) -> Result<Vec<Option<Value>>, Failure> {
        let loader = Mutex::new(Some(loader));
        let loaded = self.0.view.fetch_multi(keys.iter().copied()).load(move |keys: Vec<String>, _| {
            let loader = loader.lock().expect("nobody panics with it").take().expect("it is called once");
            loader(keys)
        });
        let mut values = Vec::new();
        for one in loaded.await {
            values.push(one.transpose().map(outcome).transpose()?);
        }
        Ok(values)
    }

    async fn refresh(&self, key: &str, loader: Loading) -> Result<Value, Failure> {
        outcome(self.0.view.fetch(key).refresh().load_or_keep(move |cx| load(loader, cx)).await)
    }

    async fn exist(&self, key: &str) -> bool {
        self.0.view.exist(key).await
    }

    async fn delete(&self, key: &str) -> bool {
        self.0.view.delete(key).await.everywhere()
    }

    async fn delete_multi(&self, keys: &[&str]) -> usize {
        let deleted = self.0.view.delete_multi(keys.iter().copied()).await.everywhere();
        deleted.into_iter().filter(|there| *there).count()
    }

    async fn take(&self, key: &str) -> Option<Value> {
        self.0.view.take(key).await.expect("taken").map(value)
    }

    async fn expire(&self, key: &str) {
        self.0.view.expire(key).await.everywhere();
    }

    async fn invalidate_tags(&self, tags: &[&str]) {
        self.0.cache.invalidate_tags(tags.iter().copied(), Invalidation::Hard).await.everywhere();
    }

    async fn clear(&self) {
        self.0.cache.clear().await.everywhere();
    }

    async fn increment(&self, key: &str, by: i64) -> Option<i64> {
        self.0.counters.increment(key, by).await.ok()
    }

    async fn pass(&self, time: Duration) {
        self.0.hand.advance(time);
        if let Some(server) = &self.0.server {
            released(server).await;
            server.pass(time);
        }
    }
}

/// Waits for a load that failed, which releases its lease after its callers have their answers: a lease whose time passes
/// meanwhile is not what it was, and stays. A load that stored leaves its lease.
pub(crate) async fn released(server: &RedisServer) {
    for _ in 0..10 {
        if server.command("KEYS c::reload:*") == "*0\r\n" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
