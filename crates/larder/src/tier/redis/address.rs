//! The address of a server: how a connection is opened, and which server is accepted there.
//!
//! The host is resolved, and the credentials are asked for, each time that a connection is opened: a rented server
//! changes both while its clients run.

use super::credentials::CredentialsSource;
use super::exchange::{hello_field, send};
use super::identity::Identity;
use super::network::{self, Network};
use super::replicas::ReplicaFence;
use super::sentinel::{self, Place, Sentinels, Unconfirmed};
use super::values::text;
use crate::tier::redis::RedisOptions;
use crate::tier::{Requirement, ServerId, TierError};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, Pipeline, ProtocolVersion, PushInfo, PushKind,
    RedisError, Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The address of the server, and which server is accepted there.
#[derive(Debug)]
pub(super) struct Address {
    /// Without the credentials of `credentials`. Behind sentinels, without a place.
    info: ConnectionInfo,
    /// Those that know where the server is.
    sentinels: Option<Sentinels>,
    /// The replicas that must acknowledge what it executes.
    pub(super) replica_fence: Option<ReplicaFence>,
    #[cfg(feature = "tls")]
    names: super::tls::OtherNames,
    expected: Mode,
    credentials: CredentialsSource,
    network: Option<Arc<dyn Network>>,
    timeout: Duration,
    connect_timeout: Duration,
    /// The accepted server.
    accepted: Mutex<Option<ServerId>>,
    /// The server that was confirmed last, and until when it may be read.
    confirmed: Mutex<Option<(ServerId, Instant)>>,
    /// Advances when the server is no longer a primary: older connections are opened again, and refused.
    demotions: AtomicU32,
}

/// What a server must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// On its own, or with replicas.
    Single,
    /// A part of a cluster.
    Member,
}

/// An open connection and its server.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) connection: MultiplexedConnection,
    pub(super) identity: Identity,
    /// The same, as others know it.
    pub(super) server: ServerId,
    pub(super) client_id: i64,
    demotions: u32,
    /// Set when the connection is closed, also while nothing is sent on it.
    closed: Arc<AtomicBool>,
}

/// Sets the flag when the task of the connection ends, which has this: with its runtime it ends without a push.
struct CloseOnDrop(Arc<AtomicBool>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Open {
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Address {
    /// The address of a server; behind sentinels if there are any.
    pub(super) fn new(
        info: ConnectionInfo,
        sentinels: Option<Sentinels>,
        expected: Mode,
        options: &RedisOptions,
    ) -> Result<Self, String> {
        let settings =
            info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3).set_skip_set_lib_name();
        let keepalive = TcpKeepalive::new().with_time(options.keepalive).with_interval(options.keepalive);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        let info = info.set_tcp_settings(tcp).set_redis_settings(settings);
        Ok(Address {
            info: with_certificates(info, options)?,
            sentinels,
            replica_fence: ReplicaFence::new(options),
            #[cfg(feature = "tls")]
            names: super::tls::OtherNames::default(),
            expected,
            credentials: options.credentials.clone(),
            network: options.network.clone(),
            timeout: options.timeout,
            connect_timeout: options.connect_timeout.unwrap_or(options.timeout),
            accepted: Mutex::new(None),
            confirmed: Mutex::new(None),
            demotions: AtomicU32::new(0),
        })
    }

    /// Also accepts a certificate for one of these hosts, if the address has none but a number.
    #[cfg(feature = "tls")]
    pub(super) fn or_named(mut self, hosts: impl Iterator<Item = String>) -> Self {
        self.names = super::tls::OtherNames::new(hosts);
        self
    }

    pub(super) fn accepted(&self) -> Option<ServerId> {
        self.accepted.lock().clone()
    }

    pub(super) fn accept(&self, server: &ServerId) {
        *self.accepted.lock() = Some(server.clone());
    }

    /// Accepts none. Connections to sentinels are closed.
    pub(super) fn reject(&self) {
        *self.accepted.lock() = None;
        self.sentinels.iter().for_each(Sentinels::close);
    }

    /// The server is not a primary: it must not be read either.
    pub(super) fn demoted(&self) {
        self.demotions.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the server stopped being a primary after this connection was opened.
    pub(super) fn is_demoted_since(&self, open: &Open) -> bool {
        open.demotions != self.demotions.load(Ordering::Acquire)
    }

    /// Opens a connection to any primary.
    pub(super) async fn open(&self, config: AsyncConnectionConfig) -> Result<Open, TierError> {
        let (open, role) = self.open_any(config).await?;
        if !matches!(&*role, "master" | "primary" | "") {
            self.sentinels.iter().for_each(Sentinels::misled);
            return Err(TierError::NoReply(format!("the server is a {role}, not a primary")));
        }
        Ok(open)
    }

    /// Opens a connection to a primary or a replica. Returns its role too.
    pub(super) async fn open_any(&self, config: AsyncConnectionConfig) -> Result<(Open, String), TierError> {
        let demotions = self.demotions.load(Ordering::Acquire);
        let connecting = tokio::time::timeout(self.connect_timeout, self.connect(config));
        let (mut connection, place) = connecting.await.unwrap_or_else(|_| Err(self.timed_out()))?;
        let mut pipeline = Pipeline::with_capacity(3);
        pipeline.cmd("HELLO").cmd("INFO").arg("server").cmd("INFO").arg("replication");
        let mut answers = send(&mut connection, &pipeline).await?.into_iter();
        let hello = answers.next().unwrap_or_default();
        let mut info = || text(answers.next().unwrap_or_default()).unwrap_or_default();
        let identity = Identity::of(&info(), &info());
        let field = |name| hello_field(&hello, name).and_then(|field| text(field).ok()).unwrap_or_default();
        match (&*field("mode"), self.expected) {
            ("cluster", Mode::Member) => {}
            (_, Mode::Member) => return Err(TierError::Unsupported(Requirement::Cluster)),
            ("cluster" | "sentinel", Mode::Single) => {
                return Err(TierError::Unsupported(Requirement::OneServer));
            }
            (_, Mode::Single) => {}
        }
        let client_id = match hello_field(&hello, "id") {
            Some(Value::Int(id)) => id,
            _ => 0,
        };
        let server = identity.id();
        let role = field("role");
        if let (Some(sentinels), Some(place)) = (&self.sentinels, place) {
            sentinels.reached(&server, place, self.accepted().as_ref());
        }
        Ok((Open { connection, identity, server, client_id, demotions, closed: Arc::default() }, role))
    }

    /// Those who must confirm the server have done so: it may be read until then.
    pub(super) fn confirmed(&self, server: &ServerId, until: Instant) {
        if self.has_fence() {
            *self.confirmed.lock() = Some((server.clone(), until));
        }
    }

    /// # Errors
    /// If the accepted server must be confirmed, and was not lately: another one may have taken its place.
    pub(super) fn check_confirmed(&self) -> Result<(), TierError> {
        if !self.has_fence() {
            return Ok(());
        }
        let accepted = self.accepted.lock();
        let is_confirmed = self
            .confirmed
            .lock()
            .as_ref()
            .is_some_and(|(server, until)| accepted.as_ref() == Some(server) && Instant::now() <= *until);
        match is_confirmed {
            true => Ok(()),
            false => Err(TierError::NoReply("nobody confirms that the server is the primary".into())),
        }
    }

    fn has_fence(&self) -> bool {
        self.replica_fence.is_some() || self.sentinels.as_ref().is_some_and(|sentinels| sentinels.has_fence)
    }

    /// Returns once a majority of the sentinels has confirmed, `since` or later, that this server is the primary. At once if
    /// there are none.
    pub(super) async fn confirm(&self, server: &ServerId, since: Instant) -> Result<(), TierError> {
        let Some(sentinels) = &self.sentinels else { return Ok(()) };
        if sentinels.has_fence && !Identity::is_known(server) {
            let reason = "the user may not send INFO: the sentinels cannot confirm which server this is";
            return Err(TierError::NoReply(reason.into()));
        }
        sentinels.confirm(server, since).await.map_err(|unconfirmed| match unconfirmed {
            Unconfirmed::Elsewhere => {
                sentinels.misled();
                self.demoted();
                TierError::NoReply("the sentinels name another primary".into())
            }
            Unconfirmed::Unknown(reason) => TierError::NoReply(reason),
        })
    }

    /// The same for the accepted server, from now on.
    pub(super) async fn confirm_accepted(&self) -> Result<(), TierError> {
        if self.sentinels.is_none() {
            return Ok(());
        }
        match self.accepted() {
            Some(server) => self.confirm(&server, Instant::now()).await,
            None => Err(TierError::NoReply("the server has not been checked yet".into())),
        }
    }

    /// Whether a new connection leads to another primary than this one. Sentinels and clusters tell that by themselves.
    pub(super) async fn leads_elsewhere(&self, server: &ServerId) -> bool {
        let has_no_guide = self.sentinels.is_none() && self.expected == Mode::Single;
        has_no_guide && self.open(AsyncConnectionConfig::new()).await.is_ok_and(|open| open.server != *server)
    }

    /// The longest that [`Address::open_accepted`] takes, with one request after it.
    pub(super) fn open_limit(&self) -> Duration {
        self.connect_timeout + 2 * self.timeout
    }

    /// Gets the credentials, asks for the place, resolves the host, connects and authenticates.
    async fn connect(
        &self,
        config: AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, Option<Place>), TierError> {
        // The caller limits the time for all of it.
        let config = config.set_connection_timeout(None).set_response_timeout(Some(self.timeout));
        let mut info = self.info.clone();
        if let Some(credentials) = self.credentials.next().await? {
            let settings = credentials.apply(info.redis_settings().clone());
            info = info.set_redis_settings(settings);
        }
        let mut place = None;
        if let Some(sentinels) = &self.sentinels {
            let primary = sentinels.primary().await?;
            let addr = sentinel::at(info.addr(), primary.clone());
            info = info.set_addr(addr);
            place = Some(primary);
        }
        if let Some(network) = &self.network {
            return Ok((network::connect(network, &info, config).await?, place));
        }
        #[cfg(feature = "tls")]
        let connection = self.names.connect(info, &config).await;
        #[cfg(not(feature = "tls"))]
        let connection = super::exchange::connect(info, &config).await;
        match (connection.map_err(|error| self.failed(&error)), place) {
            (Ok(connection), place) => Ok((connection, place)),
            (Err(TierError::NoReply(reason)), Some((host, port))) => {
                self.sentinels.iter().for_each(Sentinels::misled);
                Err(TierError::NoReply(format!("{host}:{port}, which a sentinel names: {reason}")))
            }
            (Err(error), _) => Err(error),
        }
    }

    fn timed_out(&self) -> TierError {
        let advice = match self.info.addr() {
            // A server without TLS waits for the end of a command.
            ConnectionAddr::TcpTls { .. } => ": check that this is the server's TLS port",
            _ => "",
        };
        TierError::NoReply(format!("no connection within {:?}{advice}", self.connect_timeout))
    }

    /// Why a connection was not opened.
    fn failed(&self, error: &RedisError) -> TierError {
        #[cfg(feature = "tls")]
        if let Some(reason) = super::tls::explain(self.info.addr(), &self.names, error) {
            return TierError::Unusable(reason);
        }
        let is_closed = error.is_connection_dropped() && !error.is_connection_refusal();
        let advice = match self.info.addr() {
            ConnectionAddr::Tcp(..) if is_closed => ": use rediss:// if this is a TLS port",
            _ => "",
        };
        let reason = format!("{error}{advice}");
        // An authentication error is a reply: the server refuses this user.
        let is_refused = error.kind() == redis::ErrorKind::AuthenticationFailed
            || matches!(error.code(), Some("WRONGPASS" | "NOAUTH" | "NOPERM"));
        if is_refused { TierError::Unusable(reason) } else { TierError::NoReply(reason) }
    }

    /// Opens a connection to the accepted server.
    pub(super) async fn open_accepted(&self) -> Result<Open, TierError> {
        let closed = Arc::new(AtomicBool::new(false));
        let closing = CloseOnDrop(closed.clone());
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                closing.0.store(true, Ordering::Release);
            }
            Ok::<(), redis::aio::SendError>(())
        });
        let open = Open { closed, ..self.open(config).await? };
        match self.accepted() {
            Some(server) if server == open.server => Ok(open),
            Some(_) => {
                // One sentinel may know less than the one that led to the accepted server.
                self.sentinels.iter().for_each(Sentinels::misled);
                Err(TierError::ServerChanged(open.server))
            }
            // Nothing may be written before it is known whether the server is supported.
            None => Err(TierError::NoReply("the server has not been checked yet".into())),
        }
    }
}

#[cfg(feature = "tls")]
pub(super) fn with_certificates(
    info: ConnectionInfo,
    options: &RedisOptions,
) -> Result<ConnectionInfo, String> {
    match (info.addr(), &options.tls) {
        (ConnectionAddr::TcpTls { .. }, tls) => tls.clone().unwrap_or_default().apply(info),
        (_, Some(_)) => Err("redis_tls needs an address with rediss://".into()),
        (_, None) => Ok(info),
    }
}

#[cfg(not(feature = "tls"))]
pub(super) fn with_certificates(info: ConnectionInfo, _: &RedisOptions) -> Result<ConnectionInfo, String> {
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::RedisFuture;
    use redis::io::AsyncDNSResolver;
    use std::net::SocketAddr;
    use tokio::net::TcpListener;

    /// A name whose server moves: each time that it is resolved it has another address.
    #[derive(Clone)]
    struct Moving(Arc<Mutex<Vec<SocketAddr>>>);

    impl AsyncDNSResolver for Moving {
        fn resolve<'a, 'b: 'a>(
            &'a self,
            _: &'b str,
            _: u16,
        ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
            Box::pin(async { Ok(Box::new(self.0.lock().pop().into_iter()) as Box<_>) })
        }
    }

    #[tokio::test]
    async fn host_is_resolved_for_each_connection() {
        let first = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let second = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let ports = [&second, &first].map(|listener| listener.local_addr().expect("bound"));
        let name = Moving(Arc::new(Mutex::new(ports.to_vec())));
        let options = RedisOptions { timeout: Duration::from_secs(20), ..RedisOptions::default() };
        let info = redis::IntoConnectionInfo::into_connection_info("redis://redis.invalid").expect("valid");
        let address = Address::new(info, None, Mode::Single, &options).expect("valid");
        for listener in [first, second] {
            let config = AsyncConnectionConfig::new().set_dns_resolver(name.clone());
            // The server closes the connection at once.
            let (opened, accepted) =
                tokio::join!(address.open(config), async { listener.accept().await.map(drop) });
            assert!(opened.is_err() && accepted.is_ok());
        }
    }
}
