//! The hashes that open the API, as every database stores them.

use crate::model::token::{Scope, SecretHash};

/// The maximum number of tokens in a database. A query reads all of them.
pub(super) const MAX_TOKENS: u64 = 256;

/// The maximum number of sessions of one token; a new one ends the one that expires first.
pub(super) const MAX_SESSIONS_PER_TOKEN: u64 = 32;

/// The hash of a token or a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credential {
    pub(crate) hash: SecretHash,
    pub(crate) token_id: u64,
    pub(crate) scope: Scope,
    /// Set for sessions, in milliseconds since 1970.
    pub(crate) expires_at: Option<i64>,
}
