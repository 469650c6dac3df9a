//! The subscription: the task that reads the socket handles each push before it delivers a later reply.

use super::RedisTier;
use super::address::{Address, Open};
use super::connect::send;
use super::pulse;
use super::values::checked;
use crate::tier::{
    Pulse, Push, PushHandler, ServerId, SubscribeOptions, Subscription, TierError, TierFuture,
};
use redis::{AsyncConnectionConfig, Pipeline, PushInfo, PushKind, Value};
use std::sync::Arc;

impl RedisTier {
    pub(super) async fn do_subscribe(
        &self,
        options: &SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> Result<Box<dyn Subscription>, TierError> {
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            dispatch(&*handler, &push);
            Ok::<(), redis::aio::SendError>(())
        });
        let mut open = self.address.open(config).await?;
        let mut pipeline = Pipeline::with_capacity(2);
        if let Some(prefix) = &options.tracking {
            pipeline.cmd("CLIENT").arg("TRACKING").arg("ON").arg("BCAST").arg("PREFIX").arg(prefix);
        }
        // Last, because the client library takes its confirmation, a push, as the last reply.
        if let Some(channel) = &options.channel {
            pipeline.cmd("SUBSCRIBE").arg(channel);
        }
        if !pipeline.is_empty() {
            let answers = send(&mut open.connection, &pipeline).await?;
            answers.into_iter().try_for_each(|answer| checked(answer).map(drop))?;
        }
        Ok(Box::new(RedisSubscription { open, address: self.address.clone(), options: options.clone() }))
    }
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

struct RedisSubscription {
    open: Open,
    address: Arc<Address>,
    options: SubscribeOptions,
}

impl Subscription for RedisSubscription {
    fn server(&self) -> &ServerId {
        &self.open.server
    }

    fn heartbeat(&self, marker: Option<u64>) -> TierFuture<'_, Pulse> {
        Box::pin(async move {
            let mut connection = self.open.connection.clone();
            let replies = send(&mut connection, &pulse::pipeline(&self.options, marker)).await?;
            pulse::parse(replies).inspect_err(|_| self.address.demoted())
        })
    }
}

impl std::fmt::Debug for RedisSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisSubscription").field("server", &self.open.server).finish_non_exhaustive()
    }
}
