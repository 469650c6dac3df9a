//! What tools that explain a cache see of an entry in memory.

use larder::{Cache, Clock, Policy, Validity, View};
use std::convert::Infallible;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn inspection_shows_the_entry_and_changes_nothing() {
    let (clock, hand) = Clock::manual();
    let cache = Cache::builder("shop").ttl(60 * SECOND).clock(clock).build().unwrap();
    let policy = Policy::new().grace(30 * SECOND);
    let view: View<str, Option<u32>, Infallible> = cache.view("price").with_policy(policy).with_tag("prices");
    assert!(view.inspect("tea").entry.is_none());
    assert_eq!(view.inspect("tea").redis_key, b"shop:price:tea");
    assert!(view.write("tea", Some(7)).await.unwrap().is_everywhere());
    hand.advance(20 * SECOND);
    let before = cache.stats();
    let entry = view.inspect("tea").entry.unwrap();
    assert_eq!((entry.validity, entry.is_absence), (Validity::Valid, false));
    assert_eq!((entry.age, entry.grace), (20 * SECOND, 30 * SECOND));
    assert!(entry.ttl <= 40 * SECOND && entry.ttl > 30 * SECOND, "{entry:?}");
    assert_eq!(entry.tags, [Box::<str>::from("prices")]);
    hand.advance(41 * SECOND);
    assert_eq!(view.inspect("tea").entry.unwrap().validity, Validity::Stale);
    let stats = cache.stats();
    assert_eq!((stats.memory.hits, stats.memory.misses), (before.memory.hits, before.memory.misses));
    assert!(view.write("none", None).await.unwrap().is_everywhere());
    assert!(view.inspect("none").entry.unwrap().is_absence);
}
