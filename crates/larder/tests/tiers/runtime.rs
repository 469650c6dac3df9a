//! A cache with a runtime of its own: whoever polls its calls, their tasks, timers and sockets are there.

use crate::mutation::Mutation;
use crate::node_with;
use larder::{Cache, Counters, Invalidation, Leased, Policy, SharedFetch, Update, View, WriteOptions};
use larder_testkit::{RedisServer, eventually};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// An executor that knows nothing of tokio.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut context, mut work) = (Context::from_waker(&waker), pin!(work));
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Calls that need tasks, timers or sockets.
async fn call_everything(cache: &Cache) {
    let view: View<str, u32> = cache.view("n");
    assert_eq!(view.read("k").await.as_deref(), None);
    view.write("k", 1).await.everywhere();
    assert_eq!(view.read_multi(["k", "l"]).await.into_iter().flatten().count(), 1);
    let load = async |key: &str| {
        let fetch = view.fetch(key).policy(Policy::new().hard_timeout(Duration::from_secs(60)));
        fetch.load(|_| async { Ok(2) }).await.map(|value| *value).ok()
    };
    assert_eq!((load("k").await, load("l").await), (Some(1), Some(2)));
    let loaded =
        view.fetch_multi(["k", "m"]).load(|keys, _| async { Ok(keys.into_iter().map(|key| (key, 3))) }).await;
    assert!(loaded.iter().all(Result::is_ok));
    let Ok(Leased::Lead(lease)) = view.fetch("o").lease().await else { panic!("it leads") };
    assert_eq!(lease.complete(4).await.as_deref().ok(), Some(&4));
    drop(view.fetch("p").lease().await);
    assert!(view.add("q", 5).await.expect("redis replies"));
    assert_eq!(view.take("q").await.expect("redis replies").as_deref(), Some(&5));
    assert!(view.update("o", |_| Update::Put(5)).await.expect("redis replies").changed);
    assert!(view.touch("o", Policy::new().ttl(Duration::from_secs(90))).await.expect("redis replies"));
    assert!(view.ttl("o").await.is_some());
    view.expire("o").await.everywhere();
    let sessions = view.clone().touch_on_read();
    assert_eq!(sessions.read("k").await.as_deref(), Some(&1));
    let counters: Counters<str> = cache.counters("count");
    let count = counters.increment("c", 2).await.expect("redis replies");
    assert_eq!(counters.read("c").await.ok(), Some(Some(count)));
    cache.raw::<str>("raw").write("r", *b"bytes", Duration::from_secs(60)).await.expect("redis replies");
    assert!(cache.raw::<str>("raw").read("r").await.is_ok_and(|bytes| bytes.is_some()));
    let shared = cache.shared("s");
    let SharedFetch::Lease(lease) = shared.fetch(b"k").await else { panic!("it leads") };
    lease.commit(b"1".to_vec(), &WriteOptions::new()).await;
    let found = shared.read(b"k").await.expect("it is there");
    shared.spawn_invalidation(["t"], Invalidation::Hard).expect("valid tags");
    shared.revalidate(b"k", &found.into_copy()).await;
    cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    cache.delete_matched("n:m*").await.everywhere();
    cache.clear().await.everywhere();
    assert_eq!(cache.close(Duration::from_secs(5)).await, 0);
}

#[test]
fn calls_of_a_cache_with_a_runtime_need_no_other() {
    let Some(server) = RedisServer::start() else { return };
    let own = runtime();
    let cache = node_with(server.url(), |options| {
        options.runtime(own.handle().clone()).redis_timeout(Duration::from_secs(5))
    });
    block_on(call_everything(&cache));
    // A runtime of the caller has neither timers nor sockets.
    let bare = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    bare.block_on(call_everything(&cache));
}

#[test]
fn tasks_outlive_the_runtime_of_a_caller() {
    let Some(server) = RedisServer::start() else { return };
    let own = runtime();
    let cache = node_with(server.url(), |options| {
        options.runtime(own.handle().clone()).redis_timeout(Duration::from_secs(5))
    });
    let view: View<str, u32, Infallible> = cache.view("n");
    let load = || view.fetch("k").load(|_| async { Ok(1) });
    runtime().block_on(async { load().await.expect("loads") });
    let ended = Instant::now();
    own.block_on(eventually("a heartbeat proves something", async || {
        cache.coherence().proof_age < ended.elapsed()
    }));
    assert_eq!(view.hit("k").as_deref(), Some(&1));
}
