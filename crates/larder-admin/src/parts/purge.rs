//! Targets of a purge, and the trait of the parts that can be purged.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;

/// The target of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// All entries with this tag.
    Tag(String),
    /// One resource.
    Uri(String),
    /// All resources whose URI begins with this.
    Prefix(String),
    /// All responses that are private to this principal.
    Principal(String),
    /// All entries.
    All,
}

/// The kind of a [`Target`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetKind {
    /// [`Target::Tag`].
    Tag,
    /// [`Target::Uri`].
    Uri,
    /// [`Target::Prefix`].
    Prefix,
    /// [`Target::Principal`].
    Principal,
    /// [`Target::All`].
    All,
}

impl TargetKind {
    /// All kinds, in the order in which the dashboard offers them.
    pub const EVERY: &'static [TargetKind] =
        &[TargetKind::Tag, TargetKind::Uri, TargetKind::Prefix, TargetKind::Principal, TargetKind::All];

    /// The name of the kind in JSON and the dashboard.
    pub const fn as_str(self) -> &'static str {
        match self {
            TargetKind::Tag => "tag",
            TargetKind::Uri => "uri",
            TargetKind::Prefix => "prefix",
            TargetKind::Principal => "principal",
            TargetKind::All => "all",
        }
    }
}

/// For logs and events: `tag "products"`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tag(tag) => write!(f, "tag {tag:?}"),
            Target::Uri(uri) => write!(f, "URI {uri:?}"),
            Target::Prefix(prefix) => write!(f, "prefix {prefix:?}"),
            Target::Principal(principal) => write!(f, "principal {principal:?}"),
            Target::All => f.write_str("everything"),
        }
    }
}

/// The outcome of a purge. The error is sent to the client.
pub type PurgeFuture<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A part that can be purged.
pub trait Purger: Send + Sync {
    /// Purges. Resolves when no entry of the target is served any more.
    ///
    /// # Errors
    /// What the part cannot purge, or what failed, in one sentence.
    ///
    /// # Panics
    /// A panic is reported to the client and in the history.
    fn purge(&self, target: Target) -> PurgeFuture<'_>;

    /// Makes what a target covers stale: it may still be served while it is refreshed, or be validated, where it may be stale at
    /// all. Default: an error.
    ///
    /// # Errors
    /// As [`Purger::purge`].
    ///
    /// # Panics
    /// As [`Purger::purge`].
    fn soft_purge(&self, target: Target) -> PurgeFuture<'_> {
        Box::pin(ready(Err(format!("cannot purge {target} softly: this part has hard purges only"))))
    }

    /// Whether it has soft purges, which the dashboard offers then. Default: no.
    fn has_soft_purges(&self) -> bool {
        false
    }

    /// The kinds of targets that it can purge, which the dashboard offers. Default: all.
    fn targets(&self) -> &[TargetKind] {
        TargetKind::EVERY
    }
}
