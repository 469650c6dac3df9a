//! The subscription: the task that reads the socket handles each push before it delivers a later reply.

use super::address::{Address, Open};
use super::exchange::send;
use super::pulse::{self, MarkerRequest};
use super::requirements;
use super::values::text;
use crate::tier::{
    Marker, Pulse, Push, PushHandler, ServerId, SubscribeOptions, Subscription, TierError, TierFuture,
};
use redis::{AsyncConnectionConfig, Pipeline, PushInfo, PushKind, Value};
use std::sync::Arc;
use tokio::time::Instant;

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
    let mut open = address.open(config).await?;
    let mut pipeline = Pipeline::with_capacity(9);
    pipeline.cmd("INFO").arg("memory");
    let needed = requirements::add_to(&mut pipeline, &options);
    let mut answers = send(&mut open.connection, &pipeline).await?.into_iter();
    // Some users may not ask.
    let info = text(answers.next().unwrap_or_default()).unwrap_or_default();
    needed.into_iter().zip(answers).try_for_each(|(needed, answer)| requirements::check(needed, answer))?;
    Ok(ServerSubscription { open, address: address.clone(), options, may_evict: may_evict(&info) })
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
}

/// Whether a server with this INFO evicts keys that have no time to live.
fn may_evict(info: &str) -> bool {
    let field = |name| info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    field("maxmemory").is_some_and(|bytes| bytes != "0")
        && field("maxmemory_policy").is_some_and(|policy| policy.starts_with("allkeys"))
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
        Box::pin(self.pulse(Some(&self.options.ledger), marker))
    }
}

impl ServerSubscription {
    /// Sends a heartbeat, which reads the clock of the ledger if the server has that.
    pub(super) async fn pulse(
        &self,
        ledger: Option<&[u8]>,
        marker: MarkerRequest,
    ) -> Result<Pulse, TierError> {
        let mut connection = self.open.connection.clone();
        let (sent, server) = (Instant::now(), &self.open.server);
        let heartbeat = pulse::pipeline(ledger, &marker);
        let (replies, confirmed) =
            tokio::join!(send(&mut connection, &heartbeat), self.address.confirm(server, sent));
        let mut pulse = pulse::parse(replies?, &marker).inspect_err(|_| self.address.demoted())?;
        if self.address.is_demoted_since(&self.open) {
            return Err(TierError::NoReply("another server is the primary".into()));
        }
        if let Err(reason) = confirmed {
            tracing::debug!(%reason, "a heartbeat proves nothing");
            pulse.doubt = Some(reason.to_string());
        }
        Ok(pulse)
    }
}

impl std::fmt::Debug for ServerSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSubscription").field("server", &self.open.server).finish_non_exhaustive()
    }
}
