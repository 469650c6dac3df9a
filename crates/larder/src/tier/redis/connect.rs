//! Slots for connections: opened when first used and replaced when they fail, without leaving commands on an abandoned
//! one.

use super::address::{Address, Open};
use super::exchange::{Failed, send};
use crate::tier::{ServerId, TierError};
use parking_lot::Mutex;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, Value};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Consecutive timeouts after which a connection is abandoned. One timeout is no reason: the commands on an abandoned
/// connection must not be executed after later ones.
const MAX_TIMEOUTS: u32 = 3;
/// An attempt to open a connection ends within its own limits, unless its runtime does not run: it may be alive, and driven by
/// nobody. Nobody waits longer than this beyond the limits.
const GRACE: Duration = Duration::from_secs(1);

/// One connection, which is opened when it is needed, and again when it is lost.
#[derive(Default)]
pub(super) struct Connector {
    slot: Arc<Slot>,
    /// The attempt to open a connection that is under way: concurrent callers share one. Those who make it and wait for it own
    /// it, and so its connection, which nothing else may keep open.
    attempt: Mutex<Weak<Attempt>>,
}

/// The connection of a [`Connector`].
#[derive(Default)]
struct Slot {
    open: Mutex<Option<Arc<Open>>>,
    /// Consecutive timeouts.
    timeouts: AtomicU32,
    abandoned: Mutex<Option<Abandoned>>,
}

/// An attempt to open a connection. A task makes it: a caller that leaves, or that is not polled, holds up nobody.
struct Attempt {
    result: OnceLock<Result<Arc<Open>, TierError>>,
    /// Closed at the end. It wakes its waiters in order; a watch channel would not.
    end: Semaphore,
}

/// Ends an attempt, also if its runtime ends before it.
struct EndOnDrop(Arc<Attempt>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end.close();
    }
}

/// An abandoned connection. Its commands must not be executed after those of the next connection.
#[derive(Clone)]
struct Abandoned {
    /// Client ids are unique in one run of a server only.
    run: String,
    client_id: i64,
}

impl Connector {
    /// Sends a pipeline. Returns one value for each command; errors of the server are values.
    pub(super) async fn send(
        &self,
        address: &Arc<Address>,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        let open = self.connected(address).await?;
        let answers = send(&mut open.connection.clone(), pipeline).await;
        self.settle(&open, address, answers)
    }

    /// The same for requests that may be executed twice: if the connection is closed, they are sent once more.
    pub(super) async fn send_repeatable(
        &self,
        address: &Arc<Address>,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        match self.send(address, pipeline).await {
            Err(TierError::Disconnected(_)) => self.send(address, pipeline).await,
            answers => answers,
        }
    }

    /// Sends a command that may be executed twice, as [`Connector::send_repeatable`] does: cheaper than a pipeline of one.
    pub(super) async fn send_repeatable_command(
        &self,
        address: &Arc<Address>,
        command: &Cmd,
    ) -> Result<Value, TierError> {
        match self.send_command(address, command).await {
            Err(TierError::Disconnected(_)) => self.send_command(address, command).await,
            answer => answer,
        }
    }

    async fn send_command(&self, address: &Arc<Address>, command: &Cmd) -> Result<Value, TierError> {
        let open = self.connected(address).await?;
        let answer = open.connection.clone().req_packed_command(command).await;
        let [answer] = self.settle(&open, address, answer.map(|answer| [answer]).map_err(Failed::from))?;
        Ok(answer)
    }

    /// What the replies, or their absence, say about the connection and its server.
    fn settle<A: AsRef<[Value]>>(
        &self,
        open: &Open,
        address: &Arc<Address>,
        answers: Result<A, Failed>,
    ) -> Result<A, TierError> {
        match &answers {
            Ok(answers) if answers.as_ref().iter().any(is_from_replica) => {
                address.demoted();
                return Err(TierError::NoReply("the server is not a primary".into()));
            }
            Ok(_) => self.slot.timeouts.store(0, Ordering::Relaxed),
            Err(Failed::Broken(_)) => self.slot.abandon(open),
            Err(Failed::TimedOut(_)) => {
                if self.slot.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_TIMEOUTS {
                    self.slot.abandon(open);
                }
            }
        }
        answers.map_err(TierError::from)
    }

    /// Abandons a connection to another server than this one. That may be accepted again: what it has not received yet must
    /// not be executed then.
    pub(super) fn keep_only(&self, server: &ServerId) {
        let open = self.slot.open.lock().clone();
        open.filter(|open| open.server != *server).inspect(|open| self.slot.abandon(open));
    }

    async fn connected(&self, address: &Arc<Address>) -> Result<Arc<Open>, TierError> {
        if let Some(open) = self.slot.current(address) {
            return Ok(open);
        }
        // Twice, because the runtime of the first attempt may end meanwhile.
        for _ in 0..2 {
            let attempt = self.attempt(address);
            if timeout(address.open_limit() + GRACE, attempt.end.acquire()).await.is_err() {
                self.give_up(&attempt);
                break;
            }
            if let Some(result) = attempt.result.get() {
                return result.clone();
            }
        }
        Err(TierError::NoReply("the runtime that was to open a connection does not run".into()))
    }

    /// The next caller makes another attempt.
    fn give_up(&self, attempt: &Arc<Attempt>) {
        let mut last = self.attempt.lock();
        if last.as_ptr() == Arc::as_ptr(attempt) {
            *last = Weak::new();
        }
    }

    /// The attempt under way, or a new one.
    fn attempt(&self, address: &Arc<Address>) -> Arc<Attempt> {
        let mut last = self.attempt.lock();
        if let Some(attempt) = last.upgrade().filter(|attempt| !attempt.end.is_closed()) {
            return attempt;
        }
        let attempt = Arc::new(Attempt { result: OnceLock::new(), end: Semaphore::new(0) });
        *last = Arc::downgrade(&attempt);
        let (slot, address, ending) = (self.slot.clone(), address.clone(), EndOnDrop(attempt.clone()));
        tokio::spawn(async move {
            let result = match slot.current(&address) {
                // The attempt before this one has opened it meanwhile.
                Some(open) => Ok(open),
                None => slot.open_next(&address).await,
            };
            _ = ending.0.result.set(result);
        });
        attempt
    }
}

impl Slot {
    async fn open_next(&self, address: &Address) -> Result<Arc<Open>, TierError> {
        let mut opened = address.open_accepted().await?;
        let abandoned = self.abandoned.lock().clone();
        if let Some(abandoned) = abandoned.filter(|abandoned| abandoned.run == opened.identity.run) {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("CLIENT").arg("KILL").arg("ID").arg(abandoned.client_id);
            // An error reply means that it is closed already.
            send(&mut opened.connection, &pipeline).await?;
        }
        *self.abandoned.lock() = None;
        self.timeouts.store(0, Ordering::Relaxed);
        let opened = Arc::new(opened);
        *self.open.lock() = Some(opened.clone());
        // Another server may have been accepted while this connection was being opened, and found none to drop.
        if address.accepted().as_ref() != Some(&opened.server) {
            self.abandon(&opened);
            return Err(TierError::NoReply("another server was accepted meanwhile".into()));
        }
        Ok(opened)
    }

    fn current(&self, address: &Address) -> Option<Arc<Open>> {
        let open = self.open.lock().clone()?;
        if open.is_closed() || address.is_demoted_since(&open) {
            self.abandon(&open);
            return None;
        }
        Some(open)
    }

    fn abandon(&self, which: &Open) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|open| open.client_id == which.client_id) {
            *open = None;
            let (run, client_id) = (which.identity.run.clone(), which.client_id);
            *self.abandoned.lock() = (client_id != 0).then_some(Abandoned { run, client_id });
        }
    }
}

/// Whether the reply is that of a replica to a write.
fn is_from_replica(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "READONLY")
}
