//! Cached functions: what is loaded, under which key, with which options, and what their calls reach.

use larder::{Cache, CacheError, FetchError, Invalidation, LoadCx, LocalCache, Source, View};
use larder_testkit::{RedisServer, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("no such product")]
struct NoProduct;

/// Counts its queries, and returns how many there were.
#[derive(Debug, Default)]
struct Database {
    queries: AtomicU32,
}

impl Database {
    fn query(&self) -> u32 {
        self.queries.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// The price of a product.
#[larder::cached(view = "price", key = (shop, id), tags = ["shop:{shop}", "prices"], ttl = "5m", grace = "1h")]
async fn price(cache: &Cache, db: &Arc<Database>, shop: u64, id: &str) -> Result<u32, NoProduct> {
    if id.is_empty() {
        return Err(NoProduct);
    }
    Ok(db.query())
}

fn in_memory() -> Cache {
    Cache::builder("test").ttl(Duration::from_secs(60)).build().expect("valid options")
}

fn over(server: &RedisServer) -> Cache {
    let options = Cache::builder("test").ttl(Duration::from_secs(60)).redis(server.url());
    options.redis_timeout(Duration::from_secs(5)).build().expect("valid options")
}

#[tokio::test]
async fn call_loads_once_on_all_nodes_until_one_deletes() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other, db) = (over(&server), over(&server), Arc::<Database>::default());
    let loaded = price(&one, &db, 7, "apple").await.expect("loads");
    assert_eq!((*loaded, loaded.source()), (1, Source::Loader));
    let found = price(&other, &db, 7, "apple").await.expect("is in Redis");
    assert_eq!((*found, found.source()), (1, Source::Redis));
    let hit = price(&other, &db, 7, "apple").await.expect("is in memory");
    assert_eq!((*hit, hit.source()), (1, Source::Memory));

    let removal = price::delete(&one, 7, "apple").await.expect("deleted");
    assert!(removal.existed && removal.reach.is_everywhere());
    eventually("the other node has noticed", async || {
        *price(&other, &db, 7, "apple").await.expect("loads") == 2
    })
    .await;
    assert_eq!(*price(&one, &db, 7, "apple").await.expect("is in Redis"), 2);
    assert_eq!(db.queries.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn tag_with_an_argument_reaches_other_nodes() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other, db) = (over(&server), over(&server), Arc::<Database>::default());
    for shop in [7, 8] {
        price(&other, &db, shop, "apple").await.expect("loads");
    }
    assert!(one.invalidate_tags(["shop:7"], Invalidation::Hard).await.expect("valid tag").is_everywhere());
    eventually("the other node has noticed", async || {
        *price(&other, &db, 7, "apple").await.expect("loads") == 3
    })
    .await;
    assert_eq!(*price(&other, &db, 8, "apple").await.expect("is in memory"), 2, "another tag");
    assert!(one.invalidate_tags(["prices"], Invalidation::Hard).await.expect("valid tag").is_everywhere());
    eventually("the other node has noticed", async || {
        *price(&other, &db, 8, "apple").await.expect("loads") == 4
    })
    .await;
}

#[tokio::test]
async fn view_and_key_are_those_of_a_view_made_by_hand() {
    let (cache, db) = (in_memory(), Arc::<Database>::default());
    price(&cache, &db, 7, "apple").await.expect("loads");
    let by_hand: View<(u64, &str), u32, NoProduct> = cache.view("price");
    assert_eq!(by_hand.read(&(7, "apple")).await.as_deref(), Some(&1));

    let (view, key) = (price::view(&cache), price::key(7, "pear"));
    assert!(view.write(&key, 50).await.expect("written").is_everywhere());
    let written = price(&cache, &db, 7, "pear").await.expect("is in memory");
    assert_eq!(*written, 50);
    assert!(written.remaining_ttl() > Duration::from_secs(299), "the time is the function's");
    assert_eq!(written.tags().collect::<Vec<_>>(), ["prices"], "a tag without arguments is the view's");
    let loaded = price(&cache, &db, 7, "apple").await.expect("is in memory");
    assert_eq!(loaded.tags().collect::<Vec<_>>(), ["prices", "shop:7"]);
}

#[tokio::test]
async fn error_of_the_function_reaches_its_caller() {
    let (cache, db) = (in_memory(), Arc::<Database>::default());
    let Err(FetchError::Load(error)) = price(&cache, &db, 7, "").await else { panic!("it fails") };
    assert_eq!(*error, NoProduct);
    assert_eq!(*price(&cache, &db, 7, "apple").await.expect("loads"), 1);
}

#[tokio::test]
async fn refresh_loads_over_a_fresh_value_and_load_knows_no_cache() {
    let (cache, db) = (in_memory(), Arc::<Database>::default());
    price(&cache, &db, 7, "apple").await.expect("loads");
    assert_eq!(price::load(&cache, &db, 7, "apple").await, Ok(2));
    assert_eq!(*price(&cache, &db, 7, "apple").await.expect("is in memory"), 1);
    assert_eq!(*price::refresh(&cache, &db, 7, "apple").await.expect("loads"), 3);
    assert_eq!(*price(&cache, &db, 7, "apple").await.expect("is in memory"), 3);
}

#[tokio::test]
async fn each_cache_and_space_has_values_of_its_own() {
    let (one, other, db) = (in_memory(), in_memory(), Arc::<Database>::default());
    let space = one.space("eu");
    for (cache, value) in [(&one, 1), (&other, 2), (&space, 3), (&one, 1), (&other, 2), (&space, 3)] {
        assert_eq!(*price(cache, &db, 7, "apple").await.expect("loads"), value);
    }
    let clone = space.clone();
    assert!(std::ptr::eq(price::view(&clone), price::view(&space)), "clones share the view");
    let again = one.space("eu");
    assert!(price::delete(&again, 7, "apple").await.expect("deleted").existed);
}

/// A hit needs no runtime: it starts no task.
#[test]
fn hit_needs_no_runtime() {
    let (cache, db) = (in_memory(), Arc::<Database>::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(price(&cache, &db, 7, "apple")).expect("loads");
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = std::pin::pin!(price(&cache, &db, 7, "apple")).poll(&mut context);
    assert!(matches!(polled, std::task::Poll::Ready(Ok(hit)) if *hit == 1));
}

struct User {
    id: u64,
    plan: String,
}

/// How long what is shown to a user may be old.
fn patience(plan: &str) -> Duration {
    Duration::from_secs(if plan == "free" { 600 } else { 10 })
}

/// Neither clones of its own nor names of an argument in quotes.
#[larder::cached(
    view = "feed",
    key = (user.id, page.to_lowercase(), sizes),
    tags = [format!("user:{}", user.id)],
    ttl = patience(&user.plan),
    jitter = 0.0
)]
async fn feed(
    cache: &LocalCache,
    user: Arc<User>,
    mut page: String,
    sizes: [u8; 2],
    cx: LoadCx<Feed>,
) -> std::io::Result<Feed> {
    page.push('!');
    if user.plan == "none" {
        cx.no_store();
    }
    Ok(Feed(format!("{} {page} {sizes:?}", *settings(cache).await.expect("loads"))))
}

/// No type of serde.
#[derive(Debug, PartialEq)]
struct Feed(String);

#[larder::cached(view = "settings", refresh_ahead = 0.9)]
async fn settings(_cache: &LocalCache) -> Result<&'static str, std::convert::Infallible> {
    Ok("dark")
}

#[tokio::test]
async fn key_and_options_are_expressions_with_arguments() {
    let cache = Cache::builder("test").ttl(Duration::from_secs(60)).build_local().expect("valid options");
    let user = |plan: &str| Arc::new(User { id: 3, plan: plan.to_owned() });
    let feed_of = |plan, page: &str| feed(&cache, user(plan), page.to_owned(), [1, 2]);

    let loaded = feed_of("none", "Home").await.expect("loads");
    assert_eq!(*loaded, Feed("dark Home! [1, 2]".to_owned()));
    assert_eq!(feed_of("free", "Home").await.expect("loads").source(), Source::Loader, "no_store");
    let hit = feed_of("paid", "HOME").await.expect("is in memory");
    assert_eq!(hit.source(), Source::Memory);
    assert!(hit.remaining_ttl() > Duration::from_secs(500), "it was loaded for a free plan");
    assert_eq!(hit.tags().collect::<Vec<_>>(), ["user:3"]);
    assert!(feed_of("paid", "news").await.expect("loads").remaining_ttl() <= Duration::from_secs(10));
    assert!(feed::delete(&cache, user("any"), "home".to_owned(), [1, 2]).await.expect("deleted").existed);
    assert!(
        settings::delete(&cache).await.expect("deleted").existed,
        "a function without arguments has a key"
    );
}

mod shop {
    /// Lifetimes, borrowed slices and paths, and what a module makes public.
    #[larder::cached(view = "sum", key = (bytes, path.as_os_str().len(), factor))]
    pub(crate) async fn sum<'a>(
        bytes: &'a [u8],
        cache: &'a larder::Cache,
        path: &std::path::Path,
        factor: &'static u64,
    ) -> Result<Option<u64>, String> {
        let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
        Ok((path.starts_with("/")).then_some(sum * factor))
    }
}

#[tokio::test]
async fn borrowed_arguments_are_passed_to_the_loader() -> Result<(), CacheError> {
    let cache = in_memory();
    let sum = async |bytes: &[u8], path: &str| {
        let loaded = shop::sum(bytes, &cache, path.as_ref(), &10).await;
        loaded.expect("loads").as_ref().copied()
    };
    assert_eq!(sum(&[1, 2], "/a").await, Some(30));
    assert_eq!(sum(&[1, 2], "b").await, None);
    assert!(shop::sum::delete(&[1, 2], &cache, "b".as_ref(), &10).await?.existed);
    Ok(())
}
