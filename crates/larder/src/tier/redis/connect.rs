//! Connections: opened when first used and replaced when they fail, without leaving commands on an abandoned one.

use crate::tier::redis::values::text;
use crate::tier::{ServerId, TierError};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo, Pipeline, ProtocolVersion, PushInfo, PushKind,
    RedisError, Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Consecutive timeouts after which a connection is abandoned. One timeout is no reason: the commands on an abandoned
/// connection must not be executed after later ones.
const MAX_TIMEOUTS: u32 = 3;

/// The address of the server, and which server is accepted there.
#[derive(Debug)]
pub(super) struct Address {
    client: Client,
    timeout: Duration,
    /// The accepted server. The first one that is reached needs no acceptance.
    accepted: Mutex<Option<ServerId>>,
    /// Advances when the server is no longer a primary: older connections are opened again, and refused.
    demotions: AtomicU32,
}

/// An open connection and its server.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) connection: MultiplexedConnection,
    pub(super) server: ServerId,
    client_id: i64,
    demotions: u32,
    /// Set when the connection is closed, also while nothing is sent on it.
    closed: Arc<AtomicBool>,
}

impl Address {
    pub(super) fn new(url: &str, timeout: Duration) -> Result<Self, String> {
        let info = url.into_connection_info().map_err(|error| error.to_string())?;
        let settings =
            info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3).set_skip_set_lib_name();
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp).set_redis_settings(settings));
        let client = client.map_err(|error| error.to_string())?;
        Ok(Address { client, timeout, accepted: Mutex::new(None), demotions: AtomicU32::new(0) })
    }

    /// The number of the database. Channels are shared by all databases.
    pub(super) fn database(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }

    pub(super) fn accepted(&self) -> Option<ServerId> {
        self.accepted.lock().clone()
    }

    pub(super) fn accept(&self, server: &ServerId) {
        *self.accepted.lock() = Some(server.clone());
    }

    /// The server is not a primary: it must not be read either.
    pub(super) fn demoted(&self) {
        self.demotions.fetch_add(1, Ordering::AcqRel);
    }

    /// Opens a connection to any primary.
    pub(super) async fn open(&self, config: AsyncConnectionConfig) -> Result<Open, TierError> {
        let config =
            config.set_connection_timeout(Some(self.timeout)).set_response_timeout(Some(self.timeout));
        let demotions = self.demotions.load(Ordering::Acquire);
        let mut connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| no_reply_or_unusable(&error))?;
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("HELLO").cmd("INFO").arg("server");
        let mut answers = send(&mut connection, &pipeline).await?.into_iter();
        let hello = answers.next().unwrap_or_default();
        let info = text(answers.next().unwrap_or_default()).unwrap_or_default();
        let field = |name| hello_field(&hello, name).and_then(|field| text(field).ok()).unwrap_or_default();
        if let mode @ ("cluster" | "sentinel") = &*field("mode") {
            return Err(TierError::Unusable(format!(
                "the server runs in {mode} mode, which is not supported: use the address of a single primary"
            )));
        }
        let role = field("role");
        if !matches!(&*role, "master" | "primary" | "") {
            return Err(TierError::NoReply(format!("the server is a {role}, not a primary")));
        }
        let client_id = match hello_field(&hello, "id") {
            Some(Value::Int(id)) => id,
            _ => 0,
        };
        let run = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or("").trim().to_owned();
        Ok(Open { connection, server: ServerId(run), client_id, demotions, closed: Arc::default() })
    }

    /// Opens a connection to the accepted server.
    async fn open_accepted(&self) -> Result<Open, TierError> {
        let closed = Arc::new(AtomicBool::new(false));
        let has_closed = closed.clone();
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                has_closed.store(true, Ordering::Release);
            }
            Ok::<(), redis::aio::SendError>(())
        });
        let open = Open { closed, ..self.open(config).await? };
        let mut accepted = self.accepted.lock();
        match &*accepted {
            Some(server) if *server != open.server => Err(TierError::ServerChanged(open.server)),
            Some(_) => Ok(open),
            None => {
                *accepted = Some(open.server.clone());
                Ok(open)
            }
        }
    }
}

pub(super) fn hello_field(hello: &Value, name: &str) -> Option<Value> {
    let Value::Map(fields) = hello else { return None };
    let found = fields.iter().find(|(key, _)| {
        matches!(key, Value::BulkString(key) if key == name.as_bytes())
            || matches!(key, Value::SimpleString(key) if key == name)
    });
    found.map(|(_, value)| value.clone())
}

/// A slot for one connection.
#[derive(Default)]
pub(super) struct Slot {
    open: Mutex<Option<Open>>,
    /// Locked while connecting, so that concurrent callers open one connection.
    connecting: tokio::sync::Mutex<()>,
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

impl Slot {
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
        let mut open = open.clone();
        let answers = send(&mut open.connection, pipeline).await;
        match &answers {
            Ok(answers) if answers.iter().any(is_from_replica) => {
                address.demoted();
                return Err(TierError::NoReply("the server is not a primary".into()));
            }
            Ok(_) => self.timeouts.store(0, Ordering::Relaxed),
            Err(Failed::Broken(_)) => self.abandon(&open),
            Err(Failed::TimedOut(_)) => {
                if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_TIMEOUTS {
                    self.abandon(&open);
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

    pub(super) async fn connected(&self, address: &Address) -> Result<Open, TierError> {
        if let Some(open) = self.current(address) {
            return Ok(open);
        }
        let _one = self.connecting.lock().await;
        if let Some(open) = self.current(address) {
            return Ok(open);
        }
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
        *self.open.lock() = Some(opened.clone());
        Ok(opened)
    }

    fn current(&self, address: &Address) -> Option<Open> {
        let open = self.open.lock().clone()?;
        if open.closed.load(Ordering::Acquire) {
            self.abandon(&open);
            return None;
        }
        (open.demotions == address.demotions.load(Ordering::Acquire)).then_some(open)
    }

    fn abandon(&self, which: &Open) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|open| open.client_id == which.client_id) {
            *open = None;
            let Open { server, client_id, .. } = which.clone();
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
    let answers = connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
    answers.map_err(|error| {
        if error.is_timeout() {
            Failed::TimedOut(error.to_string())
        } else {
            Failed::Broken(error.to_string())
        }
    })
}

/// An authentication error is a reply: the server refuses this user.
fn no_reply_or_unusable(error: &RedisError) -> TierError {
    let reason = error.to_string();
    match error.kind() {
        redis::ErrorKind::AuthenticationFailed => TierError::Unusable(reason),
        _ => TierError::NoReply(reason),
    }
}
