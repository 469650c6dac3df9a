//! Where requests go: to the one server, or to the servers of a cluster that own their keys.

use super::cluster::{Cluster, Reached};
use super::replicas::confirmation_key;
use super::server::{Lane, Sent, Server};
use super::subscribe::subscribe;
use super::values::{int, time_micros};
use crate::tier::{
    Announcement, PushHandler, ServerId, ServerTime, SubscribeOptions, Subscription, TierError,
};
use redis::{Pipeline, Value};
use std::sync::Arc;

pub(super) enum Servers {
    One(Server),
    Cluster(Arc<Cluster>),
}

impl Servers {
    /// Sends commands, of which each is about one key. Returns one value for each; errors of the server are values. On one
    /// server they are executed in their order, in a cluster in the order of each server's.
    pub(super) async fn send(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        match self {
            Servers::One(server) => server.send(lane, sent, pipeline).await,
            Servers::Cluster(cluster) => cluster.send(lane, sent, pipeline).await,
        }
    }

    /// Sends commands and, once they are executed, an announcement: a server executes its commands before its announcement.
    /// Returns the values of the commands.
    pub(super) async fn send_announced(
        &self,
        lane: Lane<'_>,
        sent: Sent,
        mut pipeline: Pipeline,
        announcement: &Announcement,
    ) -> Result<Vec<Value>, TierError> {
        match self {
            Servers::One(server) => {
                pipeline.cmd("PUBLISH").arg(&announcement.channel).arg(&announcement.message);
                let mut answers = server.send(lane, sent, &pipeline).await?;
                int(answers.pop().unwrap_or_default())?;
                server.confirm(|| confirmation_key(&announcement.channel)).await?;
                Ok(answers)
            }
            Servers::Cluster(cluster) => cluster.send_announced(lane, sent, &pipeline, announcement).await,
        }
    }

    /// Sends a pipeline whose first command calls a script by its digest. If the server does not have the script,
    /// sends the pipeline with its text.
    pub(super) async fn send_script(
        &self,
        lane: Lane<'_>,
        build: impl Fn(bool) -> Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        match self {
            Servers::One(server) => send_script(server, lane, build).await,
            Servers::Cluster(cluster) => cluster.send(lane, Sent::Once, &build(false)).await,
        }
    }

    /// The same with a script that announces on the channel that it is given: that of the server that executes it. What else
    /// it announces must be announced [elsewhere](Servers::announce_elsewhere) too.
    pub(super) async fn send_announcing_script(
        &self,
        lane: Lane<'_>,
        channel: &[u8],
        build: impl Fn(bool, &[u8]) -> Pipeline,
    ) -> Result<(Vec<Value>, Reached), TierError> {
        match self {
            Servers::One(server) => {
                let answers = send_script(server, lane, |by_text| build(by_text, channel)).await?;
                server.confirm(|| confirmation_key(channel)).await?;
                Ok((answers, Reached::default()))
            }
            Servers::Cluster(cluster) => {
                cluster.send_announcing(lane, channel, |own| build(false, own)).await
            }
        }
    }

    /// Announces what a script has announced where it was executed, also where other nodes may still listen for it.
    pub(super) async fn announce_elsewhere(
        &self,
        reached: &Reached,
        announcement: &Announcement,
    ) -> Result<(), TierError> {
        match self {
            Servers::One(_) => Ok(()),
            Servers::Cluster(cluster) => cluster.announce_elsewhere(reached, announcement).await,
        }
    }
}

impl Servers {
    pub(super) async fn time(&self) -> Result<ServerTime, TierError> {
        match self {
            Servers::One(server) => {
                let mut pipeline = Pipeline::with_capacity(1);
                pipeline.cmd("TIME");
                let mut answers = server.send(Lane::Ask(&[]), Sent::Repeatably, &pipeline).await?;
                time_micros(answers.pop().unwrap_or_default()).map(ServerTime::from)
            }
            Servers::Cluster(cluster) => cluster.time().await,
        }
    }

    pub(super) async fn subscribe(
        &self,
        options: &SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> Result<Box<dyn Subscription>, TierError> {
        match self {
            Servers::One(server) => Ok(Box::new(subscribe(&server.address, options.clone(), handler).await?)),
            Servers::Cluster(cluster) => Ok(Box::new(cluster.subscribe(options, handler).await?)),
        }
    }

    pub(super) fn accepted(&self) -> Option<ServerId> {
        match self {
            Servers::One(server) => server.address.accepted(),
            Servers::Cluster(cluster) => cluster.accepted(),
        }
    }

    /// Accepts no server any more. Connections are closed.
    pub(super) fn reject_all(&self) {
        match self {
            Servers::One(server) => server.reject(),
            Servers::Cluster(cluster) => cluster.reject_all(),
        }
    }

    pub(super) fn accept(&self, id: &ServerId) {
        match self {
            Servers::One(server) => server.accept(id),
            Servers::Cluster(cluster) => cluster.accept(id),
        }
    }
}

async fn send_script(
    server: &Server,
    lane: Lane<'_>,
    build: impl Fn(bool) -> Pipeline,
) -> Result<Vec<Value>, TierError> {
    let answers = server.send(lane, Sent::Once, &build(false)).await?;
    match answers.first() {
        Some(Value::ServerError(error)) if error.code() == "NOSCRIPT" => {
            server.send(lane, Sent::Once, &build(true)).await
        }
        _ => Ok(answers),
    }
}
