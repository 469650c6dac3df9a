//! The hottest keys of a run, which warm the next one.

use crate::mutation::Mutation;
use crate::{cached, over};
use larder::{HotKeys, Source, View};
use larder_testkit::RedisServer;

#[tokio::test]
async fn next_run_finds_in_memory_what_the_last_one_used_most() {
    let Some(server) = RedisServer::start() else { return };
    let before: View<str, u32> = over(server.url()).view("n");
    let keys: Vec<String> = (0..100).map(|key| format!("key {key}")).collect();
    for key in &keys {
        before.write(key, 1).await.everywhere();
    }
    for key in &keys[40..50] {
        for _ in 0..3 {
            before.read(key).await.expect("is there");
        }
    }
    let hottest = before.hottest(10);
    let mut expected: Vec<&[u8]> = keys[40..50].iter().map(String::as_bytes).collect();
    expected.sort_unstable();
    assert_eq!(hottest.iter().collect::<Vec<_>>(), expected);
    before.delete("key 41").await.everywhere();

    let cache = over(server.url());
    let after: View<str, u32> = cache.view("n");
    let kept = HotKeys::from_bytes(&hottest.to_bytes()).expect("the bytes of keys");
    assert_eq!(after.warm(&kept).await, 9, "one was deleted since");
    assert_eq!(after.hit("key 42").map(|hit| hit.source()), Some(Source::Memory));
    assert!(after.hit("key 41").is_none() && after.hit("key 1").is_none());
    assert_eq!(cached(&after, "key 49").await, 1);
    assert_eq!(cache.stats().loads, 0, "nothing is loaded");
}

#[tokio::test]
async fn keys_of_other_views_are_not_among_the_hottest() {
    let cache = crate::in_memory();
    let [fruit, roots]: [View<str, u32>; 2] = ["fruit", "roots"].map(|name| cache.view(name));
    fruit.write("apple", 1).await.everywhere();
    roots.write("carrot", 1).await.everywhere();
    assert_eq!(fruit.hottest(10).iter().collect::<Vec<_>>(), [b"apple"]);
    assert_eq!(fruit.warm(&roots.hottest(10)).await, 0, "there is no redis to read from");
    assert!(fruit.hottest(0).is_empty());
}
