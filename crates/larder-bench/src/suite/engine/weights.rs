//! The hit ratio where entries differ in weight, as bodies of responses do: most have a kilobyte, a few have megabytes.

use super::{Findings, Plan, Scale};
use crate::measure::rounds::Value;
use crate::result::Figure;
use crate::subject::{Hasher, Larder, Moka, QuickCache, Readable};
use anyhow::Result;
use indicatif::ProgressBar;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const CAPACITY: u64 = 64 << 20;
/// What a cache is told that wants to know how many entries it will hold.
const EXPECTED_ENTRIES: usize = 20_000;
/// Requests are so distributed that each factor of e among the keys has equally many.
const KEYS: f64 = 2e6;

/// The workloads, with the exponent of the Pareto distribution of weights: the lower, the more weight have the few.
const TAILS: [(&str, f64); 3] = [("weights-0.6", 0.6), ("weights-0.9", 0.9), ("weights-1.2", 1.2)];
const LIGHTEST: f64 = 1_000.0;
const HEAVIEST: f64 = 8.0 * (1 << 20) as f64;

#[derive(Clone, Default)]
struct ByValue;

impl quick_cache::Weighter<u64, u64> for ByValue {
    fn weight(&self, _: &u64, weight: &u64) -> u64 {
        *weight
    }
}

struct Request {
    key: u64,
    weight: u64,
}

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    for (workload, tail) in TAILS {
        bar.set_message(workload);
        let requests = requests(3 * scale.operations, tail, plan.seed);

        let larder =
            larder_engine::Cache::builder().weight(CAPACITY, |_: &u64, weight: &u64| *weight).build()?;
        let insert = |key, weight| _ = larder.insert(key, weight);
        let name = Larder::<u64, u64>::NAME;
        findings.figures.extend(hits(workload, name, &requests, |key| larder.get(&key).is_some(), insert));

        let quick = QuickCache::<u64, u64, ByValue>::with_weight(EXPECTED_ENTRIES, CAPACITY).0;
        let insert = |key, weight| quick.insert(key, weight);
        let name = QuickCache::<u64, u64>::NAME;
        findings.figures.extend(hits(workload, name, &requests, |key| quick.get(&key).is_some(), insert));

        let moka = moka::sync::Cache::builder()
            .max_capacity(CAPACITY)
            .weigher(|_: &u64, weight: &u64| *weight as u32);
        let moka = moka.build_with_hasher(Hasher::default());
        let insert = |key, weight| moka.insert(key, weight);
        let name = Moka::<u64, u64>::NAME;
        findings.figures.extend(hits(workload, name, &requests, |key| moka.get(&key).is_some(), insert));
        bar.tick();
    }
    Ok(())
}

fn requests(count: usize, tail: f64, seed: u64) -> Vec<Request> {
    let mut random = SmallRng::seed_from_u64(seed);
    let request = |_| {
        let key = KEYS.powf(random.random::<f64>()) as u64;
        Request { key, weight: weight_of(key, tail) }
    };
    (0..count).map(request).collect()
}

/// The weight of a key, which is always the same.
fn weight_of(key: u64, tail: f64) -> u64 {
    let unit = SmallRng::seed_from_u64(key).random::<f64>();
    (LIGHTEST * (1.0 - unit).powf(-1.0 / tail)).min(HEAVIEST) as u64
}

/// Requests each key and inserts it after a miss; the first third is not counted.
fn hits(
    workload: &str,
    subject: &str,
    requests: &[Request],
    mut get: impl FnMut(u64) -> bool,
    mut insert: impl FnMut(u64, u64),
) -> Vec<Figure> {
    let (mut hits, mut hit_bytes) = (0, 0);
    let uncounted = requests.len() / 3;
    for (number, &Request { key, weight }) in requests.iter().enumerate() {
        let is_hit = get(key);
        if !is_hit {
            insert(key, weight);
        } else if number >= uncounted {
            hits += 1;
            hit_bytes += weight;
        }
    }
    let counted = &requests[uncounted..];
    let bytes: u64 = counted.iter().map(|request| request.weight).sum();
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
    vec![
        Value::high("hits", "%", percent(hits, counted.len() as u64)).figure(workload, subject),
        Value::high("bytes", "%", percent(hit_bytes, bytes)).figure(workload, subject),
    ]
}
