//! A purge, and what is kept of purges beyond the process: each before it takes effect, and from time to time all that are known.
//! With the feature `disk` a folder has such a journal, so that what was purged before a restart stays purged.

/// The hash of a tag or of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PurgeKey(pub(crate) u64);

/// What a purge covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purge {
    /// A tag or a URI.
    Key(PurgeKey),
    /// The resources of an origin (see [`write_origin`](crate::key::write_origin)) whose path starts with `path`.
    Prefix { origin: Box<[u8]>, path: Box<[u8]> },
    /// Everything.
    All,
}

/// What is known of the purges up to a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PurgeHistory {
    /// The number of the last purge.
    pub(crate) number: u64,
    /// Every tag and URI counts as purged by the purge with this number.
    pub(crate) last_dropped_key: u64,
    /// Everything counts as purged by the purge with this number.
    pub(crate) last_dropped_prefix: u64,
    /// Purges with their numbers: in ascending order, those of keys and the others each.
    pub(crate) purges: Vec<(u64, Purge)>,
}

#[cfg(feature = "disk")]
impl PurgeHistory {
    /// A history in which everything was purged up to a number, and no details are known.
    pub(crate) fn purged_up_to(number: u64) -> PurgeHistory {
        PurgeHistory { number, last_dropped_key: number, last_dropped_prefix: number, purges: Vec::new() }
    }
}

/// A journal of purges. Its methods are called under the lock that orders purges.
#[cfg(feature = "disk")]
pub(crate) trait PurgeJournal: std::fmt::Debug + Send + Sync {
    /// Keeps a purge, which takes effect after this has returned. Returns whether the journal has become long, and is to be
    /// replaced.
    fn append(&self, number: u64, purge: &Purge) -> bool;

    /// Replaces all that the journal has.
    fn replace(&self, history: &PurgeHistory);
}
