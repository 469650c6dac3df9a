//! Heartbeats: what a node asks about the server again and again, in one round trip.

use super::exchange::hello_field;
use super::replicas::Acknowledged;
use super::values::{checked, stamp, text, time_micros};
use crate::tier::{Pulse, ServerTime, TierError};
use redis::{Pipeline, Value};

/// How long a marker is kept. Nodes remember invalidations for a minute: a missing marker means the same as an old one.
const KEPT_SECONDS: u64 = 3_600;

/// Refusals of a write by a server that another one may have replaced: it is a replica now, has lost its replicas or the
/// other primaries, or has given the slot away. A full server, or a user who may not write there, says nothing of that.
const CUT_OFF: [&str; 7] =
    ["READONLY", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN", "MOVED", "ASK", "TRYAGAIN"];

/// What a heartbeat does with a marker.
#[derive(Clone, Debug)]
pub(super) enum MarkerRequest {
    Nothing,
    /// Reads the key.
    Read(Vec<u8>),
    /// Stores this time under the key.
    Store(Vec<u8>, u64),
}

/// The commands of a heartbeat. Every user may send HELLO, and its reply has the role of the server. The clock of the ledger
/// is read if the server has its key. The last ones ask for the history of the server, if that may be another one, and wait for
/// replicas, if they must acknowledge a write.
pub(super) fn pipeline(
    ledger: Option<&[u8]>,
    marker: &MarkerRequest,
    asks_for_history: bool,
    acknowledged: Option<&Acknowledged>,
) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(7);
    pipeline.cmd("HELLO").cmd("TIME");
    match marker {
        MarkerRequest::Nothing => {}
        MarkerRequest::Read(key) => _ = pipeline.cmd("GET").arg(key),
        MarkerRequest::Store(key, time) => {
            pipeline.cmd("SET").arg(key).arg(time).arg("EX").arg(KEPT_SECONDS);
        }
    }
    ledger.inspect(|ledger| _ = pipeline.cmd("ZSCORE").arg(ledger).arg("clock"));
    if asks_for_history {
        pipeline.cmd("INFO").arg("replication");
    }
    acknowledged.inspect(|write| write.add_to(&mut pipeline));
    pipeline
}

/// Parses the replies. A command that the server lacks or refuses, or a marker that is no number, tells nothing.
///
/// # Errors
/// The role of the server if it is not a primary.
pub(super) fn parse(replies: Vec<Value>, marker: &MarkerRequest) -> Result<Pulse, TierError> {
    let mut replies = replies.into_iter();
    let mut next = || replies.next().unwrap_or_default();
    let hello = checked(next())?;
    match hello_field(&hello, "role").map(text).transpose()?.as_deref() {
        Some("master" | "primary" | "") | None => {}
        Some(role) => return Err(TierError::NoReply(format!("the role of the server is {role}"))),
    }
    let time = next();
    let marker = if matches!(marker, MarkerRequest::Nothing) { Value::Nil } else { next() };
    let ledger_clock = next();
    let doubt = match &marker {
        Value::ServerError(error) if CUT_OFF.contains(&error.code()) => Some(error.to_string()),
        _ => None,
    };
    Ok(Pulse {
        doubt,
        time: time_micros(time).ok().map(ServerTime::from),
        ledger_clock: stamp(ledger_clock).ok().flatten(),
        marker: text(marker).ok().and_then(|marker| marker.parse().ok()),
    })
}
