//! Responses that replicas share through Redis. Each replica holds a body once, in its own store, with a copy that tells
//! whether other replicas still allow it; crate `larder` has the protocol.
//!
//! ```text
//! hit:  store ─► entry ─► its copy: valid ─► answer                  unknown ─► compare with Redis first
//! miss: ticket of this replica ─► Redis: found ─► store, answer all
//!                                   └ lease ─► handler ─► Redis ─► store, answer all
//! ```
//!
//! - [`replicas`]: the judgement of other replicas, or `alone` without the feature `shared`.
//! - [`codec`]: entries as bytes. `times`: their times. [`tags`]: the tags by which entries are purged.

#[cfg(not(feature = "shared"))]
mod alone;
#[cfg(any(feature = "disk", feature = "shared"))]
pub(crate) mod codec;
#[cfg(feature = "shared")]
pub(crate) mod replicas;
#[cfg(feature = "shared")]
pub(crate) mod tags;
#[cfg(feature = "shared")]
pub(crate) mod times;

#[cfg(not(feature = "shared"))]
pub(crate) use alone::{AskedAt, SharedStore};
#[cfg(feature = "shared")]
pub(crate) use replicas::{AskedAt, SharedStore};

use crate::key::Key;
use crate::stored::entry::StoreValue;

/// What other replicas say of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Usable,
    /// It must be compared with Redis first.
    #[cfg_attr(not(feature = "shared"), expect(dead_code, reason = "only other replicas can be asked"))]
    Unknown,
    Dead,
}

/// An entry that must be compared with Redis before its next use.
#[derive(Debug)]
pub(crate) struct Unverified {
    pub(crate) key: Key,
    pub(crate) value: StoreValue,
}

/// When a request has asked that has waited since for the fill of another one. The default: it has not waited.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    #[cfg_attr(not(feature = "shared"), expect(dead_code, reason = "no other replica knows more"))]
    pub(crate) at: Option<AskedAt>,
}

/// Entries that a request may get although this replica cannot prove now that they are valid.
#[derive(Clone, Copy, Default)]
#[cfg_attr(not(feature = "shared"), expect(dead_code, reason = "a cache that shares nothing needs no proof"))]
pub(crate) struct Permits<'a> {
    /// They were compared with Redis for it.
    pub(crate) verified: &'a [StoreValue],
    /// Those of fills that it could have followed.
    pub(crate) asked: Asked,
}
