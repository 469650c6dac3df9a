//! The features of a response, and which of them can meet.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Feature {
    // What a response is.
    Vary,
    Public,
    Gated,
    Private,
    // How it was sent.
    Coding,
    Range,
    Head,
    Stale,
    /// Stale, after a refresh that failed.
    FailedRefresh,
    Collapsed,
    // Where it is stored.
    Shared,
    /// Redis is lost, and entries are still served.
    Disconnected,
    /// Redis is lost, and entries are not served any more.
    Lost,
    // What ended it.
    PurgeUri,
    PurgeTag,
    PurgePrefix,
    PurgeAll,
    PurgePrincipal,
    PurgeSoft,
}

use self::Feature::*;

pub(super) const FEATURES: [Feature; 19] = [
    Vary,
    Public,
    Gated,
    Private,
    Coding,
    Range,
    Head,
    Stale,
    FailedRefresh,
    Collapsed,
    Shared,
    Disconnected,
    Lost,
    PurgeUri,
    PurgeTag,
    PurgePrefix,
    PurgeAll,
    PurgePrincipal,
    PurgeSoft,
];
const SCOPES: [Feature; 3] = [Public, Gated, Private];
const PLACES: [Feature; 3] = [Shared, Disconnected, Lost];
pub(super) const HARD_PURGES: [Feature; 5] = [PurgeUri, PurgeTag, PurgePrefix, PurgeAll, PurgePrincipal];

/// Whether both can take effect on one response.
pub(super) fn can_meet(one: Feature, other: Feature) -> bool {
    let both = |list: &[Feature]| list.contains(&one) && list.contains(&other);
    let is = |first: &[Feature], second: &[Feature]| {
        (first.contains(&one) && second.contains(&other)) || (first.contains(&other) && second.contains(&one))
    };
    // A response has one scope, one place, and one end. A soft purge is none, unless the response is guarded.
    let is_exclusive = both(&SCOPES) || both(&PLACES) || both(&HARD_PURGES);
    // Those are never encoded, because of BREACH, and never stale: a refresh has no credentials.
    let is_guarded = is(&[Private], &[Coding]) || is(&[Gated, Private], &[Stale, FailedRefresh]);
    // Nothing is served after its load.
    let is_lost = is(&[Lost], &[Coding, Head, Stale, FailedRefresh])
        || is(&[Lost], &HARD_PURGES)
        || is(&[Lost], &[PurgeSoft]);
    let is_of_a_principal = is(&[PurgePrincipal], &[Public, Gated, Coding, Stale, FailedRefresh, PurgeSoft]);
    one != other && !(is_exclusive || is_guarded || is_lost || is_of_a_principal)
}
