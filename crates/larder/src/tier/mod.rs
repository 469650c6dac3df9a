//! What the cache asks of a shared tier, and the tiers that there are.
//!
//! [`Tier`] is the whole language in which the protocol of [`crate::coherence`] speaks to Redis: batch first, bytes only.
//! Every exchange of the protocol is one method, and its documentation says which keys it touches in one atomic step and
//! which only in one round trip: an implementation for a cluster has to keep the first together and may spread the second.
//!
//! The tests run the same cache over a simulated tier; what a real one must guarantee is therefore written here and
//! nowhere else.

pub(crate) mod redis;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// What every method of a tier returns.
pub type TierFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TierError>> + Send + 'a>>;

/// The first bytes of what is stored under a key: magic, version, kind and id. A lease is nothing else.
pub type Head = [u8; HEAD_BYTES];

/// The length of a [`Head`].
pub const HEAD_BYTES: usize = 20;

/// A shared tier.
///
/// # Order
/// Commands of one tier object on one key take effect in the order in which their futures were first polled, also
/// across reconnects: one that ended with [`TierError::NoReply`] has taken effect before that, or takes effect before any
/// later command on the same key, or never does. No command is sent twice.
///
/// # Cancel safety
/// A dropped future leaves its command to take effect or not.
pub trait Tier: Debug + Send + Sync {
    /// What the server can do, as found when it was first reached; `None` as long as it was not.
    fn capabilities(&self) -> Option<Capabilities>;

    /// What tells apart databases that share their channels.
    fn scope(&self) -> String {
        String::new()
    }

    /// Reads the keys, and with `lease` puts a lease under each that has nothing, and reads the ledger: one round trip.
    ///
    /// Each key is one atomic step: of several tiers that look at one absent key at the same time, one gets
    /// [`KeyContent::LeaseGranted`]. Keys and ledger are not read in one step with each other.
    fn lookup<'a>(&'a self, lookup: &'a Lookup<'a>) -> TierFuture<'a, LookupReply>;

    /// Reads the heads of the keys and the stamps of tags: one round trip, no atomicity among them.
    fn read_heads<'a>(
        &'a self,
        keys: &'a [Vec<u8>],
        ledger: Option<&'a LedgerQuery<'a>>,
    ) -> TierFuture<'a, HeadsReply>;

    /// Compares the head of each key with what was seen and, if it is still that, does what follows: one atomic step for
    /// each key, one round trip where the server runs scripts. Says for each whether it was accepted.
    ///
    /// With an announcement, which must be alone, accepting and announcing are one atomic step.
    fn compare_and_set<'a>(
        &'a self,
        commits: &'a [CompareAndSet],
        announce: Option<&'a Announcement>,
    ) -> TierFuture<'a, Vec<bool>>;

    /// Changes the keys, reads the ledger and announces the changes: one atomic step for all, where the server has
    /// transactions.
    fn transact<'a>(&'a self, transaction: &'a Transaction<'a>) -> TierFuture<'a, TransactionReply>;

    /// Reads the stamps of tags from a ledger, which is begun if there is none.
    fn read_stamps<'a>(&'a self, ask: &'a LedgerQuery<'a>) -> TierFuture<'a, Stamps>;

    /// Moves the ledger's clock on by at least one and to at least `advance.at_least`, gives its members that stamp, and
    /// announces it with the clock in decimal digits behind the message. Stamps never go back. Touches the ledger only.
    ///
    /// The stamp and its announcement are one atomic step; the clock may move before.
    fn advance_ledger<'a>(&'a self, advance: &'a LedgerAdvance<'a>) -> TierFuture<'a, u64>;

    /// Adds to a counter, made with this time to live if there was none, and returns the sum.
    fn increment<'a>(&'a self, key: &'a [u8], by: i64, ttl: Duration) -> TierFuture<'a, i64>;

    /// One step of a walk over the keys that begin with `prefix` and match `pattern` behind it, a glob. The cursor 0
    /// begins and ends the walk. A key that is there all the time is returned at least once.
    fn scan<'a>(
        &'a self,
        cursor: u64,
        prefix: &'a [u8],
        pattern: &'a str,
    ) -> TierFuture<'a, (u64, Vec<Vec<u8>>)>;

    /// Opens a connection that hears announcements, and with `options.tracking` of every write under a prefix, and hands
    /// them to `handler` in their order. [`PushHandler::handle`] runs to its end before a beat that was answered behind the push
    /// returns.
    fn subscribe<'a>(
        &'a self,
        options: &'a SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> TierFuture<'a, Box<dyn Subscription>>;

    /// From now on the server with this identity may be talked to. Until then every method but [`Tier::subscribe`] fails
    /// with [`TierError::ServerChanged`] if it reaches a server whose identity is not the one accepted last; the first one
    /// needs no acceptance.
    fn accept(&self, server: &ServerId);
}

/// An open listening connection. Dropping it closes it.
pub trait Subscription: Debug + Send + Sync {
    /// Which server this is.
    fn server(&self) -> &ServerId;

    /// Asks for a sign of life. Fails if the server is no longer a primary. With announcements an answer proves that
    /// everything the server did before it was asked has been heard. Tracking is later by one beat: an answer proves
    /// what was done before the beat before.
    fn heartbeat(&self) -> TierFuture<'_, ()>;
}

/// Hears what a [`Link`] brings. Called in order, never at the same time, from a place where blocking is forbidden.
pub trait PushHandler: Send + Sync {
    /// Something happened.
    fn handle(&self, push: Push<'_>);
}

/// What a [`Link`] brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push<'a> {
    /// An announcement on the channel.
    Announcement(&'a [u8]),
    /// Somebody, maybe this node, changed these keys: by tracking.
    KeysWritten(Vec<&'a [u8]>),
    /// Somebody emptied the server: by tracking.
    Flushed,
    /// The connection is gone. Nothing follows.
    Closed,
}

/// One running server: another run, and another copy, has another identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub String);

/// What a server can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It runs scripts, so a compare and its consequence are one round trip.
    pub scripts: bool,
    /// It has transactions, with `WATCH`.
    pub transactions: bool,
    /// It has publish and subscribe over RESP3.
    pub announcements: bool,
    /// It has sorted sets, so there can be a ledger.
    pub ledger: bool,
}

impl Capabilities {
    /// Everything that coherence between nodes needs. Scripts are a matter of speed only.
    pub fn coherent(&self) -> bool {
        self.transactions && self.announcements && self.ledger
    }
}

/// What [`Tier::lookup`] is asked.
#[derive(Clone, Debug)]
pub struct Lookup<'a> {
    /// The keys.
    pub keys: &'a [Vec<u8>],
    /// The leases to put where nothing is, one for each key, and how long they live.
    pub lease: Option<(&'a [Head], Duration)>,
    /// The ledger to read, if there is one.
    pub ledger: Option<LedgerQuery<'a>>,
}

/// What [`Tier::lookup`] found.
#[derive(Clone, Debug)]
pub struct LookupReply {
    /// For each key, in order.
    pub keys: Vec<KeyContent>,
    /// The ledger as it was before this look ended, if it was asked for.
    pub stamps: Option<Stamps>,
}

/// What is under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyContent {
    /// Nothing.
    Absent,
    /// Nothing was, now the asker's lease is.
    LeaseGranted,
    /// Something: a value, a lease of somebody else, or bytes of another program.
    Bytes {
        /// What is stored.
        bytes: Vec<u8>,
        /// How long it is kept there, by the server's clock; `None` for ever.
        remaining_ttl: Option<Duration>,
    },
}

/// What [`Tier::read_heads`] found.
#[derive(Clone, Debug)]
pub struct HeadsReply {
    /// For each key, in order, what it begins with; shorter than a [`Head`] if there is less, empty if there is nothing.
    pub heads: Vec<Vec<u8>>,
    /// The ledger, if it was asked for.
    pub stamps: Option<Stamps>,
}

/// A compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareAndSet {
    /// Under which key.
    pub key: Vec<u8>,
    /// What must still be there: its first bytes, at most as many as a [`Head`] has; empty if nothing was.
    pub expected: Vec<u8>,
    /// What is done then.
    pub action: CasAction,
}

/// What a [`Commit`] does if it is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CasAction {
    /// Stores bytes for a time.
    Put(Vec<u8>, Duration),
    /// Leaves what is there for another time.
    Touch(Duration),
    /// Removes it.
    Remove,
}

impl CasAction {
    /// Stores, or removes if there is nothing to store.
    pub(crate) fn put_or_remove(put: Option<(Vec<u8>, Duration)>) -> Self {
        put.map_or(CasAction::Remove, |(bytes, ttl)| CasAction::Put(bytes, ttl))
    }
}

/// One unconditional change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Removes a key.
    Remove(Vec<u8>),
    /// Removes a key and returns what was there.
    Take(Vec<u8>),
    /// Stores bytes for a time.
    Put(Vec<u8>, Vec<u8>, Duration),
}

impl Operation {
    /// The key that changes.
    pub fn key(&self) -> &[u8] {
        match self {
            Operation::Remove(key) | Operation::Take(key) | Operation::Put(key, ..) => key,
        }
    }
}

/// What [`Tier::transact`] is asked.
#[derive(Clone, Debug)]
pub struct Transaction<'a> {
    /// What changes, in this order.
    pub operations: &'a [Operation],
    /// The ledger to read, if there is one.
    pub ledger: Option<LedgerQuery<'a>>,
    /// What everybody is told.
    pub announce: Option<&'a Announcement>,
}

/// What [`Tier::transact`] did.
#[derive(Clone, Debug)]
pub struct TransactionReply {
    /// For each change, in order.
    pub results: Vec<OperationResult>,
    /// The ledger as it was when the keys had changed, if it was asked for.
    pub stamps: Option<Stamps>,
}

/// What a [`Change`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// What was removed began so; empty if nothing was there.
    Removed(Vec<u8>),
    /// What was taken, or [`KeyContent::Absent`].
    Taken(KeyContent),
    /// The bytes are stored.
    Stored,
}

/// A message to every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The channel.
    pub channel: Vec<u8>,
    /// The message.
    pub message: Vec<u8>,
}

/// Which part of which ledger to read.
#[derive(Clone, Debug)]
pub struct LedgerQuery<'a> {
    /// The key of the ledger.
    pub key: &'a [u8],
    /// The members whose stamps are wanted.
    pub members: &'a [Vec<u8>],
}

/// The state of a ledger. Clocks are microseconds since 1970 at least, and at most 2^53.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The clock: the stamp that a load which begins now is given.
    pub clock: u64,
    /// Nothing with an older stamp is valid.
    pub floor: u64,
    /// For each member asked for, in order, its stamp; `None` if it has none, which is as old as the floor.
    pub members: Vec<Option<u64>>,
}

impl Stamps {
    /// When the last of the members asked for was stamped, or everything was: what is older than that is not valid.
    pub(crate) fn newest(&self) -> u64 {
        self.members.iter().flatten().copied().fold(self.floor, u64::max)
    }
}

/// What [`Tier::advance_ledger`] is asked.
#[derive(Clone, Debug)]
pub struct LedgerAdvance<'a> {
    /// The key of the ledger.
    pub key: &'a [u8],
    /// The members that get the new stamp.
    pub members: &'a [Vec<u8>],
    /// Whether the floor gets it too, which makes everything older invalid.
    pub floor: bool,
    /// The clock is moved at least here.
    pub at_least: u64,
    /// Announced with the new clock behind it.
    pub announce: &'a Announcement,
}

/// What to listen to.
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// The channel of the announcements.
    pub channel: Vec<u8>,
    /// With `Some`, also every write to a key with this prefix.
    pub tracking: Option<Vec<u8>>,
}

/// Why a tier did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TierError {
    /// No answer came: not connected, disconnected, or too late. What was asked may have been done.
    #[error("{0}")]
    NoReply(String),
    /// The server answered that it does not do this. It did not.
    #[error("{0}")]
    Refused(String),
    /// This is not the server that was accepted: it restarted, or another has taken its place. Nothing was sent to it.
    #[error("another server answers at this address")]
    ServerChanged(ServerId),
}
