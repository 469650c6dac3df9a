//! Random operations, each compared with a plain map as the model, and a validation of the structure after each.
//!
//! A cache may evict, the model does not. So entries that must be present are checked where nothing can have been
//! evicted; values that must be absent (removed, replaced, expired) are checked everywhere.

use crate::{Cache, Clock, Op, Policy, Ttl};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, u32, Option<u16>),
    Get(u8),
    Peek(u8),
    Remove(u8),
    Add(u8, u32),
    Expire(u8, u16),
    Load(u8, u32),
    Advance(u16),
    RetainOdd,
    Clear,
    RunDue,
    SetCapacity(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), any::<u32>(), proptest::option::of(1u16..500))
            .prop_map(|(key, value, ttl)| Step::Insert(key % 64, value, ttl)),
        6 => any::<u8>().prop_map(|key| Step::Get(key % 64)),
        1 => any::<u8>().prop_map(|key| Step::Peek(key % 64)),
        2 => any::<u8>().prop_map(|key| Step::Remove(key % 64)),
        2 => (any::<u8>(), any::<u32>()).prop_map(|(key, n)| Step::Add(key % 64, n)),
        1 => (any::<u8>(), 0u16..500).prop_map(|(key, ttl)| Step::Expire(key % 64, ttl)),
        2 => (any::<u8>(), any::<u32>()).prop_map(|(key, value)| Step::Load(key % 64, value)),
        2 => (1u16..300).prop_map(Step::Advance),
        1 => Just(Step::RetainOdd),
        1 => Just(Step::Clear),
        1 => Just(Step::RunDue),
        1 => (1u64..200).prop_map(Step::SetCapacity),
    ]
}

/// The model: the last stored value of each key and its deadline.
#[derive(Default)]
struct Model {
    live: HashMap<u8, (u32, Option<u64>)>,
    now: u64,
}

impl Model {
    fn get(&self, key: u8) -> Option<u32> {
        let (value, deadline) = self.live.get(&key)?;
        deadline.is_none_or(|at| at > self.now).then_some(*value)
    }
}

fn run(policy: Policy, shards: usize, roomy: bool, steps: Vec<Step>) {
    let (clock, hand) = Clock::manual();
    let capacity = if roomy { 1_000 } else { 20 };
    let cache: Cache<u8, u32> = Cache::builder()
        .weight(capacity, |key, _| u64::from(key % 4))
        .policy(policy)
        .shards(shards)
        .clock(clock)
        .build()
        .expect("valid options");
    let mut model = Model::default();
    let check = |found: Option<u32>, expected: Option<u32>, step: &Step| {
        let forgotten = found.is_none() && !roomy;
        assert!(found == expected || forgotten, "{step:?}: found {found:?}, expected {expected:?}");
    };
    for step in steps {
        match step.clone() {
            Step::Insert(key, value, ttl_ms) => {
                let ttl = ttl_ms.map_or(Ttl::Never, |ms| Ttl::After(Duration::from_millis(ms.into())));
                let inserted = cache.insert_with_ttl(key, value, ttl);
                if inserted.is_refused() {
                    model.live.remove(&key);
                } else {
                    check(inserted.replaced(), model.get(key), &step);
                    let deadline = ttl_ms.map(|ms| model.now + u64::from(ms));
                    model.live.insert(key, (value, deadline));
                    assert_eq!(cache.peek(&key), Some(value), "what was stored can be read");
                }
            }
            Step::Get(key) => check(cache.get(&key), model.get(key), &step),
            Step::Peek(key) => check(cache.peek(&key), model.get(key), &step),
            Step::Remove(key) => {
                check(cache.remove(&key), model.get(key), &step);
                model.live.remove(&key);
            }
            Step::Add(key, n) => {
                let computed = cache.compute(key, |entry| {
                    let before = entry.map(|entry| *entry.value());
                    (Op::Put(before.unwrap_or(0).wrapping_add(n), Ttl::Keep), before)
                });
                check(computed.result, model.get(key), &step);
                let deadline = match computed.result {
                    Some(_) => model.live[&key].1,
                    None => None,
                };
                model.live.remove(&key);
                if computed.refused.is_none() {
                    let sum = computed.result.unwrap_or(0).wrapping_add(n);
                    model.live.insert(key, (sum, deadline));
                }
            }
            Step::Expire(key, ms) => {
                let ttl = Ttl::After(Duration::from_millis(ms.into()));
                cache.compute(key, |_| (Op::SetTtl(ttl), ()));
                if model.get(key).is_some() {
                    let at = model.now + u64::from(ms);
                    model.live.entry(key).and_modify(|(_, deadline)| *deadline = Some(at));
                }
            }
            Step::Load(key, value) => {
                let cached = cache.peek(&key);
                check(cached, model.get(key), &step);
                let found = cache.get_or_load(&key, || Ok::<_, ()>(value)).expect("the loader answers");
                assert_eq!(found, cached.unwrap_or(value), "{step:?}");
                if cached.is_none() {
                    model.live.remove(&key);
                    if cache.contains(&key) {
                        model.live.insert(key, (value, None));
                    }
                }
            }
            Step::Advance(ms) => {
                hand.advance(Duration::from_millis(ms.into()));
                model.now += u64::from(ms);
            }
            Step::RetainOdd => {
                cache.retain(|key, _| key % 2 == 1);
                model.live.retain(|key, _| key % 2 == 1);
            }
            Step::Clear => {
                cache.clear();
                model.live.clear();
                assert_eq!(cache.weight(), 0);
            }
            Step::RunDue => {
                cache.run_due(16);
            }
            Step::SetCapacity(capacity) if !roomy => cache.set_capacity(capacity),
            Step::SetCapacity(_) => {}
        }
        cache.validate();
        for (key, value) in cache.iter() {
            assert_eq!(Some(value), model.get(key), "after {step:?}, key {key}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cache_with_room_matches_the_model(steps in proptest::collection::vec(step(), 1..120), shards in 1usize..5) {
        run(Policy::default(), shards, true, steps);
    }

    #[test]
    fn cache_that_evicts_never_returns_wrong_values(
        steps in proptest::collection::vec(step(), 1..120),
        shards in 1usize..5,
        policy in proptest::sample::select(Policy::ALL.to_vec()),
    ) {
        run(policy, shards, false, steps);
    }
}
