//! Who may have a response.

/// The requests that may get a stored response. The order is from the widest to the narrowest; the narrowest of several
/// counts.
///
/// A response without a scope is for requests without credentials: without `Authorization`, without cookies, and without
/// the fields and extensions that [`Builder::credential_fields`](crate::Builder::credential_fields) and
/// [`Builder::personal_extension`](crate::Builder::personal_extension) name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everyone: the response does not depend on who asks. Credentials of requests do not matter.
    Public,
    /// Every request that the [`gate`](crate::Builder::gate) allows. The gate is asked on each hit, so that a revoked
    /// session gets nothing more. The response must be the same for all of them. It is never served stale.
    Gated,
    /// One principal: the gate names it, and it is a part of the key. The rest is as with `Gated`, and the response may be
    /// `Cache-Control: private`. Such responses take at most a quarter of
    /// [`Builder::max_bytes`](crate::Builder::max_bytes), and the responses of one principal a hundredth. The oldest are
    /// removed first.
    Private,
}
