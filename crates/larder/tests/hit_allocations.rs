//! A hit in memory allocates nothing.

use larder::{Cache, Committed, SharedFetch, Validity, View, WriteOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::convert::Infallible;
use std::time::Duration;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations of a future on this thread.
async fn allocations<T>(hit: impl Future<Output = T>) -> u64 {
    let before = ALLOCATIONS.get();
    std::hint::black_box(hit.await);
    ALLOCATIONS.get() - before
}

#[larder::cached(view = "f", key = (id, name), tags = ["{id}"], ttl = "5m")]
async fn function(cache: &Cache, texts: &[String], id: u64, name: &str) -> std::io::Result<String> {
    Ok(format!("{id} {name} {texts:?}"))
}

#[tokio::test(flavor = "current_thread")]
async fn hit_in_memory_allocates_nothing() {
    let builder = || Cache::builder("test").ttl(Duration::from_secs(60));
    let caches = [
        ("any", builder().build().expect("valid options")),
        ("local", (*builder().build_local().expect("valid options")).clone()),
    ];
    for (what, cache) in caches {
        let numbers: View<u64, String> = cache.view("n");
        let texts: View<str, Option<Vec<u64>>, std::io::Error> = cache.space("eu").view("t").with_tag("tag");
        assert!(numbers.write(&u64::MAX, "a value".to_owned()).await.expect("written").is_everywhere());
        assert!(
            texts
                .write("a key of 39 bytes, which needs no heap", Some(vec![1, 2]))
                .await
                .expect("written")
                .is_everywhere()
        );
        // Counters of the thread and samples of the latency are made on the first hits.
        for _ in 0..1_000 {
            assert!(numbers.read(&u64::MAX).await.is_some());
        }
        let fetched = numbers.fetch(&u64::MAX).load(|_| async { Ok::<_, Infallible>(String::new()) });
        assert_eq!(allocations(fetched).await, 0, "{what}: fetch by a number");
        let key = "a key of 39 bytes, which needs no heap";
        let fetched = texts.fetch(key).load(|_| async { Ok(None) });
        assert_eq!(allocations(fetched).await, 0, "{what}: fetch by text");
        assert_eq!(allocations(texts.read(key)).await, 0, "{what}: read");
        assert_eq!(allocations(texts.exist(key)).await, 0, "{what}: exist");
        let lent = vec!["cloned for a loader".to_owned()];
        function(&cache, &lent, 7, "name").await.expect("loads");
        let called = function(&cache, &lent, 7, "name");
        assert_eq!(allocations(called).await, 0, "{what}: cached function");
        let shared = cache.shared("s");
        let SharedFetch::Lease(lease) = shared.fetch(b"k").await else { panic!("there is no redis") };
        let Committed::Everywhere(copy) = lease.commit(vec![1], &WriteOptions::new().tag("t")).await else {
            panic!("there is no other node")
        };
        assert_eq!(shared.validity(&copy), Validity::Valid);
        assert_eq!(allocations(async { shared.validity(&copy) }).await, 0, "{what}: judgement of a copy");
    }
    assert!(allocations(async { vec![0_u8; 64] }).await > 0, "the count works");
}
