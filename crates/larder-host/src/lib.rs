//! What bindings of larder to other languages share. A binding translates calls and objects of its language, and nothing else.
//!
//! ```text
//!  threads of the host                                          threads "larder-…", one pool in each process
//!
//!  binding ── HostView::get ──► View ── hit ──────────────────► memory: HostValue, bytes and an object beside them
//!    │                            │
//!    ├── HostCache::wait(call) ───┴── polls, blocks ──────────► connections, heartbeats, leases
//!    │     and asks every 100 ms: was the host interrupted?
//!    │
//!    ├── Completions::start(token, call) ─────────────────────► the call runs
//!    │                                                             │
//!  event loop ◄──────────── one notice ────────────────────────────┤ its token and outcome
//!    └── Completions::take ◄────────── queue ◄─────────────────────┘
//! ```
//!
//! - [`HostCache`] is started in each process by its first use, with a runtime of its own, and again in a forked child.
//!   [`PerProcess`] is what else a process must make for itself.
//! - [`HostValue`] is encoded by the host before larder sees it, and decoded at a hit. [`HostCodec`] moves and checks its bytes.
//! - [`profile`] is what all languages can read: MessagePack, with bounds. Private encodings are signed ([`Signer`]).
//! - [`HostCache::open_view`], [`CallOptions`], [`lease()`], [`increment`], [`HostView::update`] and [`HostError`] are what every
//!   binding does alike.
//! - [`Waiting`] notices callers whose loaders wait for each other.
//! - [`take_logs`] is the log of larder for the logger of the host.
//! - [`HostCache::wait`] blocks a thread of the host, [`Completions`] wake its event loop.
//!
//! # What runs where
//! Loaders run in their caller: a binding calls [`lease()`], and completes or drops what it gets. So does the caller whose value
//! is due to be loaded again while it is fresh ([`hit_ahead`]): it loads, and all others go on with the value.
//! No code of the host runs on a thread of larder, except the notice of [`Completions`] and the drop of an object. A thread that
//! has the lock of an interpreter releases it before [`HostCache::wait`] and [`HostCache::close`]; no other call blocks.
//!
//! # Keys
//! The views have keys of bytes, which the binding writes by the rules of larder's keys: [`KeyParts`].

mod cache;
mod calls;
mod codec;
mod completions;
mod counters;
mod errors;
mod keys;
mod logs;
mod names;
mod options;
mod process;
pub mod profile;
mod schemas;
mod signature;
mod value;
mod views;
mod wait;

pub use cache::{HostCache, HostView, StartError};
pub use calls::{
    AheadHit, AheadLoad, Change, DueLoad, HostLeased, HostLoad, LoadError, LoadId, Sum, UpdateStep,
    UpdateTry, Waiting, hit_ahead, increment, lease, lease_ahead, lease_many, write_many,
};
pub use codec::{HostCodec, NIL, Objects, Payload, PrivateFormat};
pub use completions::{CallId, Completions, Outcome};
#[cfg(unix)]
pub use completions::{NoticeSender, NoticeSocket, notice_socket};
pub use counters::{cache_counters, tier_counters};
pub use errors::{ErrorClass, HostError};
pub use keys::KeyParts;
pub use logs::{LogLevel, LogRecord, collect_logs, take_logs};
pub use names::{NameError, mode_name};
pub use options::{CallOption, CallOptions, Spelling, TimeOption, time_options};
pub use process::PerProcess;
pub use signature::{KeyError, MIN_KEY_BYTES, SignedView, Signer};
pub use value::HostValue;
pub use views::ViewOptions;
pub use wait::{WAIT_SLICE, WaitError, wait};
