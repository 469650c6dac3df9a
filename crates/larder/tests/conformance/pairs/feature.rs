//! The features of a value, and which of them can meet.

use std::collections::BTreeMap;

/// A feature that took effect on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    // How it was loaded.
    Refresh,
    Negative,
    Jitter,
    Bulk,
    // How it was served.
    /// Stale, while its loader was slow.
    SoftTimeout,
    /// Stale, after its loader was dropped.
    HardTimeout,
    /// Stale, after its loader failed.
    Grace,
    /// Past the time at which it would have been stale without a touch.
    Touch,
    // What made it stale.
    Expire,
    SoftTag,
    // What ended it.
    Delete,
    Tag,
    Space,
    // What had its name.
    /// Bytes of a raw view.
    Raw,
    Counter,
    // Where it was.
    /// The cache has memory only.
    NoRedis,
    /// Redis had it.
    Redis,
    /// Redis was lost, and it was served all the same.
    Disconnected,
    /// Redis was lost, and it was not served.
    Lost,
    /// It was served after Redis was back.
    Back,
}

use self::Feature::*;

pub(super) const FEATURES: [Feature; 20] = [
    Refresh,
    Negative,
    Jitter,
    Bulk,
    SoftTimeout,
    HardTimeout,
    Grace,
    Touch,
    Expire,
    SoftTag,
    Delete,
    Tag,
    Space,
    Raw,
    Counter,
    NoRedis,
    Redis,
    Disconnected,
    Lost,
    Back,
];

/// Each of them ends a value.
const ENDS: [Feature; 3] = [Delete, Tag, Space];

/// Whether two features can take effect on one value.
pub(super) fn can_meet(one: Feature, other: Feature) -> bool {
    let is = |ones: &[Feature], others: &[Feature]| {
        ones.contains(&one) && others.contains(&other) || ones.contains(&other) && others.contains(&one)
    };
    // Raw values are in Redis only.
    let has_no_redis = is(&[NoRedis], &[Raw, Redis, Disconnected, Lost, Back]);
    // What is stale already is not made stale once more.
    let both_soften = is(&[Expire], &[SoftTag]);
    one != other && !is(&ENDS, &ENDS) && !both_soften && !has_no_redis && !is(&[Disconnected], &[Lost])
}

/// How many values both features of each pair took effect on.
#[derive(Debug, Default)]
pub(super) struct Pairs(BTreeMap<(Feature, Feature), usize>);

impl Pairs {
    pub(super) fn add(&mut self, met: &[Feature]) {
        for one in met {
            for other in met.iter().filter(|other| one < other) {
                assert!(can_meet(*one, *other), "{one:?} and {other:?} cannot meet: {met:?}");
                *self.0.entry((*one, *other)).or_default() += 1;
            }
        }
    }

    /// The pairs that can meet, with their counts, the rarest first.
    pub(super) fn counts(&self) -> Vec<(usize, Feature, Feature)> {
        let pairs = FEATURES.iter().flat_map(|one| FEATURES.iter().map(move |other| (*one, *other)));
        let possible = pairs.filter(|(one, other)| one < other && can_meet(*one, *other));
        let count = |pair| self.0.get(&pair).copied().unwrap_or(0);
        let mut counts: Vec<_> = possible.map(|pair| (count(pair), pair.0, pair.1)).collect();
        counts.sort();
        counts
    }
}
