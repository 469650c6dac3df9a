//! What commands do with their keys, in the words of Redis: clients and proxies read it in `COMMAND INFO` and `COMMAND
//! GETKEYSANDFLAGS`.

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
