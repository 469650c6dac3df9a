//! Pairs of features: options and operations are drawn at random, each outcome is compared with a model, and every pair of
//! features that can meet must have taken effect on one value.
//!
//! A value is a number that no other value has. What happens to it from its load to its end is collected under that number:
//! features that meet there have met.
//!
//! `LARDER_PAIRS_SEED` sets the seed of all draws.

mod check;
mod feature;
mod slot;
mod steps;
mod world;

use feature::Pairs;
use larder_testkit::Deadline;
use world::{Place, World};

const SEED: u64 = 7;

#[test]
fn every_pair_of_features_meets_and_no_outcome_differs_from_the_model() {
    let _deadline = Deadline::start();
    let seed = std::env::var("LARDER_PAIRS_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    println!("repeat with LARDER_PAIRS_SEED={seed}");
    let places = [Place::Memory, Place::Redis, Place::Both, Place::Outages, Place::LongOutages];
    let run = |place: Place| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut world = World::new(place, seed)?;
            for _ in 0..place.steps() {
                world.step().await;
            }
            Some(world.into_met())
        })
    };
    // Each in a thread of its own: most of the time they wait for Redis.
    let met: Vec<_> = std::thread::scope(|scope| {
        let worlds = places.map(|place| scope.spawn(move || run(place)));
        worlds.into_iter().map(|world| world.join().expect("no outcome differs")).collect()
    });
    if met.iter().any(Option::is_none) {
        return;
    }
    let mut pairs = Pairs::default();
    met.into_iter().flatten().flatten().for_each(|met| pairs.add(&met));
    let counts = pairs.counts();
    let (count, one, other) = counts[0];
    println!("{} pairs of features; the rarest, {one:?} and {other:?}, on {count} values", counts.len());
    let missing: Vec<_> = counts.iter().filter(|(count, ..)| *count == 0).collect();
    assert!(missing.is_empty(), "these never took effect on one value: {missing:?}");
}
