//! One connection: how it is opened, commands and replies on it, and why there are none.

use crate::tier::TierError;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, Pipeline, RedisError, Value};

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

/// Opens a connection.
pub(super) async fn connect(
    info: ConnectionInfo,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    Client::open(info)?.get_multiplexed_async_connection_with_config(config).await
}

pub(super) async fn send(
    connection: &mut MultiplexedConnection,
    pipeline: &Pipeline,
) -> Result<Vec<Value>, Failed> {
    connection.send_packed_commands(pipeline, 0, pipeline.len()).await.map_err(Failed::from)
}

/// A field of the reply to `HELLO`.
pub(super) fn hello_field(hello: &Value, name: &str) -> Option<Value> {
    let Value::Map(fields) = hello else { return None };
    let found = fields.iter().find(|(key, _)| {
        matches!(key, Value::BulkString(key) if key == name.as_bytes())
            || matches!(key, Value::SimpleString(key) if key == name)
    });
    found.map(|(_, value)| value.clone())
}
