//! Values end at their deadlines by the clock of the simulated server, which is years away from every other clock and may
//! go back.

use crate::forgery::Forgery;
use crate::network::{Weather, World};
use crate::promise::rng::Rng;
use crate::promise::trace::Trace;
use larder::{Cache, Policy, Reach, Source, View};
use larder_engine::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(60);

fn calm_world(forgery: Forgery) -> Arc<World> {
    let weather = Weather { usual_ms: 40, slow: 0, lost: 0, unanswered: 0, late_pushes: 0 };
    World::new(3, weather, forgery, Arc::new(Rng::new(1)), Arc::new(Trace::new(0)))
}

/// The cache is kept for its heartbeats.
fn node(world: &Arc<World>, number: usize) -> (Cache, View<str, u32>) {
    let start = Instant::now();
    let builder = Cache::builder("c").ttl(TTL).tier(world.tier(number));
    let cache = builder.clock(Clock::custom(move || start.elapsed())).build().expect("valid options");
    let view = cache.view("v");
    (cache, view)
}

/// From both tiers: memory has what was found in Redis no longer than Redis.
#[tokio::test(start_paused = true)]
async fn value_is_served_until_its_deadline_and_not_after() {
    let world = calm_world(Forgery::None);
    let (writer, reader) = (node(&world, 0), node(&world, 1));
    let called_at = Instant::now();
    assert_eq!(writer.1.write("k", 1).await.ok(), Some(Reach::Everywhere));
    let written_at = Instant::now();
    sleep(TTL - SECOND - called_at.elapsed()).await;
    let found = reader.1.read("k").await.expect("a second is left");
    assert_eq!(found.source(), Source::Redis);
    assert!(found.remaining_ttl() <= TTL - written_at.elapsed(), "{:?}", found.remaining_ttl());
    assert_eq!(reader.1.read("k").await.map(|found| found.source()), Some(Source::Memory));
    sleep(TTL - written_at.elapsed()).await;
    assert!(reader.1.read("k").await.is_none() && writer.1.read("k").await.is_none());
}

/// A node that has the value in memory serves it no longer than the new time and `max_lag` say, and for as long: also one
/// that did not hear of the touch, and finds out when it compares its memory with the server.
#[tokio::test(start_paused = true)]
async fn touched_value_ends_at_its_new_deadline_in_the_memory_of_every_node() {
    for (ttl, is_cut) in [(5 * SECOND, false), (10 * TTL, false), (5 * SECOND, true)] {
        let what = format!("{ttl:?}, cut: {is_cut}");
        let world = calm_world(Forgery::None);
        let (writer, reader) = (node(&world, 0), node(&world, 1));
        assert_eq!(writer.1.write("k", 1).await.ok(), Some(Reach::Everywhere));
        for source in [Source::Redis, Source::Memory] {
            assert_eq!(reader.1.read("k").await.map(|found| found.source()), Some(source));
        }
        if is_cut {
            world.cut(1, 2 * SECOND);
        }
        assert_eq!(writer.1.touch("k", Policy::new().ttl(ttl)).await.ok(), Some(true));
        let touched_at = Instant::now();
        for left in [ttl - 3 * SECOND, SECOND] {
            sleep(ttl - left - touched_at.elapsed()).await;
            for (_, view) in [&reader, &writer] {
                assert_eq!(view.read("k").await.as_deref(), Some(&1), "{what}: {left:?} are left");
            }
        }
        sleep(ttl - touched_at.elapsed()).await;
        for (_, view) in [&reader, &writer] {
            assert!(view.read("k").await.is_none(), "{what}");
        }
    }
}

/// The server keeps a key longer if its clock goes back, and the nodes agree with it. No node keeps the value longer than
/// it was stored for without asking the server again.
#[tokio::test(start_paused = true)]
async fn clock_that_went_back_delays_deadline_for_server_and_nodes() {
    let world = calm_world(Forgery::None);
    let (writer, reader) = (node(&world, 0), node(&world, 1));
    assert_eq!(writer.1.write("k", 1).await.ok(), Some(Reach::Everywhere));
    let hour = 3_600 * SECOND;
    world.turn_clock_back(hour);
    let went_back_at = Instant::now();
    sleep(TTL + SECOND).await;
    let found = reader.1.read("k").await.expect("the server has it");
    assert_eq!((found.source(), found.remaining_ttl() <= TTL), (Source::Redis, true));
    sleep(hour + TTL - 5 * SECOND - went_back_at.elapsed()).await;
    let found = reader.1.read("k").await.expect("the server still has it");
    assert!(found.remaining_ttl() <= 5 * SECOND, "{:?}", found.remaining_ttl());
    sleep(5 * SECOND + SECOND / 10).await;
    assert!(reader.1.read("k").await.is_none());
}

/// The heartbeats of this forgery do not tell the time.
#[tokio::test(start_paused = true)]
async fn node_asks_for_time_that_heartbeats_do_not_tell() {
    let world = calm_world(Forgery::HeartbeatsAlways);
    let (writer, reader) = (node(&world, 0), node(&world, 1));
    assert_eq!(writer.1.write("k", 1).await.ok(), Some(Reach::Everywhere));
    let found = reader.1.read("k").await.expect("found");
    assert!(found.remaining_ttl() > TTL - SECOND && found.remaining_ttl() <= TTL);
}
