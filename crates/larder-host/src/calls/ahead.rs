//! Loads ahead: the caller that finds a value due loads it again while it is fresh, and all others go on with the value.
//!
//! ```text
//!  hit_ahead ── in memory, and due ──► DueLoad      the core decides that, and starts a load in a task
//!                                        │ lead
//!                                        ├─ Hit: another node loads it, or has; this caller goes on with the value
//!                                        └─ Lead: the task waits for this caller, which loads and ends it
//! ```
//!
//! Leases begin none of these loads: the core starts them with loaders alone, which run in its tasks. The loader here is one that
//! waits for its caller, since code of the host runs nowhere else.

use super::common::lease;
use super::load::{AheadLoad, Ending, HostLeased, HostLoad, LoadError};
use crate::codec::HostCodec;
use crate::options::CallOptions;
use crate::value::HostValue;
use larder::{FetchError, Fetched, LoadCx, Validity, View};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{self, Receiver};

/// What memory has for a fetch that may load ahead.
#[derive(Debug)]
pub enum AheadHit<O, X>
where
    O: Send + Sync + 'static,
{
    /// Nothing that may be served: lease the key.
    Missed,
    /// A value that is not due, or that another caller loads already.
    Found(Fetched<HostValue<O>>),
    /// A value that this caller is to load again.
    Due(DueLoad<O, X>),
}

/// A value that is due to be loaded again. Dropping it leaves that to a later caller.
#[derive(Debug)]
#[must_use = "dropping it leaves the load to a later caller"]
pub struct DueLoad<O, X> {
    found: Arc<HostValue<O>>,
    offered: Receiver<Offer<O, X>>,
}

/// A load that waits for its caller.
#[derive(Debug)]
struct Offer<O, X> {
    cx: LoadCx<HostValue<O>>,
    ending: Ending<O, X>,
}

impl<O, X> DueLoad<O, X>
where
    O: Send + Sync + 'static,
    X: LoadError,
{
    /// The value, which is still fresh.
    pub fn found(&self) -> &Arc<HostValue<O>> {
        &self.found
    }

    /// The right to load it, or the value if another node loads it, or has. Cost: a round trip to Redis.
    pub async fn lead(self) -> HostLeased<O, X> {
        let DueLoad { found, offered } = self;
        match offered.await {
            Ok(Offer { cx, ending }) => HostLeased::Lead(HostLoad::Ahead(AheadLoad::new(cx, found, ending))),
            Err(_) => HostLeased::Hit(found),
        }
    }
}

/// The value of a key, or the right to load it: as [`lease()`], but a value in memory that is due is loaded again.
///
/// # Errors
/// As [`lease()`].
pub async fn lease_ahead<O, X>(
    view: &View<[u8], HostValue<O>, X>,
    codec: &HostCodec,
    key: &[u8],
    options: &CallOptions,
) -> Result<HostLeased<O, X>, FetchError<X>>
where
    O: Send + Sync + 'static,
    X: LoadError,
{
    let hit = if options.refresh { AheadHit::Missed } else { hit_ahead(view, codec, key, options) };
    match hit {
        AheadHit::Missed => lease(view, codec, key, options).await,
        AheadHit::Found(found) => Ok(HostLeased::Hit(found.into_arc())),
        AheadHit::Due(due) => Ok(due.lead().await),
    }
}

/// What memory has under a key, for a fetch with these options whose view or call has `refresh_ahead`. Never waits.
///
/// Cost: two lookups in memory, of which one counts.
pub fn hit_ahead<O, X>(
    view: &View<[u8], HostValue<O>, X>,
    codec: &HostCodec,
    key: &[u8],
    options: &CallOptions,
) -> AheadHit<O, X>
where
    O: Send + Sync + 'static,
    X: LoadError,
{
    // A fetch that finds nothing would lead: it is left to a lease, whose load is its caller's from the beginning.
    let entry = view.inspect(key).entry;
    if entry.is_none_or(|entry| entry.validity != Validity::Valid || entry.ttl.is_zero()) {
        return AheadHit::Missed;
    }
    let (offer, mut offered) = oneshot::channel();
    let loader = move |cx| async move {
        let (ending, ended) = oneshot::channel();
        _ = offer.send(Offer { cx, ending });
        ended.await.unwrap_or_else(|_| Err(X::given_up()))
    };
    let fetch = view.fetch(key).policy(options.policy);
    let fetch = options.tags.iter().fold(fetch, |fetch, tag| fetch.tag(tag)).load_or_keep(loader);
    let found = match pin!(fetch).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(found)) if !codec.is_private() || found.payload(key).is_some() => found,
        // Its time has ended in between.
        _ => return AheadHit::Missed,
    };
    match offered.try_recv() {
        // The loader was dropped with the fetch.
        Err(TryRecvError::Closed) => AheadHit::Found(found),
        Err(TryRecvError::Empty) => AheadHit::Due(DueLoad { found: found.into_arc(), offered }),
        Ok(offer) => {
            let (send, offered) = oneshot::channel();
            _ = send.send(offer);
            AheadHit::Due(DueLoad { found: found.into_arc(), offered })
        }
    }
}
