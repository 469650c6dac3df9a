//! Sentinels: which server is the primary, and whether a majority of them says so now.
//!
//! An old primary that was cut off together with some clients goes on: it answers reads and writes until Sentinel reaches it
//! again. So a reply of the server alone proves nothing. Sentinel promotes another server only when a quorum of its
//! processes finds the primary down. Where the quorum is a majority, each majority that names the next primary has a sentinel
//! that named the former one until then: what was confirmed there came first. That is the *fence* of heartbeats and mutations.

use super::values::{array, checked, text};
use crate::tier::{ServerId, TierError};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The most servers whose places are remembered: those of the last failovers.
const MAX_REACHED: usize = 16;

/// Host and port of a server, as sentinels name it.
pub(super) type Place = (String, u16);

/// The sentinels of one address.
#[derive(Debug)]
pub(super) struct Sentinels {
    /// The name under which they watch the primary.
    name: String,
    each: Vec<Arc<Sentinel>>,
    /// Which one is asked first: the one that has answered last.
    first: AtomicUsize,
    timeout: Duration,
    pub(super) has_fence: bool,
    /// Where servers were reached.
    reached: Mutex<HashMap<ServerId, Place>>,
    /// Whether it was told that their quorum is too low.
    warned: AtomicBool,
    /// What a majority said last.
    confirmed: AsyncMutex<Option<Confirmation>>,
}

/// Whether a majority has confirmed the primary at a place.
#[derive(Debug)]
struct Confirmation {
    asked_at: Instant,
    place: Place,
    result: Result<(), Unconfirmed>,
}

#[derive(Debug)]
struct Sentinel {
    info: ConnectionInfo,
    open: Mutex<Option<Connection>>,
}

/// Hides what the client library shows of a connection.
struct Connection(MultiplexedConnection);

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

/// What a sentinel says of the primary.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    place: Place,
    is_up: bool,
    /// How many sentinels there are, as far as it knows.
    sentinels: usize,
    quorum: usize,
}

/// Why a server is not confirmed as the primary.
#[derive(Clone, Debug)]
pub(super) enum Unconfirmed {
    /// Another one is the primary.
    Elsewhere,
    /// Too few sentinels say so, for this reason.
    Unknown(String),
}

impl Sentinels {
    pub(super) fn new(name: String, each: Vec<ConnectionInfo>, timeout: Duration, has_fence: bool) -> Self {
        let each = each.into_iter().map(|info| Arc::new(Sentinel { info, open: Mutex::default() }));
        Sentinels {
            name,
            each: each.collect(),
            first: AtomicUsize::new(0),
            timeout,
            has_fence,
            reached: Mutex::default(),
            warned: AtomicBool::new(false),
            confirmed: AsyncMutex::new(None),
        }
    }

    /// Where the primary is, as the first sentinel says that answers.
    pub(super) async fn primary(&self) -> Result<Place, TierError> {
        let mut failed = TierError::NoReply("there is no sentinel".into());
        for _ in 0..self.each.len() {
            // The next one is asked next time if this one does not answer, also if this call is given up.
            let at = self.first.fetch_add(1, Ordering::Relaxed);
            match self.ask_for_primary(&self.each[at % self.each.len()]).await {
                Ok(place) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok(place);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn ask_for_primary(&self, sentinel: &Sentinel) -> Result<Place, TierError> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        match sentinel.ask(&command, self.timeout).await? {
            Value::Nil => Err(self.unknown()),
            place => {
                let mut fields = array(place)?.into_iter();
                let mut next = || text(fields.next().unwrap_or_default());
                self.place(next()?, &next()?)
            }
        }
    }

    fn unknown(&self) -> TierError {
        TierError::Unusable(format!("the sentinels watch no server with the name {:?}", self.name))
    }

    fn place(&self, host: String, port: &str) -> Result<Place, TierError> {
        let port =
            port.parse().map_err(|_| TierError::Refused(format!("a sentinel names the port {port:?}")))?;
        Ok((host, port))
    }

    /// The server was not reached, or is no primary: another sentinel may know better.
    pub(super) fn misled(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection to this server was opened at this place. That of the accepted one is never forgotten.
    pub(super) fn reached(&self, server: &ServerId, place: Place, accepted: Option<&ServerId>) {
        let mut reached = self.reached.lock();
        if reached.len() >= MAX_REACHED {
            reached.retain(|known, _| Some(known) == accepted);
        }
        reached.insert(server.clone(), place);
    }

    /// Closes the connections. The next question opens its own.
    pub(super) fn close(&self) {
        self.each.iter().for_each(|sentinel| *sentinel.open.lock() = None);
    }

    /// Returns once a majority has reported this server as the primary, up, and was asked at `since` or later. Concurrent
    /// callers share the questions, also those that get no answer.
    ///
    /// # Errors
    /// If no majority does. That says nothing about what the server has executed.
    pub(super) async fn confirm(&self, server: &ServerId, since: Instant) -> Result<(), Unconfirmed> {
        if !self.has_fence {
            return Ok(());
        }
        let Some(place) = self.reached.lock().get(server).cloned() else {
            return Err(Unconfirmed::Unknown("the sentinels have named no such server".into()));
        };
        let mut confirmed = self.confirmed.lock().await;
        if let Some(last) = &*confirmed
            && last.asked_at >= since
            && last.place == place
        {
            return last.result.clone();
        }
        let asked_at = Instant::now();
        let result = self.ask_majority(&place).await;
        *confirmed = Some(Confirmation { asked_at, place, result: result.clone() });
        result
    }

    /// Asks all, and waits for no more of them than decide.
    async fn ask_majority(&self, place: &Place) -> Result<(), Unconfirmed> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("MASTER").arg(&self.name);
        let mut asked = JoinSet::new();
        for sentinel in &self.each {
            let (sentinel, command, limit) = (sentinel.clone(), command.clone(), self.timeout);
            asked.spawn(async move { sentinel.ask(&command, limit).await });
        }
        let mut reports = Vec::with_capacity(self.each.len());
        while let Some(answer) = asked.join_next().await {
            let report = answer.map_err(|error| TierError::NoReply(error.to_string())).flatten();
            match report.and_then(|answer| self.report(answer)) {
                Ok(report) => reports.push(report),
                Err(error) => tracing::debug!(%error, "a sentinel does not tell of the primary"),
            }
            let majority = self.majority(&reports);
            let count = |holds: fn(&Report, &Place, usize) -> bool| {
                reports.iter().filter(|report| holds(report, place, majority)).count()
            };
            if count(|report, place, majority| {
                report.place == *place && report.is_up && report.quorum >= majority
            }) >= majority
            {
                return Ok(());
            }
            if count(|report, place, _| report.place != *place) >= majority {
                return Err(Unconfirmed::Elsewhere);
            }
        }
        Err(Unconfirmed::Unknown(self.why_not(place, &reports)))
    }

    /// Why these reports do not confirm a primary.
    fn why_not(&self, place: &Place, reports: &[Report]) -> String {
        let majority = self.majority(reports);
        let quorum = reports.iter().map(|report| report.quorum).min();
        if let Some(quorum) = quorum.filter(|quorum| *quorum < majority) {
            let reason =
                format!("the quorum of the sentinels is {quorum}; the fence needs {majority}, a majority");
            if !self.warned.swap(true, Ordering::Relaxed) {
                tracing::warn!("{reason}: the server is not read, and no invalidation is confirmed");
            }
            return reason;
        }
        let up = reports.iter().filter(|report| report.place == *place && report.is_up).count();
        format!("sentinels that confirm the primary: {up}; the fence needs {majority}")
    }

    /// A majority of all that there are, also of those that the address does not name.
    fn majority(&self, reports: &[Report]) -> usize {
        let known = reports.iter().map(|report| report.sentinels).max().unwrap_or(0);
        known.max(self.each.len()) / 2 + 1
    }

    fn report(&self, answer: Value) -> Result<Report, TierError> {
        let fields = fields(answer)?;
        let field = |name: &str| fields.get(name).map_or("", String::as_str);
        let number = |name: &str| field(name).parse().unwrap_or(0);
        let flags = field("flags");
        Ok(Report {
            place: self.place(field("ip").to_owned(), field("port"))?,
            is_up: flags.split(',').all(|flag| flag == "master"),
            sentinels: number("num-other-sentinels") + 1,
            quorum: number("quorum"),
        })
    }
}

/// The names and texts of a reply, which is a list of both in RESP2.
fn fields(answer: Value) -> Result<HashMap<String, String>, TierError> {
    let mut fields = HashMap::new();
    match checked(answer)? {
        Value::Map(pairs) => {
            for (name, value) in pairs {
                fields.insert(text(name)?, text(value)?);
            }
        }
        list => {
            let mut list = array(list)?.into_iter();
            while let (Some(name), Some(value)) = (list.next(), list.next()) {
                fields.insert(text(name)?, text(value)?);
            }
        }
    }
    Ok(fields)
}

impl Sentinel {
    /// Asks over the open connection, or over a new one.
    async fn ask(&self, command: &Cmd, limit: Duration) -> Result<Value, TierError> {
        let asking = timeout(limit, async {
            let open = self.open.lock().as_ref().map(|open| open.0.clone());
            let mut connection = match open {
                Some(open) => open,
                None => self.connect().await?,
            };
            connection.send_packed_command(command).await
        });
        let reason = match asking.await {
            Ok(Ok(answer)) => return checked(answer),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no reply within {limit:?}"),
        };
        *self.open.lock() = None;
        Err(TierError::NoReply(format!("sentinel {}: {reason}", self.info.addr())))
    }

    async fn connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let client = Client::open(self.info.clone())?;
        // The caller limits the time of all of it.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        *self.open.lock() = Some(Connection(connection.clone()));
        Ok(connection)
    }
}

/// The same kind of address at another place.
pub(super) fn at(address: &ConnectionAddr, (host, port): Place) -> ConnectionAddr {
    match address.clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}

/// The place of such an address.
pub(super) fn place_of(address: &ConnectionAddr) -> Place {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => (host.clone(), *port),
        other => (other.to_string(), 0),
    }
}
