//! What took effect in a history, and which pairs of features a search has seen together: a fault between two features that
//! never met proves nothing.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A feature that took effect: its option was set, and a value or a reply shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Effect {
    /// A refresh returned the value of its loader.
    Refresh,
    /// A stale value was served, because its loader was slow.
    SoftTimeout,
    /// A loader was dropped.
    HardTimeout,
    /// A stale value was served, because its loader failed.
    Grace,
    /// A value that counts as an absence was served from memory.
    Negative,
    /// A time to live was shortened by chance.
    Jitter,
    /// A value that was fresh was loaded again, for nobody who waited.
    Ahead,
    /// A read restarted a time to live.
    Touch,
    /// A caller loaded a value itself.
    Lease,
    /// A bulk loader returned values.
    Bulk,
    Tag,
    SoftTag,
    Expire,
    /// An update has replaced a value.
    Update,
    /// A value got another time to live.
    NewTime,
    Space,
    Pattern,
    /// Bytes outside of memory were served.
    Shared,
    Raw,
    Counter,
    /// Redis did not reply.
    Lost,
    /// It replied again.
    Back,
}

impl Effect {
    const ALL: [Effect; 22] = [
        Effect::Refresh,
        Effect::SoftTimeout,
        Effect::HardTimeout,
        Effect::Grace,
        Effect::Negative,
        Effect::Jitter,
        Effect::Ahead,
        Effect::Touch,
        Effect::Lease,
        Effect::Bulk,
        Effect::Tag,
        Effect::SoftTag,
        Effect::Expire,
        Effect::Update,
        Effect::NewTime,
        Effect::Space,
        Effect::Pattern,
        Effect::Shared,
        Effect::Raw,
        Effect::Counter,
        Effect::Lost,
        Effect::Back,
    ];
}

/// The effects of one history.
#[derive(Debug, Default)]
pub(crate) struct Effects(AtomicU32);

impl Effects {
    pub(crate) fn note(&self, effect: Effect) {
        self.0.fetch_or(1 << effect as u8, Ordering::Relaxed);
    }

    pub(crate) fn note_if(&self, is_so: bool, effect: Effect) {
        if is_so {
            self.note(effect);
        }
    }

    fn has(&self, effect: Effect) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << effect as u8 != 0
    }
}

/// In how many histories each pair of features took effect.
#[derive(Debug, Default)]
pub(crate) struct Pairs([[AtomicU64; Effect::ALL.len()]; Effect::ALL.len()]);

impl Pairs {
    pub(crate) fn add(&self, effects: &Effects) {
        for (one, row) in Effect::ALL.into_iter().zip(&self.0).filter(|(one, _)| effects.has(*one)) {
            for (other, count) in Effect::ALL.into_iter().zip(row) {
                if one != other && effects.has(other) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Each pair once, with its count.
    fn counts(&self) -> impl Iterator<Item = (Effect, Effect, u64)> {
        Effect::ALL.into_iter().enumerate().flat_map(move |(row, one)| {
            let others = Effect::ALL.into_iter().enumerate().skip(row + 1);
            others.map(move |(column, other)| (one, other, self.0[row][column].load(Ordering::Relaxed)))
        })
    }

    /// The pairs that took effect together in fewer histories than this.
    pub(crate) fn rarer_than(&self, histories: u64) -> Vec<String> {
        let rare = self.counts().filter(|(.., count)| *count < histories);
        rare.map(|(one, other, count)| format!("{one:?} and {other:?}: {count}")).collect()
    }
}

/// The rarest pair.
impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rarest = self.counts().min_by_key(|(.., count)| *count);
        let (one, other, count) = rarest.expect("there are features");
        let pairs = self.counts().count();
        write!(f, "{pairs} pairs of features; the rarest, {one:?} and {other:?}, in {count} histories")
    }
}
