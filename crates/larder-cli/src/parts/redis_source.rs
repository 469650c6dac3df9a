//! A Redis that a command of ours asks or copies: how it is reached.

use crate::flags::MoveInFlags;
use crate::options::wrong_usage::WrongUsage;
use anyhow::{Context, Result};
use larder_server::CopySource;
use redis::{Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisResult};
use std::path::Path;
use std::time::Duration;

/// For the connection, and for each reply.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A Redis, by its address and what it asks for.
pub(crate) struct RedisSource {
    info: ConnectionInfo,
}

impl RedisSource {
    /// The Redis of an option. An error does not repeat the text of the address: it may have a password.
    pub(crate) fn new(option: &str, url: &str, password: Option<String>) -> Result<RedisSource> {
        let expected = "expected redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH";
        let info = url
            .into_connection_info()
            .map_err(|_| WrongUsage(format!("{option} has a wrong URL, {expected}")))?;
        let Some(password) = password else { return Ok(RedisSource { info }) };
        let settings = info.redis_settings().clone().set_password(password);
        Ok(RedisSource { info: info.set_redis_settings(settings) })
    }

    /// The Redis whose commands are to be compared with ours, if there is one.
    pub(crate) fn to_check(flags: &MoveInFlags) -> Result<Option<RedisSource>> {
        let Some(url) = &flags.check else { return Ok(None) };
        RedisSource::new("--check", url, flags.password()?).map(Some)
    }

    /// The Redis that is to be copied, if there is one.
    pub(crate) fn to_copy(flags: &MoveInFlags) -> Result<Option<RedisSource>> {
        let Some(url) = &flags.from else { return Ok(None) };
        let RedisSource { info } = RedisSource::new("--from", url, flags.password()?)?;
        // It has the keys and the news of their changes on one connection.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        Ok(Some(RedisSource { info: info.set_redis_settings(settings) }))
    }

    /// Whether it is asked with a user or a password.
    pub(crate) fn has_credentials(&self) -> bool {
        let settings = self.info.redis_settings();
        settings.password().is_some() || settings.username().is_some()
    }

    /// The address without a password.
    pub(crate) fn address(&self) -> String {
        self.info.addr().to_string()
    }

    /// The address as the server tells it.
    pub(crate) fn copy_source(&self) -> CopySource {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                CopySource { host: host.clone(), port: *port }
            }
            other => CopySource { host: other.to_string(), port: 0 },
        }
    }

    /// Connects to it.
    pub(crate) fn connect(&self) -> RedisResult<Connection> {
        // The client library takes the provider of the process. Another thread may have installed one, which is as good.
        _ = rustls::crypto::ring::default_provider().install_default();
        let connection = redis::Client::open(self.info.clone())?.get_connection_with_timeout(TIMEOUT)?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        connection.set_write_timeout(Some(TIMEOUT))?;
        Ok(connection)
    }
}

impl MoveInFlags {
    fn password(&self) -> Result<Option<String>> {
        password(self.redis_password_file.as_deref(), self.redis_password.as_deref())
    }
}

/// The password of an option: that of a file, without the end of its line, or a text.
pub(crate) fn password(file: Option<&Path>, text: Option<&str>) -> Result<Option<String>> {
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path);
        text.with_context(|| format!("cannot read the password in {}", path.display()))
    };
    Ok(match file {
        Some(path) => Some(read(path)?.trim_end_matches(['\r', '\n']).to_owned()),
        None => text.map(str::to_owned),
    })
}
