//! The eviction policies, by their names in Redis: which keys may be evicted. The engine chooses the one among them that is.

use std::fmt;
use std::str::FromStr;

use larder_engine::Evictable;
use serde::Deserialize;

/// A bit beside the position of the policy: the snapshot is being loaded. It is there so that a write, which asks for the
/// policy, needs no other question.
pub(super) const LOADING: u8 = 0x80;
/// Another one: a running Redis is being copied, so that commands that write are refused.
pub(super) const COPYING: u8 = 0x40;
/// The bits of the position.
pub(super) const POSITION: u8 = !(LOADING | COPYING);

/// What makes room when memory is used up: `maxmemory-policy` in Redis.
///
/// The names decide which keys may be evicted. Among those, the order is that of the one policy of the engine for all
/// names, except for [`VolatileTtl`](MemoryPolicy::VolatileTtl).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
#[non_exhaustive]
pub enum MemoryPolicy {
    /// Any key.
    #[default]
    AllkeysLfu,
    /// Any key.
    AllkeysLru,
    /// Any key.
    AllkeysRandom,
    /// Keys with a deadline. Without any, commands that may need memory are refused.
    VolatileLfu,
    /// As [`VolatileLfu`](MemoryPolicy::VolatileLfu).
    VolatileLru,
    /// As [`VolatileLfu`](MemoryPolicy::VolatileLfu).
    VolatileRandom,
    /// Keys with a deadline, the nearest first.
    VolatileTtl,
    /// None: commands that may need memory are refused.
    Noeviction,
}

impl MemoryPolicy {
    /// All policies.
    pub const ALL: [MemoryPolicy; 8] = [
        MemoryPolicy::AllkeysLfu,
        MemoryPolicy::AllkeysLru,
        MemoryPolicy::AllkeysRandom,
        MemoryPolicy::VolatileLfu,
        MemoryPolicy::VolatileLru,
        MemoryPolicy::VolatileRandom,
        MemoryPolicy::VolatileTtl,
        MemoryPolicy::Noeviction,
    ];

    /// The name in Redis.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryPolicy::AllkeysLfu => "allkeys-lfu",
            MemoryPolicy::AllkeysLru => "allkeys-lru",
            MemoryPolicy::AllkeysRandom => "allkeys-random",
            MemoryPolicy::VolatileLfu => "volatile-lfu",
            MemoryPolicy::VolatileLru => "volatile-lru",
            MemoryPolicy::VolatileRandom => "volatile-random",
            MemoryPolicy::VolatileTtl => "volatile-ttl",
            MemoryPolicy::Noeviction => "noeviction",
        }
    }

    /// Whether Redis counts how often keys are used under this name.
    pub(crate) fn is_lfu(self) -> bool {
        matches!(self, MemoryPolicy::AllkeysLfu | MemoryPolicy::VolatileLfu)
    }

    pub(super) fn evictable(self) -> Evictable {
        match self {
            MemoryPolicy::AllkeysLfu | MemoryPolicy::AllkeysLru | MemoryPolicy::AllkeysRandom => {
                Evictable::All
            }
            MemoryPolicy::VolatileLfu | MemoryPolicy::VolatileLru | MemoryPolicy::VolatileRandom => {
                Evictable::Timed
            }
            MemoryPolicy::VolatileTtl => Evictable::NearestDeadline,
            MemoryPolicy::Noeviction => Evictable::Nothing,
        }
    }
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a [`MemoryPolicy`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a policy: write volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, \
     allkeys-lfu, allkeys-random or noeviction"
)]
pub struct MemoryPolicyError(String);

/// Parses the name, in upper or lower case.
///
/// ```
/// use larder_server::MemoryPolicy;
/// assert_eq!("volatile-ttl".parse(), Ok(MemoryPolicy::VolatileTtl));
/// assert!("volatile".parse::<MemoryPolicy>().is_err());
/// ```
impl FromStr for MemoryPolicy {
    type Err = MemoryPolicyError;

    fn from_str(text: &str) -> Result<Self, MemoryPolicyError> {
        let named = MemoryPolicy::ALL.into_iter().find(|policy| policy.name().eq_ignore_ascii_case(text));
        named.ok_or_else(|| MemoryPolicyError(text.to_owned()))
    }
}

impl TryFrom<String> for MemoryPolicy {
    type Error = MemoryPolicyError;

    fn try_from(text: String) -> Result<Self, MemoryPolicyError> {
        text.parse()
    }
}
