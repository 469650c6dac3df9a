//! Progress: while loaders succeed, a value that is refreshed for ever changes again and again, however its refreshes, their
//! timeouts and the nodes overlap.

use crate::forgery::Forgery;
use crate::network::{Weather, World};
use crate::promise::rng::Rng;
use crate::promise::trace::Trace;
use larder::{Cache, Policy, Source, View};
use larder_engine::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NODES: usize = 2;
const KEY: &str = "k";
/// Virtual time for which a key is refreshed.
const TIME: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(600);

/// What the refreshes of one history have in common.
#[derive(Clone, Debug)]
struct Refreshes {
    view: View<str, u64>,
    /// The longest time that a loader takes.
    loader_ms: u64,
    begun: Arc<AtomicU64>,
    rng: Arc<Rng>,
}

impl Refreshes {
    /// The value is the number of its loader, in the order of their starts.
    async fn refresh(self) {
        let time = self.rng.ms(0..self.loader_ms);
        let begun = self.begun.clone();
        let called_at = begun.load(Ordering::SeqCst);
        let loader = move |_| async move {
            let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
            sleep(time).await;
            Ok(number)
        };
        let found = self.view.fetch(KEY).refresh().load(loader).await.expect("it loads");
        assert_ne!(found.source(), Source::Stale, "no loader fails");
        assert!(*found > called_at, "loader {} began before the call after loader {called_at}", *found);
    }

    async fn refresh_for_ever(self, most_ms: u64) {
        loop {
            sleep(self.rng.ms(1..most_ms)).await;
            tokio::spawn(self.clone().refresh());
        }
    }

    /// Fetches and reads meanwhile, which join loads and look up what is stored.
    async fn read_for_ever(self) {
        loop {
            sleep(self.rng.ms(1..100)).await;
            let this = self.clone();
            tokio::spawn(async move {
                match this.rng.chance(500) {
                    true => _ = this.view.read(KEY).await,
                    false => {
                        let found = this.view.fetch(KEY).load(|_| async { panic!("it is never gone") }).await;
                        assert!(found.is_ok());
                    }
                }
            });
        }
    }
}

/// The longest time without a change of the value in Redis, and the longest that is allowed.
async fn longest_gap(seed: u64) -> (Duration, Duration) {
    let rng = Arc::new(Rng::new(seed));
    let usual_ms = [1, 5, 20][rng.below(0..3) as usize];
    let weather = Weather { usual_ms, slow: 0, lost: 0, unanswered: 0, late_pushes: 0 };
    let world = World::new(NODES, weather, Forgery::None, rng.clone(), Arc::new(Trace::new(0)));
    let loader_ms = rng.below(10..1_500);
    let soft_timeout = rng.chance(700).then(|| rng.ms(0..loader_ms));
    let lease_wait = rng.ms(1..2_000);
    let start = Instant::now();
    let node = |number: usize| {
        let mut policy = Policy::new().ttl(GRACE).grace(GRACE);
        policy = soft_timeout.map_or(policy, |timeout| policy.soft_timeout(timeout));
        let offset = rng.ms(0..1_000_000);
        Cache::builder("c")
            .policy(policy)
            .tier(world.tier(number))
            .lease_wait(lease_wait)
            .random_seed(rng.next())
            .clock(Clock::custom(move || offset + start.elapsed()))
            .build()
            .expect("the options are in range")
    };
    let nodes: Vec<Cache> = (0..NODES).map(node).collect();
    let begun = Arc::new(AtomicU64::new(0));
    let written = nodes[0].view::<str, u64, ()>("v").write(KEY, 0).await;
    assert!(written.expect("the value is valid").is_everywhere());
    let mut tasks = Vec::new();
    for cache in &nodes[..rng.below(1..3) as usize] {
        let refreshes =
            Refreshes { view: cache.view("v"), loader_ms, begun: begun.clone(), rng: rng.clone() };
        tasks.push(tokio::spawn(refreshes.clone().refresh_for_ever(rng.below(2..200))));
        tasks.push(tokio::spawn(refreshes.read_for_ever()));
    }
    let (mut last, mut changed, mut longest) = (Vec::new(), Instant::now(), Duration::ZERO);
    while start.elapsed() < TIME {
        sleep(Duration::from_millis(2)).await;
        let content = world.head(b"c:v:k");
        if content != last {
            (last, changed) = (content, Instant::now());
        }
        longest = longest.max(changed.elapsed());
    }
    tasks.iter().for_each(|task| task.abort());
    let round_trip = Duration::from_millis(2 * (usual_ms + 1));
    // A refresh begins, at the latest, so long after the one before.
    let idle = Duration::from_millis(200);
    (longest, 2 * (Duration::from_millis(loader_ms) + 3 * round_trip) + idle)
}

#[test]
fn value_that_is_refreshed_for_ever_changes() {
    const HISTORIES: u64 = 300;
    const SEED: u64 = 0x11fe_0000;
    let found = crate::find(HISTORIES, |index| {
        let (longest, allowed) = crate::play::in_virtual_time(longest_gap(SEED + index));
        if longest > allowed {
            println!("seed {}: no change for {longest:?}, allowed {allowed:?}", SEED + index);
        }
        longest > allowed
    });
    assert_eq!(found, None, "the history of this number makes no progress");
}
