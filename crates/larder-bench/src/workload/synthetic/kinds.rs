//! The kinds of workloads: what each one requests, its parameters, and its generator.

use super::{Keys, Synthetic, Ttls};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// The help of `--synthetic`. A test compares it with the tables below.
pub(crate) const HELP: &str = "\
Requests generated from a seed instead of a trace, as KIND or KIND:NAME=VALUE,NAME=VALUE…

zipf    Popularity by rank, as the power of -skew; with the probability drift, the requested key then exchanges its
        popularity with any other key.
        keys=100000  1 to 10000000    skew=0.9  0 to 4      drift=0  0 to 1
stack   The key that was requested last but d-1 others, d with the power of -skew: the hit ratio of LRU is known.
        keys=100000  1 to 1000000     skew=1  0 to 4
loop    All keys in turn, again and again.
        keys=10000  1 to 10000000
window  Any of the neighbouring keys of a window, which moves on by drift keys with each request.
        keys=10000  1 to 10000000     drift=0.1  0 to 1
scan    As zipf, interrupted by scans of new keys that are not requested again; share is their part of all requests.
        keys=100000  1 to 10000000    skew=0.9  0 to 4      length=10000  1 to 10000000    share=0.3  0.01 to 0.99
phases  As zipf, with new keys after each length requests.
        keys=10000  1 to 10000000     skew=0.9  0 to 4      length=100000  1 to 100000000
expiry  As zipf, of values that expire after 1 to twice ttl requests: by chance, or with bound=1 the sooner the more
        popular their key is, or with bound=-1 the later.
        keys=100000  1 to 10000000    skew=0.9  0 to 4      ttl=50000  1 to 100000000      bound=0  -1 to 1

All of them: requests=1000000 (1 to 100000000) and seed=1 (0 to 4294967295).";

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// Numbers of keys without end; the same for equal parameters.
    pub(super) generate: fn(&Synthetic) -> Keys,
    /// How long values are fresh, if they expire.
    pub(super) ttl: Option<fn(&Synthetic) -> Ttls>,
}

const fn kind(
    name: &'static str,
    parameters: &'static [Parameter],
    generate: fn(&Synthetic) -> Keys,
) -> Kind {
    Kind { name, parameters, generate, ttl: None }
}

#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) default: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    /// Whether it is a whole number.
    pub(super) whole: bool,
}

const fn whole(name: &'static str, default: u32, least: u32, most: u32) -> Parameter {
    Parameter { name, default: default as f64, least: least as f64, most: most as f64, whole: true }
}

const fn number(name: &'static str, default: f64, least: f64, most: f64) -> Parameter {
    Parameter { name, default, least, most, whole: false }
}

/// The most keys: a generator needs four bytes for each.
const MOST_KEYS: u32 = 10_000_000;
/// The most keys of a stack: a request moves as many of them as its distance.
const MOST_STACKED: u32 = 1_000_000;
/// The most requests: the optimum needs sixteen bytes for each.
const MOST_REQUESTS: u32 = 100_000_000;

const fn keys(default: u32) -> Parameter {
    whole("keys", default, 1, MOST_KEYS)
}

const fn skew(default: f64) -> Parameter {
    number("skew", default, 0.0, 4.0)
}

const fn drift(default: f64) -> Parameter {
    number("drift", default, 0.0, 1.0)
}

/// The parameters of all kinds.
pub(super) const COMMON: &[Parameter] =
    &[whole("requests", 1_000_000, 1, MOST_REQUESTS), whole("seed", 1, 0, u32::MAX)];

pub(super) const KINDS: &[Kind] = &[
    kind("zipf", &[keys(100_000), skew(0.9), drift(0.0)], zipf),
    kind("stack", &[whole("keys", 100_000, 1, MOST_STACKED), skew(1.0)], stack),
    kind("loop", &[keys(10_000)], cycle),
    kind("window", &[keys(10_000), drift(0.1)], window),
    kind(
        "scan",
        &[keys(100_000), skew(0.9), whole("length", 10_000, 1, MOST_KEYS), number("share", 0.3, 0.01, 0.99)],
        scan,
    ),
    kind("phases", &[keys(10_000), skew(0.9), whole("length", 100_000, 1, MOST_REQUESTS)], phases),
    Kind {
        ttl: Some(ttls),
        ..kind(
            "expiry",
            &[
                keys(100_000),
                skew(0.9),
                whole("ttl", 50_000, 1, MOST_REQUESTS),
                number("bound", 0.0, -1.0, 1.0),
            ],
            ranks_alone,
        )
    },
];

impl Synthetic {
    fn random(&self) -> SmallRng {
        SmallRng::seed_from_u64(self.whole("seed"))
    }

    /// Ranks from 0, by the parameters `keys` and `skew`.
    fn ranks(&self) -> impl FnMut(&mut SmallRng) -> u64 + use<> {
        let ranks = Zipf::new(self.number("keys"), self.number("skew")).expect("the parameters are in range");
        move |random| ranks.sample(random) as u64 - 1
    }
}

fn zipf(spec: &Synthetic) -> Keys {
    let (mut random, mut rank, drift) = (spec.random(), spec.ranks(), spec.number("drift"));
    let mut by_rank: Vec<u32> = (0..spec.whole("keys") as u32).collect();
    Box::new(std::iter::repeat_with(move || {
        let rank = rank(&mut random) as usize;
        let key = by_rank[rank];
        if random.random::<f64>() < drift {
            let other = random.random_range(0..by_rank.len());
            by_rank.swap(rank, other);
        }
        key.into()
    }))
}

/// The number of keys up to and including the last request of a key is its stack distance (R. L. Mattson, J. Gecsei,
/// D. R. Slutz, I. L. Traiger, "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970).
fn stack(spec: &Synthetic) -> Keys {
    let (mut random, mut rank) = (spec.random(), spec.ranks());
    let mut latest_first: Vec<u32> = (0..spec.whole("keys") as u32).collect();
    Box::new(std::iter::repeat_with(move || {
        let depth = rank(&mut random) as usize;
        latest_first[..=depth].rotate_right(1);
        latest_first[0].into()
    }))
}

fn cycle(spec: &Synthetic) -> Keys {
    Box::new((0..spec.whole("keys")).cycle())
}

fn window(spec: &Synthetic) -> Keys {
    let (mut random, keys, drift) = (spec.random(), spec.whole("keys"), spec.number("drift"));
    Box::new((0u64..).map(move |n| (n as f64 * drift) as u64 + random.random_range(0..keys)))
}

fn scan(spec: &Synthetic) -> Keys {
    let (mut random, mut rank) = (spec.random(), spec.ranks());
    let (keys, length) = (spec.whole("keys"), spec.whole("length"));
    let period = (length as f64 / spec.number("share")).round() as u64;
    Box::new((0u64..).map(move |n| {
        let before_scan = period - length;
        let (round, position) = (n / period, n % period);
        match position.checked_sub(before_scan) {
            None => rank(&mut random),
            Some(scanned) => keys + round * length + scanned,
        }
    }))
}

fn phases(spec: &Synthetic) -> Keys {
    let (mut random, mut rank) = (spec.random(), spec.ranks());
    let (keys, length) = (spec.whole("keys"), spec.whole("length"));
    Box::new((0u64..).map(move |n| n / length * keys + rank(&mut random)))
}

fn ranks_alone(spec: &Synthetic) -> Keys {
    let (mut random, mut rank) = (spec.random(), spec.ranks());
    Box::new(std::iter::repeat_with(move || rank(&mut random)))
}

/// Times to live whose mean over all keys is that of the parameter.
fn ttls(spec: &Synthetic) -> Ttls {
    let (keys, most, bound) = (spec.number("keys"), 2.0 * spec.number("ttl"), spec.number("bound"));
    Box::new(move |rank| {
        let by_chance = crate::workload::keys::scrambled(rank) as f64 / u64::MAX as f64;
        let by_rank = rank as f64 / keys;
        let share = match bound {
            0.0.. => bound * by_rank + (1.0 - bound) * by_chance,
            _ => -bound * (1.0 - by_rank) + (1.0 + bound) * by_chance,
        };
        (share * most).max(1.0) as u32
    })
}
