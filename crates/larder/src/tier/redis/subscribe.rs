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
    let (may_evict, replied) = (may_evict(&info), Mutex::new(opened_at));
    Ok(ServerSubscription { open, address: address.clone(), options, may_evict, replied })
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

    /// Sends a heartbeat, which reads the clock of the ledger if the server has that.
    pub(super) async fn pulse(
        &self,
        ledger: Option<&[u8]>,
        marker: MarkerRequest,
    /// Sends commands over the connection of the subscription, also if the server is not accepted. Returns the last reply.
    pub(super) async fn ask(&self, pipeline: &Pipeline) -> Result<Value, TierError> {
        let answers = send(&mut self.open.connection.clone(), pipeline).await?;
        Ok(answers.into_iter().next_back().unwrap_or_default())
    }

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
}

impl std::fmt::Debug for ServerSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSubscription").field("server", &self.open.server).finish_non_exhaustive()
    }
}
