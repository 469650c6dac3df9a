//! The subscription: the task that reads the socket handles each push before it delivers a later reply.

use super::address::{Address, Open};
use super::exchange::send;
use super::identity::Identity;
use super::pulse::{self, MarkerRequest};
use super::replicas::{Acknowledged, confirmation_key};
use super::requirements;
use super::values::{info_field, text};
use crate::tier::{
    Marker, Pulse, Push, PushHandler, ServerId, SubscribeOptions, Subscription, TierError, TierFuture,
};
use parking_lot::Mutex;
use redis::{AsyncConnectionConfig, Pipeline, PushInfo, PushKind, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a server that replicas do not acknowledge is looked for anew.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// After so long without a reply a server may have been a replica, and be a primary again.
const SILENCE: Duration = Duration::from_secs(1);

/// Opens a connection, tries out what the protocol requires, and subscribes.
pub(super) async fn subscribe(
    address: &Arc<Address>,
    options: SubscribeOptions,
    handler: Arc<dyn PushHandler>,
) -> Result<ServerSubscription, TierError> {
    let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
        dispatch(&*handler, &push);
        Ok::<(), redis::aio::SendError>(())
    });
    let opened_at = Instant::now();
    let mut open = address.open(config).await?;
    let mut pipeline = Pipeline::with_capacity(9);
    pipeline.cmd("INFO").arg("memory");
    let needed = requirements::add_to(&mut pipeline, &options);
    let mut answers = send(&mut open.connection, &pipeline).await?.into_iter();
    // Some users may not ask.
    let info = text(answers.next().unwrap_or_default()).unwrap_or_default();
    needed.into_iter().zip(answers).try_for_each(|(needed, answer)| requirements::check(needed, answer))?;
    let (replied, probed) = (Mutex::new(opened_at), Mutex::new(opened_at));
    let may_evict = may_evict(&info);
    Ok(ServerSubscription { open, address: address.clone(), options, may_evict, replied, probed })
}

fn dispatch(handler: &dyn PushHandler, push: &PushInfo) {
    match (&push.kind, &push.data[..]) {
        (PushKind::Message, [_, Value::BulkString(message)]) => handler.handle(Push::Announcement(message)),
        (PushKind::Invalidate, [Value::Array(keys)]) => {
            let keys = keys.iter().filter_map(|key| match key {
                Value::BulkString(key) => Some(&key[..]),
                _ => None,
            });
            handler.handle(Push::KeysWritten(keys.collect()));
        }
        (PushKind::Invalidate, _) => handler.handle(Push::Flushed),
        (PushKind::Disconnection, _) => handler.handle(Push::Closed),
        _ => {}
    }
}

/// The subscription at one server.
pub(super) struct ServerSubscription {
    open: Open,
    address: Arc<Address>,
    options: SubscribeOptions,
    may_evict: bool,
    /// When the last heartbeat was sent that got a reply.
    replied: Mutex<Instant>,
    /// When the address was tried last while replicas did not acknowledge.
    probed: Mutex<Instant>,
}

/// Whether a server with this INFO evicts keys that have no time to live.
fn may_evict(info: &str) -> bool {
    !matches!(info_field(info, "maxmemory"), "" | "0")
        && info_field(info, "maxmemory_policy").starts_with("allkeys")
}

impl Subscription for ServerSubscription {
    fn server(&self) -> &ServerId {
        &self.open.server
    }

    fn may_evict_ledger(&self) -> bool {
        self.may_evict
    }

    fn heartbeat<'a>(&'a self, marker: Marker<'a>) -> TierFuture<'a, Pulse> {
        let marker = match marker {
            Marker::Ignore => MarkerRequest::Nothing,
            Marker::Read(former) => MarkerRequest::Read(self.options.marker_of(former)),
            Marker::Store(time) => MarkerRequest::Store(self.options.marker_of(&self.open.server), time),
        };
        let key = || Some(confirmation_key(&self.options.announcement.channel));
        Box::pin(self.pulse(Some(&self.options.ledger), marker, self.acknowledged(key)))
    }
}

impl ServerSubscription {
    pub(super) fn identity(&self) -> &Identity {
        &self.open.identity
    }

    /// The write to this key that replicas must acknowledge, if they must.
    pub(super) fn acknowledged(&self, key: impl FnOnce() -> Option<Vec<u8>>) -> Option<Acknowledged> {
        let fence = self.address.replica_fence?;
        key().map(|key| Acknowledged { fence, key })
    }

    /// Sends commands over the connection of the subscription, also if the server is not accepted. Returns the last reply.
    pub(super) async fn ask(&self, pipeline: &Pipeline) -> Result<Value, TierError> {
        let answers = send(&mut self.open.connection.clone(), pipeline).await?;
        Ok(answers.into_iter().next_back().unwrap_or_default())
    }

    /// Sends a heartbeat, which reads the clock of the ledger if the server has that.
    pub(super) async fn pulse(
        &self,
        ledger: Option<&[u8]>,
        marker: MarkerRequest,
        acknowledged: Option<Acknowledged>,
    ) -> Result<Pulse, TierError> {
        let mut connection = self.open.connection.clone();
        let (sent, server) = (Instant::now(), &self.open.server);
        let was_silent = sent.duration_since(*self.replied.lock()) >= SILENCE;
        let heartbeat = pulse::pipeline(ledger, &marker, was_silent, acknowledged.as_ref());
        let (replies, confirmed) =
            tokio::join!(send(&mut connection, &heartbeat), self.address.confirm(server, sent));
        let mut replies = replies?;
        let acknowledged = acknowledged.map_or(Ok(()), |write| write.check(&mut replies));
        if was_silent && !self.open.identity.has_history(replies.pop().unwrap_or_default()) {
            self.address.demoted();
        }
        let mut pulse = pulse::parse(replies, &marker).inspect_err(|_| self.address.demoted())?;
        if self.address.is_demoted_since(&self.open) {
            return Err(TierError::NoReply("another server is the primary".into()));
        }
        *self.replied.lock() = sent;
        if acknowledged.is_err() && self.is_replaced().await {
            self.address.demoted();
            return Err(TierError::NoReply("the address leads to another server".into()));
        }
        match confirmed.and(acknowledged) {
            Ok(()) if pulse.doubt.is_none() => self.address.confirmed(server, sent + self.options.max_lag),
            Ok(()) => {}
            Err(reason) => {
                tracing::debug!(%reason, "a heartbeat proves nothing");
                pulse.doubt = Some(reason.to_string());
            }
        }
        Ok(pulse)
    }

    /// Whether the address leads to another server by now: one whose replicas have left it goes on to answer, so nothing else
    /// would end the connections to it. Asked once in a while.
    async fn is_replaced(&self) -> bool {
        {
            let mut probed = self.probed.lock();
            if probed.elapsed() < PROBE_INTERVAL {
                return false;
            }
            *probed = Instant::now();
        }
        self.address.leads_elsewhere(&self.open.server).await
    }
}

impl std::fmt::Debug for ServerSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSubscription").field("server", &self.open.server).finish_non_exhaustive()
    }
}
