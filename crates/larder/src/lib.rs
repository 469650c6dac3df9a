//! A two-tier cache: memory in front of Redis, with fetch-through loading.
//!
//! ```
//! use larder::{Cache, View};
//! use std::time::Duration;
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let cache = Cache::builder("shop").memory_bytes(64 << 20).ttl(Duration::from_secs(300)).build()?;
//! let prices: View<str, u32> = cache.view("price");
//!
//! let price = prices.fetch("apple").load(|_| async { Ok::<_, std::convert::Infallible>(42) }).await?;
//! assert_eq!(*price, 42);
//! assert_eq!(prices.read("apple").await.as_deref(), Some(&42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Cache`] is one namespace with its tiers. A [`View`] is a typed window onto it. A *fetch* looks up memory, then
//! Redis, then runs the loader, and stores the value in both tiers. If many callers fetch one key at the same time, one of
//! them loads and the others get its value. Over Redis one of all nodes loads. The others wait for it up to
//! [`Builder::lease_wait`], and then load too.
//!
//! # The promise
//! An *invalidation* is a `delete`, `write`, `invalidate_tags`, `clear` or `delete_matched` that returned
//! [`Reach::Everywhere`].
//!
//! 1. On that node no read started afterwards returns a value loaded or written before the invalidation began.
//! 2. On other nodes the same holds for reads started more than [`Builder::max_lag`] later; a node that has lost Redis may
//!    serve memory for [`Builder::disconnected`], and no longer.
//! 3. No loader that began before it stores its result in either tier.
//!
//! [`Reach::HereAndQueued`] means that the invalidation is in effect on this node, and is queued and replayed for the
//! others. An `Err` means that nothing was done, except [`CacheError::Redis`]: then it is unknown. Over a server that lacks a
//! [`Requirement`] it is [`CacheError::Unsupported`]: this node has dropped its own entries, and nothing else was done.
//!
//! [`Cache::coherence`] shows whether the promise is in effect. [`View::fetch`] and [`View::read`] never fail because of
//! Redis: the cache serves memory, loads, counts the failure ([`Cache::stats`]) and retries. Mutations report a failure by
//! their [`Reach`], because their callers rely on other nodes.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `derive` | yes | the derives `CacheKey` and `Schema`, and the attribute [`macro@cached`] for functions |
//! | `json` | no | `Format::Json` |
//! | `messagepack` | no | `Format::MessagePack` |
//! | `tls` | no | `rediss://` addresses and `RedisTls`; the program installs a crypto provider of rustls |
//! | `tls-ring` | no | the same with ring, if the program installs no other provider |
//! | `lz4` | no | `Compression::Lz4` |
//! | `zstd` | no | `Compression::Zstd` |

mod coherence;
mod fetch;
mod handle;
mod key;
mod node;
mod policy;
mod report;
mod shared;
mod task;
#[doc(hidden)]
pub mod tier;
mod unwind;
mod value;
mod view;

pub use coherence::problem::CoherenceProblem;
pub use coherence::status::{Coherence, CoherenceMode};
pub use fetch::loader::{Always, BulkCx, LoadCx, Loaded, Loader, OrKeep};
pub use fetch::{BulkLease, BulkLeased, BulkOutcome, Fetch, FetchFuture, FetchMulti, Leased, LoadLease};
pub use handle::builder::Builder;
pub use handle::builder::options::BuilderOption;
pub use handle::cache::Cache;
#[doc(hidden)]
pub use handle::cached_fn;
pub use handle::local::LocalCache;
pub use key::{CacheKey, KeyBuf};
#[doc(no_inline)]
pub use larder_engine::stats::{HistogramSnapshot, MissCauses, TopKey};
#[doc(no_inline)]
pub use larder_engine::{Clock, ManualClock};
pub use node::entry::Validity;
pub use node::fetched::{Fetched, Source};
pub use node::ledger::Invalidation;
pub use node::listeners::RemoteInvalidation;
pub use policy::{Policy, Prefer, RefreshAhead};
pub use report::error::{BuildError, CacheError, FetchError};
pub use report::events::{Event, EventKey};
pub use report::reach::{Reach, Removal};
pub use report::stats::{CacheStats, MAX_TOP_TAGS, TierStats};
pub use shared::{
    Committed, Listening, SharedCopy, SharedFetch, SharedLease, SharedMoment, SharedReload, SharedValue,
    SharedView,
};
pub use tier::redis::RedisCredentials;
#[cfg(feature = "tls")]
pub use tier::redis::RedisTls;
pub use tier::{Primary, Requirement};
#[doc(hidden)]
pub use value::codec::stored;
pub use value::codec::{Codec, Format, Raw};
pub use value::compression::Compression;
pub use value::format::{CodecError, EncodeError, Unreadable};
pub use value::schema::Schema;
#[doc(hidden)]
pub use value::schema::mix_schema;
pub use view::raw::{Counters, RawView};
pub use view::{
    EntryInspection, HotKeys, Inspection, NoHotKeys, ReadView, Update, Updated, View, WriteOptions,
};

#[cfg(feature = "derive")]
pub use larder_derive::{CacheKey, Schema, cached};

/// The page on traces, whose example is tested here.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/telemetry.md")]
struct TelemetryPage;
