//! Processes that fork: children that build caches of their own, and children that use the one that they inherited.

use crate::{begun, in_memory, node_with, over};
use larder::{Cache, CacheError, CoherenceMode, Event, FetchError, Leased, View};
use larder_testkit::{Child, Deadline, Line, RedisServer, eventually, fork};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MAX_LAG: Duration = Duration::from_millis(200);

/// What an inherited cache answers to every call, when all is right.
const ALL_REFUSED: &str = "all refused";

fn prompt(url: String) -> Cache {
    node_with(url, |options| options.max_lag(MAX_LAG).redis_timeout(Duration::from_secs(5)))
}

/// A runtime as a child makes it.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Builds a cache, fetches a value into memory, and serves it until the parent has heard of its deletion; then it is gone.
fn reader(url: &str, line: &mut Line) -> String {
    runtime().block_on(async {
        let view: View<str, u32> = prompt(url.to_owned()).view("n");
        view.fetch("k").load(|_| async { Ok(1) }).await.expect("loads");
        line.send("has it");
        assert_eq!(line.receive(), "deleted");
        tokio::time::sleep(MAX_LAG).await;
        let read = view.read("k").await;
        format!("{:?}", read.map(|found| *found))
    })
}

/// Builds a cache, and deletes the key when the parent says so.
fn deleter(url: &str, line: &mut Line) -> String {
    runtime().block_on(async {
        let view: View<str, u32> = prompt(url.to_owned()).view("n");
        // A load draws the first ids of this process.
        view.fetch("other").load(|_| async { Ok(1) }).await.expect("loads");
        line.send("ready");
        assert_eq!(line.receive(), "delete");
        let removal = view.delete("k").await.expect("redis replies");
        format!("{:?}", removal.reach)
    })
}

#[test]
fn children_of_one_process_hear_each_others_invalidations() {
    let Some(server) = RedisServer::start() else { return };
    let url = server.url();
    // The parent has drawn ids, so that a generator which a fork copies is in use.
    runtime().block_on(async {
        let view: View<str, u32> = prompt(url.clone()).view("n");
        view.fetch("parent").load(|_| async { Ok(1) }).await.expect("loads");
    });
    let [mut reader, mut deleter]: [Child; 2] =
        [fork(|line| reader(&url, line)), fork(|line| deleter(&url, line))];
    assert_eq!(reader.line.receive(), "has it");
    assert_eq!(deleter.line.receive(), "ready");
    deleter.line.send("delete");
    assert_eq!(deleter.line.receive(), "Everywhere");
    reader.line.send("deleted");
    assert_eq!(reader.line.receive(), "None", "the value was deleted on every node");
}

/// Of the parent, which completes it after the child has tried to, and dropped it.
#[test]
fn lease_of_the_parent_is_refused_in_a_child() {
    let Some(server) = RedisServer::start() else { return };
    let parent = runtime();
    let view: View<str, u32> = prompt(server.url()).view("n");
    let leased = parent.block_on(async { view.fetch("k").lease().await });
    let Ok(Leased::Lead(lease)) = leased else { panic!("it leads") };
    let lease = Mutex::new(Some(lease));
    let take = || lease.lock().expect("no panic").take().expect("it is there");
    let mut child = fork(|_| {
        let completed = runtime().block_on(take().complete(1));
        format!("{}", matches!(completed, Err(FetchError::Forked)))
    });
    assert_eq!(child.line.receive(), "true");
    assert_eq!(parent.block_on(take().complete(2)).as_deref().ok(), Some(&2));
    assert_eq!(view.hit("k").as_deref(), Some(&2));
}

/// Calls an inherited cache in every way.
async fn call_inherited(cache: &Cache, view: &View<str, u32>) -> &'static str {
    let mut events = cache.events();
    let load = || view.fetch("k").load(|_| async { panic!("an inherited cache loads nothing") });
    assert!(matches!(load().await, Err(FetchError::Forked)));
    let many = view.fetch_multi(["k", "l"]).load(|_, _| async { Ok(Vec::new()) }).await;
    assert!(many.iter().all(|outcome| matches!(outcome, Err(FetchError::Forked))));
    assert!(view.read("k").await.is_none() && view.read_multi(["k"]).await[0].is_none());
    assert!(view.inspect("k").entry.is_none());
    let is_refused = |result: Result<(), CacheError>| assert!(matches!(result, Err(CacheError::Forked)));
    is_refused(view.write("k", 2).await.map(drop));
    is_refused(view.add("k", 2).await.map(drop));
    is_refused(view.take("k").await.map(drop));
    is_refused(view.expire("k").await.map(drop));
    is_refused(view.update("k", |_| panic!("it is inherited")).await.map(drop));
    is_refused(view.touch("k", larder::Policy::new()).await.map(drop));
    assert!(view.ttl("k").await.is_none());
    is_refused(view.delete("k").await.map(drop));
    is_refused(cache.clear().await.map(drop));
    is_refused(cache.invalidate_tags(["t"], larder::Invalidation::Hard).await.map(drop));
    is_refused(cache.delete_matched("*").await.map(drop));
    is_refused(cache.increment("visits", 1).await.map(drop));
    is_refused(cache.raw::<str>("raw").read("k").await.map(drop));
    is_refused(cache.shared("pages").delete(b"k").await.map(drop));
    assert!(cache.read::<u32>("k").await.is_none());
    assert_eq!(cache.close(Duration::from_secs(60)).await, 0);
    assert_eq!(cache.coherence().mode, CoherenceMode::Forked);
    assert_eq!(cache.stats().memory.hits, 0);
    assert_eq!(events.recv().await, Ok(Event::Forked));
    assert!(events.is_empty(), "it is said once");
    ALL_REFUSED
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inherited_cache_answers_with_errors_and_its_drop_leaves_the_parent_alone() {
    let Some(server) = RedisServer::start() else { return };
    let _deadline = Deadline::start();
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        view.fetch("k").load(|_| async { Ok(1) }).await.expect("loads");
        let (inherited, inherited_view) = (cache.clone(), view.clone());
        let mut child = fork(move |_| {
            runtime().block_on(async {
                let said = call_inherited(&inherited, &inherited_view).await;
                // The only other handles are in the frames of the parent, which never return here.
                drop((inherited, inherited_view));
                said.to_owned()
            })
        });
        assert_eq!(child.line.receive(), ALL_REFUSED);
        drop(child);
        assert_eq!(view.read("k").await.map(|found| *found), Some(1));
        // Its connections still reply.
        assert!(view.write("later", 3).await.expect("valid").is_everywhere());
        assert_eq!(cache.increment("visits", 1).await.expect("redis replies"), 1);
    }
}

/// The last handle of a cache with open connections is dropped in the child.
#[test]
fn child_that_drops_the_last_handle_leaves_the_sockets_of_the_parent() {
    let Some(server) = RedisServer::start() else { return };
    let running = runtime();
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    assert!(running.block_on(view.write("k", 1)).expect("valid").is_everywhere());
    let (mut taken, mut taken_view) = (Some(cache), Some(view));
    let mut child = fork(|_| {
        drop((taken_view.take(), taken.take()));
        "dropped".to_owned()
    });
    assert_eq!(child.line.receive(), "dropped");
    drop(child);
    let (cache, view) = (taken.expect("the child's was another"), taken_view.expect("as was this"));
    running.block_on(async {
        assert!(view.write("k", 2).await.expect("valid").is_everywhere(), "its connections still reply");
        eventually("heartbeats are replied to", async || cache.coherence().memory_trusted).await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fork_during_a_load_holds_nobody_up() {
    let Some(server) = RedisServer::start() else { return };
    let _deadline = Deadline::start();
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        let (gate, loading) = begun(&view, 1).await;
        let inherited = view.clone();
        let mut child = fork(move |_| {
            let outcome = runtime().block_on(inherited.fetch("k").load(|_| async { panic!("loads") }));
            format!("{:?}", outcome.map(|found| *found))
        });
        assert_eq!(child.line.receive(), "Err(Forked)");
        gate.open(1);
        assert_eq!(loading.await.expect("no panic"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_forks_under_load_are_each_answered_at_once() {
    const FORKS: usize = 1_000;
    let _deadline = Deadline::start();
    let cache =
        Cache::builder("test").ttl(Duration::from_secs(60)).memory_entries(100).build().expect("valid");
    let view: View<u64, u64> = cache.view("n");
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers = [0, 1].map(|caller: u64| {
        let (view, stop, calls) = (view.clone(), stop.clone(), calls.clone());
        tokio::spawn(async move {
            for n in (caller..).step_by(2) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let key = n % 200;
                view.fetch(&key).load(move |_| async move { Ok(n) }).await.expect("loads");
                _ = view.delete(&(key / 2)).await.expect("valid");
                calls.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    eventually("the callers run", async || calls.load(Ordering::Relaxed) > 1_000).await;
    for _ in 0..FORKS {
        let inherited = view.clone();
        let mut child = fork(move |_| {
            runtime().block_on(async {
                let fetched = inherited.fetch(&1).load(|_| async { panic!("loads") }).await;
                let deleted = inherited.delete(&1).await;
                let read = inherited.read(&1).await;
                format!(
                    "{:?} {:?} {read:?}",
                    fetched.map(|found| *found),
                    deleted.map(|removal| removal.existed)
                )
            })
        });
        assert_eq!(child.line.receive(), "Err(Forked) Err(Forked) None");
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.expect("no panic");
    }
}
