//! The interface to the tier behind memory, and its implementation for Redis.
//!
//! [`Tier`] has all requests of the coherence protocol: batches of keys and bytes. Its documentation says for each
//! request which keys are one atomic step and which are only one round trip: an implementation for a cluster must keep
//! the former together and may distribute the latter.
//!
//! The tests run the cache over a simulated tier too. So this file has all guarantees that a tier must give.

pub(crate) mod breaker;
pub(crate) mod redis;

pub use redis::network::{Connection, Network, redis_over};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The result of every method of a tier.
pub type TierFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TierError>> + Send + 'a>>;

/// The first bytes under a key: magic, version, kind and id. A lease has no others, or the head of its successor.
pub type Head = [u8; HEAD_BYTES];

/// The maximum number of advances of a lost ledger that a node may not know: each invalidation advances its clock by one. A
/// new ledger starts later by this number, and by a random part of it: if two nodes with the same knowledge make a ledger
/// each, on different servers, these must not have equal clocks for different states. So does one that goes on where another
/// server had it.
pub const UNKNOWN_ADVANCES: u64 = 1_000_000;

/// The most keys of one command, of one mutation, and the most members of one advance of the ledger: no request and no
/// reply grows without bound.
pub(crate) const BATCH: usize = 500;

/// The length of a [`Head`].
pub const HEAD_BYTES: usize = 20;

/// The position of the deadline of a value, after its head: 8 bytes, little-endian, in milliseconds as in [`Expiry::At`].
pub const DEADLINE_AT: usize = HEAD_BYTES;

/// A tier that several nodes share.
///
/// # Order
/// Commands of one tier object on one key take effect in the order in which their futures were first polled, also
/// across reconnects. A command that ended with [`TierError::NoReply`] or [`TierError::Disconnected`] took effect before
/// that, or takes effect before any later command on the same key, or never. Only reads and removals are sent twice, if
/// their connection is closed. A removal that is sent again may come after a later command: it may remove a newer value.
///
/// # Cancel safety
/// The command of a dropped future may or may not take effect.
pub trait Tier: Debug + Send + Sync {
    /// A name that separates databases that share their channels.
    fn database_name(&self) -> String {
        String::new()
    }

    /// Reads the keys, puts a lease under each absent key if there is a `lease`, and reads the ledger: one round trip, or
    /// one for each 500 keys.
    ///
    /// Each key is one atomic step: one of several concurrent lookups of an absent key gets [`KeyContent::LeaseGranted`].
    /// The keys and the ledger are not one step.
    fn lookup<'a>(&'a self, lookup: &'a Lookup<'a>) -> TierFuture<'a, LookupReply>;

    /// Reads the heads of the keys, and stamps of the ledger: one round trip, not one step.
    fn read_heads<'a>(
        &'a self,
        keys: &'a [Vec<u8>],
        ledger: Option<&'a LedgerQuery<'a>>,
    ) -> TierFuture<'a, HeadsReply>;

    /// Compares the head of each key with the expected one and, if they are equal, does the action: one atomic step for
    /// each key, one round trip. Returns for each whether it was accepted.
    ///
    /// With an announcement there must be one key. Its action and the announcement are one atomic step.
    fn compare_and_set<'a>(
        &'a self,
        requests: &'a [CompareAndSet],
        announce: Option<&'a Announcement>,
    ) -> TierFuture<'a, Vec<bool>>;

    /// Does the operations, reads the ledger, then announces: one round trip. Each operation is one atomic step, and the
    /// announcement comes after all of them. A mutation that fails may have done some of it.
    fn mutate<'a>(&'a self, mutation: &'a Mutation<'a>) -> TierFuture<'a, MutationReply>;

    /// The clocks of the servers.
    fn time(&self) -> TierFuture<'_, ServerTime>;

    /// Reads stamps of a ledger. Creates the ledger if there is none.
    fn read_stamps<'a>(&'a self, query: &'a LedgerQuery<'a>) -> TierFuture<'a, Stamps>;

    /// Advances the ledger's clock by at least one and to at least `advance.at_least`, or creates the ledger as
    /// [`LedgerQuery::at_least`] says, stamps the members with it, and
    /// announces it with the clock in decimal digits after the message. Stamps never decrease. The server's time in
    /// milliseconds is written beside each soft stamp, under its [`time_member`]. Writes the ledger only.
    ///
    /// The stamps and the announcement are one atomic step. The clock may advance before it, but not beyond values that the
    /// floor does not refuse: see [`LedgerAdvance::floor_message`].
    fn advance_ledger<'a>(&'a self, advance: &'a LedgerAdvance<'a>) -> TierFuture<'a, LedgerAdvanced>;

    /// Adds to a counter and returns the sum. A new counter gets this time to live.
    fn increment<'a>(&'a self, key: &'a [u8], by: i64, ttl: Duration) -> TierFuture<'a, i64>;

    /// Starts a scan of the keys that match a glob.
    fn scan<'a>(&'a self, glob: &'a [u8]) -> Box<dyn Scan + 'a>;

    /// Opens a connection for heartbeats, which receives announcements, and with `options.tracking` every write under a
    /// prefix. The handler gets them in their order. [`PushHandler::handle`] returns before a heartbeat whose reply
    /// follows the push does.
    ///
    /// Fails with [`TierError::Unsupported`] if the server lacks a [`Requirement`].
    fn subscribe<'a>(
        &'a self,
        options: &'a SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> TierFuture<'a, Box<dyn Subscription>>;

    /// The primaries of a cluster. None if there is one server.
    fn primaries(&self) -> Vec<Primary> {
        Vec::new()
    }

    /// Closes all connections. Afterwards every method fails.
    fn close(&self) {}

    /// Accepts the server with this identity, which is supported. Every method but [`Tier::subscribe`] fails with
    /// [`TierError::ServerChanged`] if it reaches another server than the one accepted last, and with
    /// [`TierError::NoReply`] before the first acceptance.
    fn accept(&self, server: &ServerId);

    /// The server that was accepted last.
    fn accepted(&self) -> Option<ServerId>;
}

/// A scan. A key that exists during the whole scan is returned at least once.
pub trait Scan: Send {
    /// The keys of the next step, maybe none; `None` once the scan has ended.
    fn next(&mut self) -> TierFuture<'_, Option<Vec<Vec<u8>>>>;
}

/// An open subscription. Dropping it closes its connection.
pub trait Subscription: Debug + Send + Sync {
    /// Which server this is.
    fn server(&self) -> &ServerId;

    /// Whether it replaces the former one, maybe with an older copy of its data. Not so if others have only joined it.
    fn replaces(&self, former: &ServerId) -> bool {
        self.server() != former
    }

    /// Whether the server may evict the ledger when it is full, as far as it tells.
    fn may_evict_ledger(&self) -> bool {
        false
    }

    /// Sends a heartbeat that also reads or stores a marker. Fails if the server is no longer a primary. A reply that
    /// has [no doubt](Pulse::doubt) proves that every announcement before the heartbeat was handled. Tracked writes come
    /// after the reply: it proves that every write before the previous heartbeat was handled.
    fn heartbeat<'a>(&'a self, marker: Marker<'a>) -> TierFuture<'a, Pulse>;
}

/// The action of a heartbeat on the markers. Each server has a marker of its own under a key with its identity. So a node
/// that reaches a restored server first does not replace the marker that shows the age of the copy to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker<'a> {
    /// Nothing.
    Ignore,
    /// Reads the marker of this server, which may be the former one.
    Read(&'a ServerId),
    /// Stores a marker of the server that the heartbeat reaches: its clock at an earlier heartbeat, in microseconds
    /// since 1970. It is kept for an hour.
    Store(u64),
}

/// The reply to a heartbeat. Values that the server does not report are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Why it proves nothing. `None` if it does: the server took the marker, or refused it for a reason of its own, such as
    /// being full, and whoever decides which server is the primary confirms this one. A primary that another one replaces, or
    /// that has lost its replicas or the other primaries, refuses writes before it stops answering reads.
    pub doubt: Option<String>,
    /// The clocks of the servers.
    pub time: Option<ServerTime>,
    /// The marker that was read: the former server's clock at some heartbeat. In a server that was restored from an older
    /// copy, it shows the age of the copy.
    pub marker: Option<u64>,
    /// The ledger's clock.
    pub ledger_clock: Option<u64>,
}

/// A primary of a cluster, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Primary {
    /// Host and port.
    pub address: String,
    /// How many slots it owns. None if it only receives some as yet.
    pub slots: usize,
    /// The time since the last proof that none of its announcements was missed. `None` if there was none yet.
    pub proof_age: Option<Duration>,
    /// How often it has sent this node to another server, because a slot moves or has moved.
    pub redirects: u64,
}

/// What the clocks of the servers showed at some moment between a request and its reply, in microseconds since 1970. One
/// server has one clock; those of a cluster differ a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTime {
    /// The clock that is behind.
    pub earliest: u64,
    /// The clock that is ahead.
    pub latest: u64,
}

impl ServerTime {
    /// That of both.
    pub(crate) fn and(self, other: ServerTime) -> ServerTime {
        ServerTime { earliest: self.earliest.min(other.earliest), latest: self.latest.max(other.latest) }
    }
}

impl From<u64> for ServerTime {
    fn from(micros: u64) -> Self {
        ServerTime { earliest: micros, latest: micros }
    }
}

/// Handles the pushes of a [`Subscription`]. Called in order and never concurrently. It must not block.
pub trait PushHandler: Send + Sync {
    /// Handles one push.
    fn handle(&self, push: Push<'_>);
}

/// A push of a [`Subscription`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push<'a> {
    /// An announcement on the channel.
    Announcement(&'a [u8]),
    /// By tracking: these keys were written, maybe by this node.
    KeysWritten(Vec<&'a [u8]>),
    /// By tracking: the server was emptied.
    Flushed,
    /// The connection is closed. No push follows.
    Closed,
}

/// The identity of a running server, and of its data. A restarted server and a replica have others, and so has a server that
/// was a replica in between.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub String);

/// What coherent nodes require of a server, and of their user's permissions there. It displays as what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Requirement {
    /// One server at the address, which is no sentinel and no part of a cluster.
    #[error("it is part of a cluster, or a sentinel; use redis+cluster:// or redis+sentinel://")]
    OneServer,
    /// A cluster at an address with `redis+cluster://`.
    #[error("it is no part of a cluster; use redis:// for a single server")]
    Cluster,
    /// `EVAL` and `EVALSHA`: a key is compared and changed in one step.
    #[error("EVAL or EVALSHA is unknown, or refused to this user")]
    Scripts,
    /// `PUBLISH` and `SUBSCRIBE` over RESP3: nodes announce their changes.
    #[error("PUBLISH or SUBSCRIBE is unknown, or refused to this user")]
    PublishSubscribe,
    /// `ZMSCORE`: the ledger of tags is a sorted set.
    #[error("ZMSCORE is unknown, or refused to this user")]
    SortedSets,
    /// `CLIENT TRACKING`, if the cache has [`foreign_writers`](crate::Builder::foreign_writers).
    #[error("CLIENT TRACKING is unknown, or refused to this user; foreign_writers needs it")]
    Tracking,
}

/// The request of [`Tier::lookup`].
#[derive(Clone, Debug)]
pub struct Lookup<'a> {
    /// The keys.
    pub keys: &'a [Vec<u8>],
    /// The leases for absent keys, one for each key, and their lifetime.
    pub lease: Option<(&'a [Head], Duration)>,
    /// The part of the ledger to read.
    pub ledger: Option<LedgerQuery<'a>>,
}

/// The reply of [`Tier::lookup`].
#[derive(Clone, Debug)]
pub struct LookupReply {
    /// The content of each key, in order.
    pub keys: Vec<KeyContent>,
    /// The stamps at some moment of the lookup, if they were requested.
    pub stamps: Option<Stamps>,
}

/// The content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyContent {
    /// Nothing.
    Absent,
    /// There was nothing. Now there is the lease of the lookup.
    LeaseGranted,
    /// A value, a lease of another load, or bytes of another program.
    Bytes(Vec<u8>),
}

/// The reply of [`Tier::read_heads`].
#[derive(Clone, Debug)]
pub struct HeadsReply {
    /// The first bytes of each key, in order; fewer than a [`Head`] if there are no more, none if the key is absent or
    /// holds no bytes.
    pub heads: Vec<Vec<u8>>,
    /// The stamps, if they were requested.
    pub stamps: Option<Stamps>,
}

/// A compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareAndSet {
    /// The key.
    pub key: Vec<u8>,
    /// The expected first bytes, at most as many as a [`Head`] has; none for an absent key.
    pub expected: Vec<u8>,
    /// The action if they are equal.
    pub action: CasAction,
}

/// When a key leaves the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// After this time.
    After(Duration),
    /// When the server's clock shows more than these milliseconds since 1970.
    At(u64),
}

/// The action of a [`CompareAndSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CasAction {
    /// Stores bytes until then.
    Put(Vec<u8>, Expiry),
    /// Sets another time to live of a lease.
    Touch(Duration),
    /// Sets another deadline of a value, in its bytes too: the number of [`Expiry::At`] at [`DEADLINE_AT`].
    Renew(u64),
    /// Removes the key.
    Remove,
    /// Ends a lease: removes the key, or leaves the successor that follows the lease in its bytes, for this time.
    Release(Duration),
}

impl CasAction {
    /// Puts, or removes if there is nothing to put.
    pub(crate) fn put_or_remove(put: Option<(Vec<u8>, Expiry)>) -> Self {
        put.map_or(CasAction::Remove, |(bytes, expiry)| CasAction::Put(bytes, expiry))
    }
}

/// An unconditional operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Removes a key.
    Remove(Vec<u8>),
    /// Removes a key and returns its content.
    Take(Vec<u8>),
    /// Stores bytes until then.
    Put(Vec<u8>, Vec<u8>, Expiry),
}

impl Operation {
    /// The key.
    pub fn key(&self) -> &[u8] {
        match self {
            Operation::Remove(key) | Operation::Take(key) | Operation::Put(key, ..) => key,
        }
    }
}

/// The request of [`Tier::mutate`].
#[derive(Clone, Debug)]
pub struct Mutation<'a> {
    /// The operations, in this order.
    pub operations: &'a [Operation],
    /// The part of the ledger to read.
    pub ledger: Option<LedgerQuery<'a>>,
    /// The announcement to all nodes.
    pub announce: Option<&'a Announcement>,
}

/// The reply of [`Tier::mutate`].
#[derive(Clone, Debug)]
pub struct MutationReply {
    /// The result of each operation, in order.
    pub results: Vec<OperationResult>,
    /// The stamps after the operations, if they were requested.
    pub stamps: Option<Stamps>,
}

/// The result of an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// The first bytes of the removed content, none if it was no string; `None` if the key was absent.
    Removed(Option<Vec<u8>>),
    /// The taken content, or [`KeyContent::Absent`].
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

/// The part of a ledger to read.
#[derive(Clone, Debug)]
pub struct LedgerQuery<'a> {
    /// The key of the ledger.
    pub key: &'a [u8],
    /// The highest clock that this node knows. If the ledger must be created, its clock and its floor are later by
    /// [`UNKNOWN_ADVANCES`] and a random part of it: the server's clock alone may have gone back.
    pub at_least: u64,
    /// The members whose stamps are read.
    pub members: &'a [Vec<u8>],
}

/// The prefix of a member with the time of a soft stamp.
const TIME_OF: u8 = b'@';

/// The member with the time of a soft stamp; `None` for any other member.
pub fn time_member(member: &[u8]) -> Option<Vec<u8>> {
    let is_soft = member == b"expire" || member.first() == Some(&b'~');
    is_soft.then(|| [&[TIME_OF], member].concat())
}

/// The soft member of which this one has the time.
pub(crate) fn timed_member(member: &[u8]) -> Option<&[u8]> {
    member.strip_prefix(&[TIME_OF])
}

/// Stamps of a ledger. A clock is at least the microseconds since 1970, and at most 2^53.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The clock: a load that starts now gets it.
    pub clock: u64,
    /// No entry with an older clock is valid.
    pub floor: u64,
    /// No entry with a tag and an older clock is valid, unless the ledger has a stamp of the tag.
    pub tag_floor: u64,
    /// The stamp of each member of the query, in order. `None` counts as the floor; for a tag it counts as the floor of
    /// tags if that is higher. A [`time_member`] has a time and not a stamp.
    pub members: Vec<Option<u64>>,
}

impl Stamps {
    /// The newest of the stamps of these members of the query. No older entry is valid.
    pub(crate) fn newest(&self, members: &[Vec<u8>]) -> u64 {
        let stamps = members.iter().zip(&self.members).filter(|(member, _)| timed_member(member).is_none());
        stamps.map(|(member, stamp)| self.of(member, *stamp)).fold(self.floor, u64::max)
    }

    /// What the stamp of a member in the reply stands for.
    pub(crate) fn of(&self, member: &[u8], stamp: Option<u64>) -> u64 {
        let is_tag = matches!(member.first(), Some(b'!' | b'~'));
        stamp.unwrap_or(if is_tag { self.floor.max(self.tag_floor) } else { self.floor })
    }
}

/// The request of [`Tier::advance_ledger`].
#[derive(Clone, Debug)]
pub struct LedgerAdvance<'a> {
    /// The key of the ledger.
    pub key: &'a [u8],
    /// The members that get the new stamp.
    pub members: &'a [Vec<u8>],
    /// Whether the floor gets the new stamp too, which invalidates all older entries.
    pub floor: bool,
    /// The lowest new clock: the highest one that this node knows. If the ledger was advanced last on another server of a
    /// cluster, its clock advances by [`UNKNOWN_ADVANCES`] and a random part of it: the server may lack advances, and values
    /// elsewhere have their clocks.
    pub at_least: u64,
    /// The announcement of a new floor, with the clock behind it, for a ledger with a lower clock. With `Some` such a
    /// ledger is another one than this node knew: once its clock has reached the clocks of old values, these would seem to
    /// belong to it. So its clock and its floor advance past them, as in a new ledger, and this message is announced first.
    /// With `None` such a ledger is an older copy, and its missing invalidations are repeated.
    pub floor_message: Option<&'a [u8]>,
    /// The announcement. The new clock is appended to its message.
    pub announce: &'a Announcement,
}

/// The reply of [`Tier::advance_ledger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerAdvanced {
    /// The new clock.
    pub clock: u64,
    /// Whether it was [another ledger](LedgerAdvance::floor_message), which invalidates everything.
    pub is_other: bool,
}

/// The options of a subscription.
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// An announcement without keys. Its channel is subscribed; its publication shows that this user may publish there.
    pub announcement: Announcement,
    /// The key of the ledger.
    pub ledger: Vec<u8>,
    /// The prefix of the keys of the markers. The identity of a server follows.
    pub marker: Vec<u8>,
    /// With `Some`, also every write to a key with this prefix.
    pub tracking: Option<Vec<u8>>,
    /// How long after a heartbeat that confirms the server it may be read, if somebody must confirm it.
    pub max_lag: Duration,
}

impl SubscribeOptions {
    /// The key of a server's marker.
    pub fn marker_of(&self, server: &ServerId) -> Vec<u8> {
        [&self.marker, server.0.as_bytes()].concat()
    }
}

/// Why a request to a tier failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TierError {
    /// There is no reply: the server cannot be reached, or took too long. The request may have been executed.
    #[error("{0}")]
    NoReply(String),
    /// One of several servers gives no reply, or too few replicas do; the others may. The request may have been executed.
    #[error("{0}")]
    PartLost(String),
    /// The connection was closed before the reply. The request may have been executed. The next request opens another
    /// connection.
    #[error("{0}")]
    Disconnected(String),
    /// The server cannot be used: it refuses the user, or its certificate is not trusted.
    #[error("{0}")]
    Unusable(String),
    /// The server does not meet this requirement.
    #[error("the server is not supported: {0}")]
    Unsupported(Requirement),
    /// The server refused the request and did not execute it.
    #[error("{0}")]
    Refused(String),
    /// The server is not the accepted one: it restarted, or another one has its address. No request was sent to it.
    #[error("another server answers at this address")]
    ServerChanged(ServerId),
}
