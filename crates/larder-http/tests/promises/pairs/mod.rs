//! Pairs of features: requests, options and purges are drawn at random, each response is compared with a model, and every pair of
//! features that can meet must have taken effect on one stored response.
//!
//! The body of a response says what it was made from and by which handler call. So a response tells whether it is of the right
//! variant and principal, older than a purge, or older than it may be. What happens to the response of one handler call,
//! from its load to its purge, is collected under the number of that call: features that meet there have met.

mod check;
mod drawn;
mod feature;
mod origin;
mod world;

use std::collections::HashMap;

use self::feature::Feature::{self, *};
use self::feature::{FEATURES, can_meet};
use self::world::World;

/// Steps in each place: enough for the rarest pair, several times over.
const STEPS: usize = 6_000;

#[tokio::test]
async fn every_pair_of_features_meets_and_no_response_differs_from_the_model() {
    let mut meetings: HashMap<(Feature, Feature), usize> = HashMap::new();
    for place in [None, Some(Shared), Some(Disconnected), Some(Lost)] {
        let mut world = World::new(place).await;
        for _ in 0..STEPS {
            world.step().await;
        }
        for load in world.origin.loads.lock().unwrap().values() {
            for one in &load.met {
                for other in load.met.range(..one) {
                    assert!(can_meet(*one, *other), "{one:?} and {other:?} have met: {load:?}");
                    *meetings.entry((*other, *one)).or_default() += 1;
                }
            }
        }
    }
    let missing: Vec<_> = FEATURES
        .iter()
        .flat_map(|one| FEATURES.iter().map(move |other| (*one, *other)))
        .filter(|(one, other)| {
            one < other && can_meet(*one, *other) && !meetings.contains_key(&(*one, *other))
        })
        .collect();
    assert!(missing.is_empty(), "these never met: {missing:?}");
}
