//! Slots for connections: opened when first used and replaced when they fail, without leaving commands on an abandoned
//! one.

use super::address::{Address, Open};
use crate::tier::{ServerId, TierError};
use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisError, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Consecutive timeouts after which a connection is abandoned. One timeout is no reason: the commands on an abandoned
/// connection must not be executed after later ones.
const MAX_TIMEOUTS: u32 = 3;

pub(super) fn hello_field(hello: &Value, name: &str) -> Option<Value> {
    let Value::Map(fields) = hello else { return None };
    let found = fields.iter().find(|(key, _)| {
        matches!(key, Value::BulkString(key) if key == name.as_bytes())
            || matches!(key, Value::SimpleString(key) if key == name)
    });
    found.map(|(_, value)| value.clone())
}

/// One connection, which is opened when it is needed, and again when it is lost.
#[derive(Default)]
pub(super) struct Connector {
    open: Mutex<Option<Arc<Open>>>,
    /// Locked while connecting, so that concurrent callers open one connection. Why the last attempt failed.
    connecting: tokio::sync::Mutex<Option<TierError>>,
    /// How many attempts have failed.
    failures: AtomicU64,
    /// Consecutive timeouts.
    timeouts: AtomicU32,
    abandoned: Mutex<Option<Abandoned>>,
}

/// An abandoned connection. Its commands must not be executed after those of the next connection.
#[derive(Clone)]
struct Abandoned {
    /// Client ids are unique on one server only.
    server: ServerId,
    client_id: i64,
}

impl Connector {
    /// Sends a pipeline. Returns one value for each command; errors of the server are values.
    pub(super) async fn send(&self, address: &Address, pipeline: &Pipeline) -> Result<Vec<Value>, TierError> {
        let open = self.connected(address).await?;
        self.send_on(&open, address, pipeline).await
    }

    /// The same for requests that may be executed twice: if the connection is closed, they are sent once more.
    pub(super) async fn send_repeatable(
        &self,
        address: &Address,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        match self.send(address, pipeline).await {
            Err(TierError::Disconnected(_)) => self.send(address, pipeline).await,
            answers => answers,
        }
    }

    /// Sends on this connection, for state that a connection keeps between pipelines.
    pub(super) async fn send_on(
        &self,
        open: &Open,
        address: &Address,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        let answers = send(&mut open.connection.clone(), pipeline).await;
        self.settle(open, address, answers)
    }

    /// Sends a command that may be executed twice, as [`Connector::send_repeatable`] does: cheaper than a pipeline of one.
    pub(super) async fn send_repeatable_command(
        &self,
        address: &Address,
        command: &Cmd,
    ) -> Result<Value, TierError> {
        match self.send_command(address, command).await {
            Err(TierError::Disconnected(_)) => self.send_command(address, command).await,
            answer => answer,
        }
    }

    async fn send_command(&self, address: &Address, command: &Cmd) -> Result<Value, TierError> {
        let open = self.connected(address).await?;
        let answer = open.connection.clone().req_packed_command(command).await;
        let [answer] = self.settle(&open, address, answer.map(|answer| [answer]).map_err(Failed::from))?;
        Ok(answer)
    }

    /// What the replies, or their absence, say about the connection and its server.
    fn settle<A: AsRef<[Value]>>(
        &self,
        open: &Open,
        address: &Address,
        answers: Result<A, Failed>,
    ) -> Result<A, TierError> {
        match &answers {
            Ok(answers) if answers.as_ref().iter().any(is_from_replica) => {
                address.demoted();
                return Err(TierError::NoReply("the server is not a primary".into()));
            }
            Ok(_) => self.timeouts.store(0, Ordering::Relaxed),
            Err(Failed::Broken(_)) => self.abandon(open),
            Err(Failed::TimedOut(_)) => {
                if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_TIMEOUTS {
                    self.abandon(open);
                }
            }
        }
        answers.map_err(TierError::from)
    }

    /// Drops a connection to another server than this one.
    pub(super) fn keep_only(&self, server: &ServerId) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|open| open.server != *server) {
            *open = None;
        }
    }

    /// Abandons the connection because its state is unknown.
    pub(super) fn reset(&self) {
        let open = self.open.lock().clone();
        if let Some(open) = open {
            self.abandon(&open);
        }
    }

    pub(super) async fn connected(&self, address: &Address) -> Result<Arc<Open>, TierError> {
        if let Some(open) = self.current(address) {
            return Ok(open);
        }
        let failures = self.failures.load(Ordering::Acquire);
        let mut last_failure = self.connecting.lock().await;
        if let Some(open) = self.current(address) {
            return Ok(open);
        }
        // Who has waited for an attempt that failed does not make another one: many would wait for one timeout each.
        if let Some(error) = &*last_failure
            && self.failures.load(Ordering::Acquire) != failures
        {
            return Err(error.clone());
        }
        let opened = self.open_next(address).await;
        if let Err(error) = &opened {
            *last_failure = Some(error.clone());
            self.failures.fetch_add(1, Ordering::Release);
        }
        opened
    }

    async fn open_next(&self, address: &Address) -> Result<Arc<Open>, TierError> {
        let mut opened = address.open_accepted().await?;
        let abandoned = self.abandoned.lock().clone();
        if let Some(abandoned) = abandoned.filter(|abandoned| abandoned.server == opened.server) {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("CLIENT").arg("KILL").arg("ID").arg(abandoned.client_id);
            // An error reply means that it is closed already.
            send(&mut opened.connection, &pipeline).await?;
        }
        *self.abandoned.lock() = None;
        self.timeouts.store(0, Ordering::Relaxed);
        let opened = Arc::new(opened);
        *self.open.lock() = Some(opened.clone());
        Ok(opened)
    }

    fn current(&self, address: &Address) -> Option<Arc<Open>> {
        let open = self.open.lock().clone()?;
        if open.is_closed() {
            self.abandon(&open);
            return None;
        }
        (!address.is_demoted_since(&open)).then_some(open)
    }

    fn abandon(&self, which: &Open) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|open| open.client_id == which.client_id) {
            *open = None;
            let (server, client_id) = (which.server.clone(), which.client_id);
            *self.abandoned.lock() = (client_id != 0).then_some(Abandoned { server, client_id });
        }
    }
}

/// Whether the reply is that of a replica to a write.
fn is_from_replica(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "READONLY")
}

/// Why a pipeline has no replies.
#[derive(Debug)]
pub(super) enum Failed {
    /// The connection is closed.
    Broken(String),
    /// The reply may still come.
    TimedOut(String),
}

impl From<RedisError> for Failed {
    fn from(error: RedisError) -> Self {
        match error.is_timeout() {
            true => Failed::TimedOut(error.to_string()),
            false => Failed::Broken(error.to_string()),
        }
    }
}

impl From<Failed> for TierError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Broken(reason) => TierError::Disconnected(reason),
            Failed::TimedOut(reason) => TierError::NoReply(reason),
        }
    }
}

pub(super) async fn send(
    connection: &mut MultiplexedConnection,
    pipeline: &Pipeline,
) -> Result<Vec<Value>, Failed> {
    connection.send_packed_commands(pipeline, 0, pipeline.len()).await.map_err(Failed::from)
}
