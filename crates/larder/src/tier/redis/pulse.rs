//! Heartbeats: what a node asks about the server again and again, in one round trip.

use super::exchange::hello_field;
use super::values::{checked, stamp, text, time_micros};
use crate::tier::{Marker, Pulse, ServerId, SubscribeOptions, TierError};
use redis::{Pipeline, Value};

/// How long a marker is kept. Nodes remember invalidations for a minute: a missing marker means the same as an old one.
const KEPT_SECONDS: u64 = 3_600;

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
    Ok(Pulse {
        time: time_micros(next()).ok(),
        ledger_clock: stamp(next()).ok().flatten(),
        marker: text(next()).ok().and_then(|marker| marker.parse().ok()),
    })
}
