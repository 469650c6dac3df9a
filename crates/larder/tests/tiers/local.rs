//! Caches in memory only: values are not encoded.

use crate::mutation::Mutation;
use crate::{cached, in_memory};
use larder::{BuildError, Cache, Codec, CodecError, Invalidation, View, WriteOptions};
use larder_testkit::Deadline;
use serde::{Deserialize, Serialize, Serializer};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn builder() -> larder::Builder {
    Cache::builder("test").ttl(Duration::from_secs(60))
}

/// A codec that counts how often it encodes.
struct Counting(&'static AtomicUsize);

impl Codec<u32> for Counting {
    fn id(&self) -> u8 {
        200
    }

    fn encode(&self, value: &u32, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        out.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn decode(&self, _: u8, _: &[u8]) -> Result<u32, CodecError> {
        Err("nothing is decoded".into())
    }
}

/// Stores values by every call that does.
async fn store(view: &View<str, u32>) {
    view.write("written", 1).await.everywhere();
    assert_eq!(view.add("added", 2).await.ok(), Some(true));
    view.fetch("loaded").tag("t").load(|_| async { Ok(3) }).await.expect("loads");
    for (key, value) in [("written", 1), ("added", 2), ("loaded", 3)] {
        assert_eq!(cached(view, key).await, value);
    }
}

#[tokio::test]
async fn value_with_weigher_or_bound_of_entries_is_not_encoded() {
    let _deadline = Deadline::start();
    static ENCODED: AtomicUsize = AtomicUsize::new(0);
    let weighed: View<str, u32> = in_memory().view_with_codec("n", Counting(&ENCODED)).with_weigher(|_| 7);
    store(&weighed).await;
    let counted = builder().memory_entries(100).build().expect("valid options");
    store(&counted.view_with_codec("n", Counting(&ENCODED))).await;
    assert_eq!(ENCODED.load(Ordering::SeqCst), 0);
}

/// A value whose serializer must not be asked for anything that allocates: it tells what it was called with.
#[derive(Clone, Debug, Deserialize)]
struct Text(String);

static PASSES: AtomicUsize = AtomicUsize::new(0);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PASSES.fetch_add(1, Ordering::SeqCst);
        serializer.serialize_str(&self.0)
    }
}

#[tokio::test]
async fn value_without_weigher_weighs_its_encoded_length() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, Text> = cache.view("n");
    view.write("a", Text("x".repeat(1_000))).await.everywhere();
    let one = cache.stats().memory.bytes.expect("bytes");
    view.write("b", Text("x".repeat(3_000))).await.everywhere();
    let two = cache.stats().memory.bytes.expect("bytes");
    assert_eq!(two - 2 * one, 2_000, "postcard writes text as it is");
    assert_eq!(PASSES.load(Ordering::SeqCst), 2, "one pass for each");
}

#[tokio::test]
async fn entries_bound_cache_whatever_their_size() {
    let _deadline = Deadline::start();
    let cache = builder().memory_entries(10).build().expect("valid options");
    let view: View<u32, String> = cache.view("n");
    for key in 0..100 {
        view.write(&key, "x".repeat(10_000)).await.everywhere();
    }
    let memory = cache.stats().memory;
    assert_eq!((memory.entries, memory.max_entries, memory.bytes), (Some(10), Some(10), None));
    let error = builder().memory_entries(0).build().expect_err("refused").to_string();
    assert_eq!(error, "memory_entries is 0; it must be from 1 to 2^62");
}

/// No serde, no `Clone`, no `Debug`.
struct Rule(Box<dyn Fn(u32) -> u32 + Send + Sync>);

#[tokio::test]
async fn local_cache_stores_values_without_serde() {
    let _deadline = Deadline::start();
    let cache = builder().build_local().expect("valid options");
    let rules: View<str, Rule> = cache.view("rule").with_weigher(|_| 1_000);
    let double = || async { Ok(Rule(Box::new(|n| 2 * n))) };
    assert_eq!((rules.fetch("double").load(move |_| double()).await.expect("loads").0)(21), 42);
    assert!(cache.stats().memory.bytes.is_some_and(|bytes| (1_000..2_000).contains(&bytes)));
    let options = WriteOptions::new().tag("half");
    rules.write_with("half", Rule(Box::new(|n| n / 2)), &options).await.everywhere();
    assert_eq!(rules.read("half").await.map(|rule| (rule.0)(4)), Some(2));
    cache.invalidate_tags(["half"], Invalidation::Hard).await.everywhere();
    assert!(rules.read("half").await.is_none() && rules.read("double").await.is_some());
    let part: View<str, Rule> = cache.space("eu").view("rule");
    part.write("double", Rule(Box::new(|n| n + n))).await.everywhere();
    cache.space("eu").clear().await.everywhere();
    assert!(part.read("double").await.is_none() && rules.read("double").await.is_some());
    let over_redis = builder().redis("redis://localhost").build_local();
    assert!(matches!(over_redis, Err(BuildError::LocalWithRedis)));
}
