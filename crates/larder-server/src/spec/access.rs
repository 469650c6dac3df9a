//! What commands do with their keys, in the words of Redis: clients and proxies read it in `COMMAND INFO` and `COMMAND
//! GETKEYSANDFLAGS`.

use larder_resp::Args;

use super::{CommandSpec, Flags};

/// Flags of a key: whether its value is read (`RO`), changed (`RW`), replaced (`OW`) or removed (`RM`), and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(pub(crate) &'static [&'static str]);

impl Access {
    pub(crate) const READ: Access = Access(&["RO", "access"]);
    pub(crate) const EXAMINED: Access = Access(&["RO"]);
    pub(crate) const UPDATED: Access = Access(&["RW", "update"]);
    pub(crate) const READ_AND_UPDATED: Access = Access(&["RW", "access", "update"]);
    pub(crate) const READ_AND_KEPT: Access = Access(&["RW", "access"]);
    pub(crate) const INSERTED: Access = Access(&["RW", "insert"]);
    pub(crate) const READ_AND_INSERTED: Access = Access(&["RW", "access", "insert"]);
    pub(crate) const REPLACED: Access = Access(&["OW", "update"]);
    pub(crate) const CREATED: Access = Access(&["OW", "insert"]);
    pub(crate) const TAKEN: Access = Access(&["RW", "access", "delete"]);
    pub(crate) const REDUCED: Access = Access(&["RW", "delete"]);
    pub(crate) const REMOVED: Access = Access(&["RM", "delete"]);
    /// A channel of a shard, at the position of a key.
    pub(crate) const NO_KEY: Access = Access(&["not_key"]);
}

impl CommandSpec {
    /// What the command does with the key at `index` of its keys. Without a request it is the most that it may do.
    pub(crate) fn key_access(&self, index: usize, request: Option<Args<'_>>) -> Access {
        if self.is(Flags::MAY_REPLACE) && request.is_some_and(|request| !reads_former(request)) {
            return Access::REPLACED;
        }
        let usual = if self.is(Flags::READONLY) { Access::READ } else { Access::READ_AND_UPDATED };
        self.access[index.min(1)].unwrap_or(usual)
    }
}

/// Whether a `SET` returns or compares the former value.
fn reads_former(request: Args<'_>) -> bool {
    let options = request.skip(3.min(request.len()));
    options.iter().any(|option| [&b"GET"[..], b"IFEQ"].iter().any(|name| option.eq_ignore_ascii_case(name)))
}
