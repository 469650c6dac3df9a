//! Updates: a value is made from the present one in one step, on all nodes, or nothing changes.

use crate::mutation::Mutation;
use crate::{begun, cached, in_memory, node_with, over, pair};
use larder::{Cache, CacheError, Invalidation, Policy, Source, Update, View, WriteOptions};
use larder_engine::Clock;
use larder_testkit::{Deadline, RedisServer, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Counts from 0.
fn next(present: Option<&u32>) -> Update<u32> {
    Update::Put(present.map_or(1, |number| number + 1))
}

/// What an update leaves, and whether it changed anything.
async fn updated(
    view: &View<str, u32>,
    update: impl FnMut(Option<&u32>) -> Update<u32> + Send + 'static,
) -> (Option<u32>, bool) {
    let updated = view.update("k", update).await.expect("updated");
    (updated.value.as_deref().copied(), updated.changed)
}

/// What an update gets.
async fn seen(view: &View<str, u32>) -> Option<u32> {
    updated(view, |_| Update::Keep).await.0
}

#[tokio::test]
async fn update_keeps_replaces_and_removes() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        assert_eq!(updated(&view, |_| Update::Keep).await, (None, false));
        assert_eq!(updated(&view, |_| Update::Remove).await, (None, false));
        assert_eq!(updated(&view, next).await, (Some(1), true));
        assert_eq!(cached(&view, "k").await, 1);
        assert_eq!(updated(&view, next).await, (Some(2), true));
        assert_eq!(updated(&view, |_| Update::Keep).await, (Some(2), false));
        assert_eq!(cached(&view, "k").await, 2);
        assert_eq!(updated(&view, |_| Update::Remove).await, (None, true));
        assert!(view.read("k").await.is_none());
        let dynamic = cache.update("k", next).await.expect("updated");
        assert_eq!(dynamic.value.as_deref(), Some(&1));
        assert_eq!(cache.read::<u32>("k").await.as_deref(), Some(&1));
    }
}

#[tokio::test]
async fn updated_value_keeps_deadline_grace_and_tags() {
    let Some(server) = RedisServer::start() else { return };
    let policy = Policy::new().ttl(100 * SECOND).grace(50 * SECOND);
    let options = WriteOptions::new().policy(policy).tag("t");
    let (clock, hand) = Clock::manual();
    let memory = Cache::builder("test").ttl(60 * SECOND).clock(clock).build().expect("valid options");
    for (cache, in_redis) in [(memory, false), (over(server.url()), true)] {
        let view: View<str, u32> = cache.view("n");
        view.write_with("k", 1, &options).await.everywhere();
        if in_redis {
            server.pass(40 * SECOND);
        } else {
            hand.advance(40 * SECOND);
        }
        let kept = view.update("k", next).await.expect("updated").value.expect("stored");
        let is_left = |left: Duration| left > 50 * SECOND && left <= 60 * SECOND;
        assert!(is_left(kept.remaining_ttl()), "{:?}", kept.remaining_ttl());
        assert_eq!((*kept, kept.tags().collect::<Vec<_>>()), (2, vec!["t"]));
        let found = view.read("k").await.expect("stored");
        assert!(is_left(found.remaining_ttl()), "{:?}", found.remaining_ttl());
        assert!(found.age() >= 40 * SECOND, "{:?}", found.age());
        assert_eq!(view.inspect("k").entry.map(|entry| entry.grace), Some(50 * SECOND));
        assert_eq!(found.source(), if in_redis { Source::Redis } else { Source::Memory });
        let new = WriteOptions::new().ttl(500 * SECOND).tag("u");
        let replaced = view.update("k", move |_| Update::PutWith(3, new.clone())).await.expect("updated");
        let replaced = replaced.value.expect("stored");
        assert!(replaced.remaining_ttl() > 490 * SECOND, "{:?}", replaced.remaining_ttl());
        cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
        assert_eq!(cached(&view, "k").await, 3, "it has another tag");
        cache.invalidate_tags(["u"], Invalidation::Hard).await.everywhere();
        assert!(view.read("k").await.is_none());
    }
    let left = over(server.url()).view::<str, u32, ()>("n").ttl("k").await;
    assert_eq!(left, None);
}

/// In memory the engine ends it, if it has no grace period.
#[tokio::test]
async fn updated_value_ends_when_the_former_one_would_have() {
    let _deadline = Deadline::start();
    for grace in [Duration::ZERO, 5 * SECOND] {
        let (clock, hand) = Clock::manual();
        let policy = Policy::new().ttl(60 * SECOND).grace(grace);
        let cache = Cache::builder("test").policy(policy).clock(clock).build().expect("valid options");
        let view: View<str, u32> = cache.view("n");
        view.write("k", 1).await.everywhere();
        hand.advance(59 * SECOND);
        assert_eq!(updated(&view, next).await, (Some(2), true));
        assert_eq!(cached(&view, "k").await, 2);
        hand.advance(SECOND);
        assert!(view.read("k").await.is_none());
        assert_eq!(updated(&view, next).await, (Some(1), true), "a stale value is none");
    }
}

#[tokio::test]
async fn updated_value_replaces_memory_of_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    assert_eq!((cached(&b, "k").await, cached(&a, "k").await), (1, 1));
    assert_eq!(updated(&b, next).await, (Some(2), true));
    assert_eq!(cached(&b, "k").await, 2);
    eventually("the other node hears of it", async || a.read("k").await.as_deref() == Some(&2)).await;
    assert_eq!(updated(&b, |_| Update::Remove).await, (None, true));
    eventually("the other node hears of it", async || a.read("k").await.is_none()).await;
}

/// Also of those that begin where nothing is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_updates_lose_none() {
    const TASKS: usize = 16;
    const UPDATES: u32 = 50;
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let memory = in_memory();
    for nodes in [[&one, &other], [&memory, &memory]] {
        let views: Vec<View<str, u32>> = nodes.iter().map(|node| node.view("n")).collect();
        let calls = Arc::new(AtomicU32::new(0));
        let count = |task: usize| {
            let (view, calls) = (views[task % 2].clone(), calls.clone());
            tokio::spawn(async move {
                for _ in 0..UPDATES {
                    let calls = calls.clone();
                    let counted = move |present: Option<&u32>| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        next(present)
                    };
                    assert!(updated(&view, counted).await.1);
                }
            })
        };
        for task in (0..TASKS).map(count).collect::<Vec<_>>() {
            task.await.expect("no update fails");
        }
        let sum = TASKS as u32 * UPDATES;
        println!("{sum} updates called their function {} times", calls.load(Ordering::Relaxed));
        for view in &views {
            assert_eq!(seen(view).await, Some(sum));
        }
    }
}

/// Waits for a call inside of the function of an update.
fn wait_for<T>(call: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(call))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overtaken_update_is_made_again_from_the_new_value() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let memory = in_memory();
    for (cache, writer) in [(&memory, &memory), (&one, &other), (&one, &one)] {
        let (view, writer): (View<str, u32>, View<str, u32>) = (cache.view("n"), writer.view("n"));
        for (overtakes, expected) in [("write", 11), ("delete", 1), ("expire", 1), ("nothing", 2)] {
            view.write("k", 1).await.everywhere();
            let (writer, mut calls) = (writer.clone(), 0);
            let update = move |present: Option<&u32>| {
                calls += 1;
                match overtakes {
                    _ if calls > 1 => {}
                    "write" => wait_for(writer.write("k", 10)).everywhere(),
                    "delete" => assert!(wait_for(writer.delete("k")).everywhere()),
                    "expire" => assert!(wait_for(writer.expire("k")).everywhere()),
                    _ => {}
                }
                next(present)
            };
            assert_eq!(updated(&view, update).await, (Some(expected), true), "{overtakes}");
            assert_eq!(cached(&view, "k").await, expected, "{overtakes}");
        }
    }
}

/// In memory the entry stays the same one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn value_invalidated_during_an_update_is_not_its_source() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let graceful: View<str, u32> = cache.view("n").with_policy(Policy::new().grace(60 * SECOND));
    for ends in ["expire", "soft tag", "tag", "clear"] {
        graceful.write_with("k", 1, &WriteOptions::new().tag("t")).await.everywhere();
        let (cache, view, mut calls) = (cache.clone(), graceful.clone(), 0);
        let update = move |present: Option<&u32>| {
            calls += 1;
            match ends {
                _ if calls > 1 => {}
                "expire" => assert!(wait_for(view.expire("k")).everywhere()),
                "soft tag" => wait_for(cache.invalidate_tags(["t"], Invalidation::Soft)).everywhere(),
                "tag" => wait_for(cache.invalidate_tags(["t"], Invalidation::Hard)).everywhere(),
                _ => wait_for(cache.clear()).everywhere(),
            }
            next(present)
        };
        assert_eq!(updated(&graceful, update).await, (Some(1), true), "{ends}");
        assert_eq!(cached(&graceful, "k").await, 1, "{ends}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_that_others_overtake_each_time_is_an_error_that_names_the_key() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let memory = in_memory();
    for (cache, writer) in [(&memory, &memory), (&one, &other)] {
        let (view, writer): (View<str, u32>, View<str, u32>) = (cache.view("n"), writer.view("n"));
        view.write("k", 1).await.everywhere();
        let calls = Arc::new(AtomicU32::new(0));
        let called = calls.clone();
        let update = move |present: Option<&u32>| {
            let call = called.fetch_add(1, Ordering::SeqCst);
            wait_for(writer.write("k", 100 + call)).everywhere();
            next(present)
        };
        let error = view.update("k", update).await.expect_err("each of its tries is overtaken");
        assert!(matches!(&error, CacheError::Contended { tries: 16, .. }), "{error:?}");
        assert_eq!(error.to_string(), "key \"test:n:k\" was changed by others in each of 16 tries");
        assert_eq!(calls.load(Ordering::SeqCst), 16);
        assert_eq!(seen(&view).await, Some(115), "what the other wrote last");
        assert_eq!(cache.coherence().pending_invalidations, 0);
    }
}

#[tokio::test]
async fn update_during_a_load_voids_it_unless_it_keeps() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        for (update, kept) in [(Update::Put(5), 5), (Update::Remove, 9), (Update::Keep, 1)] {
            view.delete("k").await.everywhere();
            let (gate, loading) = begun(&view, 1).await;
            updated(&view, move |_| update.clone()).await;
            gate.open(1);
            assert_eq!(loading.await.expect("no panic"), 1, "its caller asked before");
            assert_eq!(crate::fetched(&view, "k", 9).await, kept);
        }
    }
}

/// Redis has the invalidation, which this node may not have heard of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_sees_no_value_that_another_node_invalidated_before() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    let options = WriteOptions::new().tag("t");
    for round in 0..200 {
        b.write_with("k", 100 + round, &options).await.everywhere();
        assert_eq!(b.ttl("k").await.map(|left| left > SECOND), Some(true));
        match round % 4 {
            0 => one.invalidate_tags(["t"], Invalidation::Hard).await.everywhere(),
            1 => one.invalidate_tags(["t"], Invalidation::Soft).await.everywhere(),
            2 => one.clear().await.everywhere(),
            _ => assert!(a.delete("k").await.everywhere()),
        }
        let with_tag = options.clone();
        let update = move |present: Option<&u32>| match present {
            None => Update::PutWith(1, with_tag.clone()),
            Some(old) => Update::PutWith(old + 1, with_tag.clone()),
        };
        assert_eq!(updated(&b, update).await, (Some(1), true), "round {round}");
        assert_eq!(a.read("k").await.as_deref(), Some(&1), "round {round}: it is newer than that");
    }
}

#[tokio::test]
async fn foreign_content_counts_as_none_and_is_replaced() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let (numbers, words): (View<str, u32>, View<str, String>) = (cache.view("n"), cache.view("n"));
        words.write("k", "a word".into()).await.everywhere();
        assert_eq!(updated(&numbers, |_| Update::Keep).await, (None, false));
        assert_eq!(words.read("k").await.as_deref(), Some(&"a word".to_owned()));
        assert_eq!(updated(&numbers, next).await, (Some(1), true));
        assert_eq!(cached(&numbers, "k").await, 1);
        assert!(words.read("k").await.is_none());
    }
    for foreign in ["", "short", "longer than the head of a value"] {
        let view: View<str, u32> = over(server.url()).view("n");
        server.command(&format!("SET test:n:k \"{foreign}\""));
        assert_eq!(updated(&view, next).await, (Some(1), true), "{foreign:?}");
    }
}

#[tokio::test]
async fn update_that_cannot_be_encoded_changes_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let large = "x".repeat(2_000);
    let options = WriteOptions::new().tag("t".repeat(256));
    for url in [None, Some(server.url())] {
        let builder = Cache::builder("test").ttl(60 * SECOND).max_value_bytes(1_000);
        let builder = if let Some(url) = url { builder.redis(url) } else { builder };
        let cache = builder.build().expect("valid options");
        let view: View<str, String> = cache.view("n");
        view.write("k", "small".into()).await.everywhere();
        let values = [
            Update::Put(large.clone()),
            Update::PutWith(large.clone(), WriteOptions::new()),
            Update::PutWith("small too".into(), options.clone()),
        ];
        for value in values {
            let refused = view.update("k", move |_| value.clone()).await;
            assert!(matches!(refused, Err(CacheError::Encode(_))), "{refused:?}");
            assert_eq!(view.read("k").await.as_deref(), Some(&"small".to_owned()));
        }
        assert_eq!(cache.coherence().pending_invalidations, 0);
    }
}

#[tokio::test]
async fn value_too_heavy_for_memory_leaves_nothing_there() {
    let _deadline = Deadline::start();
    let cache = Cache::builder("test").ttl(60 * SECOND).memory_bytes(4_096).build().expect("valid options");
    let view: View<str, u32> = cache.view("n").with_weigher(|number| u64::from(*number));
    view.write("k", 1).await.everywhere();
    assert_eq!(updated(&view, |_| Update::Put(10_000)).await, (None, true), "neither value");
    assert!(view.read("k").await.is_none());
    assert_eq!(updated(&view, |_| Update::Put(10_000)).await, (None, false));
}

#[tokio::test]
async fn panic_of_the_function_changes_nothing_and_blocks_nobody() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        view.write("k", 1).await.everywhere();
        let panicking = view.clone();
        let updating = tokio::spawn(async move { panicking.update("k", |_| panic!("on purpose")).await });
        assert!(updating.await.expect_err("the panic reaches the caller").is_panic());
        assert_eq!(cached(&view, "k").await, 1);
        assert_eq!(updated(&view, next).await, (Some(2), true));
        assert_eq!(cache.coherence().pending_invalidations, 0);
    }
}

#[tokio::test]
async fn update_while_disabled_removes_the_value_and_asks_nobody() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        view.write("k", 1).await.everywhere();
        cache.set_enabled(false);
        assert_eq!(updated(&view, |_| panic!("it is turned off")).await, (None, false));
        cache.set_enabled(true);
        assert!(view.read("k").await.is_none(), "it was removed");
    }
}

#[tokio::test]
async fn update_that_redis_was_not_asked_for_changes_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| options.redis_timeout(SECOND / 10));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    server.pause();
    for _ in 0..3 {
        let refused = view.update("k", |_| panic!("what memory has may be old")).await;
        assert!(matches!(refused, Err(CacheError::Redis(_) | CacheError::NotAsked)), "{refused:?}");
        assert!(view.touch("k", Policy::new()).await.is_err());
    }
    assert_eq!(cached(&view, "k").await, 1);
    assert_eq!(cache.coherence().pending_invalidations, 0);
    server.resume();
    eventually("it is updated", async || view.update("k", next).await.is_ok()).await;
    assert_eq!(seen(&view).await, Some(2));
}

#[tokio::test]
async fn update_that_redis_does_not_confirm_is_queued_as_a_deletion() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    let server = Arc::new(server);
    let filling = server.clone();
    let update = move |present: Option<&u32>| {
        filling.set_full(true);
        next(present)
    };
    let refused = view.update("k", update).await;
    assert!(matches!(refused, Err(CacheError::Refused(_))), "{refused:?}");
    assert!(view.read("k").await.is_none(), "on this node it is removed");
    server.set_full(false);
    eventually("no invalidation is pending", async || cache.coherence().pending_invalidations == 0).await;
    assert_eq!(over(server.url()).view::<str, u32, ()>("n").ttl("k").await, None);
    assert_eq!(updated(&view, next).await, (Some(1), true));
}
