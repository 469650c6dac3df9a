//! A network in place of sockets: what the protocol sends and receives can be delayed, cut and repeated in a simulation.

use super::sentinel::place_of;
use super::{RedisOptions, RedisTier};
use crate::tier::{Tier, TierError, TierFuture};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo};
use std::fmt::Debug;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection to a server: bytes in both directions.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// Opens connections.
pub trait Network: Debug + Send + Sync {
    /// Connects to a server.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> TierFuture<'a, Box<dyn Connection>>;
}

/// The tier at an address `redis://` or `redis+cluster://`, over a network that is not that of the machine. Two connections
/// are for lookups.
///
/// # Errors
/// If the address is not readable.
pub fn redis_over(url: &str, network: Arc<dyn Network>) -> Result<Arc<dyn Tier>, String> {
    let options = RedisOptions { connections: 2, network: Some(network), ..RedisOptions::default() };
    Ok(Arc::new(RedisTier::new(url, &options)?))
}

/// Opens a connection as the client library does over a socket.
pub(super) async fn connect(
    network: &Arc<dyn Network>,
    info: &ConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<MultiplexedConnection, TierError> {
    let (host, port) = place_of(info.addr());
    let stream = network.connect(&host, port).await?;
    let opened = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await;
    let (connection, driver) = opened.map_err(|error| TierError::NoReply(error.to_string()))?;
    tokio::spawn(driver);
    Ok(connection)
}
