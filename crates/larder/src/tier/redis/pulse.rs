//! Heartbeats: what a node asks about the server again and again, in one round trip.

use super::exchange::hello_field;
use super::values::{checked, stamp, text, time_micros};
use crate::tier::{Marker, Pulse, ServerId, SubscribeOptions, TierError};
use redis::{Pipeline, Value};

/// How long a marker is kept. Nodes remember invalidations for a minute: a missing marker means the same as an old one.
const KEPT_SECONDS: u64 = 3_600;

/// Refusals of a write by a server that another one may have replaced: it is a replica now, or it has lost its replicas or the
/// other primaries. A full server, or a user who may not write there, says nothing of that.
const CUT_OFF: [&str; 4] = ["READONLY", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN"];

/// The commands of a heartbeat. Every user may send HELLO, and its reply has the role of the server.
pub(super) fn pipeline(options: &SubscribeOptions, server: &ServerId, marker: Marker<'_>) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(4);
    pipeline.cmd("HELLO").cmd("TIME").cmd("ZSCORE").arg(&options.ledger).arg("clock");
    match marker {
        Marker::Ignore => {}
        Marker::Read(former) => _ = pipeline.cmd("GET").arg(options.marker_of(former)),
        Marker::Store(time) => {
            let key = options.marker_of(server);
            pipeline.cmd("SET").arg(key).arg(time).arg("EX").arg(KEPT_SECONDS);
        }
    }
    pipeline
}

/// Parses the replies. A command that the server lacks or refuses, or a marker that is no number, tells nothing.
///
/// # Errors
/// The role of the server if it is not a primary.
pub(super) fn parse(replies: Vec<Value>) -> Result<Pulse, TierError> {
    let mut replies = replies.into_iter();
    let mut next = || replies.next().unwrap_or_default();
    let hello = checked(next())?;
    match hello_field(&hello, "role").map(text).transpose()?.as_deref() {
        Some("master" | "primary" | "") | None => {}
        Some(role) => return Err(TierError::NoReply(format!("the role of the server is {role}"))),
    }
    let (time, ledger_clock, marker) = (next(), next(), next());
    let is_cut_off = matches!(&marker, Value::ServerError(error) if CUT_OFF.contains(&error.code()));
    Ok(Pulse {
        is_proof: !is_cut_off,
        time: time_micros(time).ok(),
        ledger_clock: stamp(ledger_clock).ok().flatten(),
        marker: text(marker).ok().and_then(|marker| marker.parse().ok()),
    })
}
