//! Heartbeats: what a node asks about the server again and again, in one round trip.

use super::connect::hello_field;
use super::values::{checked, stamp, text, time_micros};
use crate::tier::{Pulse, SubscribeOptions, TierError};
use redis::{Pipeline, Value};

/// The commands of a heartbeat. Every user may send HELLO, and its reply has the role of the server.
pub(super) fn pipeline(options: &SubscribeOptions, marker: Option<u64>) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(4);
    pipeline.cmd("HELLO").cmd("TIME");
    match marker {
        Some(marker) => pipeline.cmd("SET").arg(&options.marker).arg(marker).arg("GET"),
        None => pipeline.cmd("GET").arg(&options.marker),
    };
    pipeline.cmd("ZSCORE").arg(&options.ledger).arg("clock");
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
        marker: text(next()).ok().and_then(|marker| marker.parse().ok()),
        ledger_clock: stamp(next()).ok().flatten(),
    })
}
