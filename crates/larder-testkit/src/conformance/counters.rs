//! Counters.

use super::Subject;
use std::time::Duration;

/// Nothing is zero.
pub async fn counter_starts_at_zero(cache: impl Subject) {
    assert_eq!(cache.increment("n", 5).await, Some(5));
    assert_eq!(cache.increment("m", -5).await, Some(-5));
    assert_eq!(cache.increment("o", 0).await, Some(0));
}

/// Up and down.
pub async fn counter_goes_up_and_down(cache: impl Subject) {
    let steps = [(3, 3), (4, 7), (-10, -3), (0, -3), (3, 0)];
    for (by, sum) in steps {
        assert_eq!(cache.increment("n", by).await, Some(sum));
    }
}

/// Each has its own.
pub async fn counters_are_separate(cache: impl Subject) {
    cache.increment("n", 1).await;
    assert_eq!(cache.increment("N", 1).await, Some(1));
    assert_eq!(cache.increment("n", 1).await, Some(2));
}

/// Fifty at the same time are fifty.
pub async fn concurrent_increments_add_up(cache: impl Subject) {
    let counting: Vec<_> = (0..50)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.increment("n", 1).await })
        })
        .collect();
    for task in counting {
        task.await.expect("counts").expect("a sum");
    }
    assert_eq!(cache.increment("n", 0).await, Some(50));
}

/// It does not go round.
pub async fn counter_at_its_limit_stays(cache: impl Subject) {
    assert_eq!(cache.increment("n", i64::MAX).await, Some(i64::MAX));
    assert_eq!(cache.increment("n", 1).await, None);
    assert_eq!(cache.increment("n", 0).await, Some(i64::MAX));
}

/// Counting on does not prolong it.
pub async fn increment_keeps_ttl(cache: impl Subject) {
    cache.increment("n", 1).await;
    cache.pass(Duration::from_secs(40)).await;
    assert_eq!(cache.increment("n", 1).await, Some(2));
    cache.pass(Duration::from_secs(40)).await;
    assert_eq!(cache.increment("n", 1).await, Some(1), "60 s after the first");
}
