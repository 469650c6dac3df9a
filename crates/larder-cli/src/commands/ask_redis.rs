//! A connection to a Redis that a command of ours asks about itself.

use crate::parts::redis_source::RedisSource;
use anyhow::{Result, anyhow};
use redis::RedisError;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A Redis that is asked about itself.
pub(super) struct AskedRedis {
    address: String,
    has_credentials: bool,
    connection: redis::Connection,
}

impl AskedRedis {
    /// Connects to it.
    pub(super) fn connect(source: &RedisSource) -> Result<AskedRedis> {
        let (address, has_credentials) = (source.address(), source.has_credentials());
        let connection = source.connect().map_err(|error| failed(&address, error))?;
        Ok(AskedRedis { address, has_credentials, connection })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether the connection has a user or a password.
    pub(super) fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// A section of `INFO`.
    pub(super) fn info(&mut self, section: &str) -> Result<String> {
        let reply = redis::cmd("INFO").arg(section).query(&mut self.connection);
        reply.map_err(|error| failed(&self.address, error))
    }

    /// All of its settings.
    pub(super) fn settings(&mut self) -> Result<BTreeMap<String, String>> {
        let reply = redis::cmd("CONFIG").arg("GET").arg("*").query(&mut self.connection);
        reply.map_err(|error| failed(&self.address, error))
    }

    /// The time of a round trip.
    pub(super) fn round_trip(&mut self) -> Result<Duration> {
        let sent = Instant::now();
        let reply = redis::cmd("PING").query::<()>(&mut self.connection);
        reply.map(|()| sent.elapsed()).map_err(|error| failed(&self.address, error))
    }
}

fn failed(address: &str, error: RedisError) -> anyhow::Error {
    anyhow!("cannot ask {address}: {error}")
}
