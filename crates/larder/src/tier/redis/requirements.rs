//! Trying out what the protocol requires of a server. Each new subscription does it: another server may have the address by
//! then, and the user other permissions.

use super::scripts::Script;
use super::values::{checked, text_of};
use crate::tier::{Announcement, Requirement, SubscribeOptions, TierError};
use redis::{Pipeline, Value};

/// Adds commands that show what the server has, and that subscribe. Returns what each of them needs.
pub(super) fn add_to(pipeline: &mut Pipeline, options: &SubscribeOptions) -> Vec<Requirement> {
    let mut needed = vec![Requirement::Scripts, Requirement::Scripts];
    let script = Script::new("return 1");
    script.call(pipeline, true, 0);
    script.call(pipeline, false, 0);
    needed.push(Requirement::SortedSets);
    pipeline.cmd("ZMSCORE").arg(&options.ledger).arg("clock");
    needed.push(Requirement::PublishSubscribe);
    let Announcement { channel, message } = &options.announcement;
    pipeline.cmd("PUBLISH").arg(channel).arg(message);
    if let Some(prefix) = &options.tracking {
        needed.push(Requirement::Tracking);
        pipeline.cmd("CLIENT").arg("TRACKING").arg("ON").arg("BCAST").arg("PREFIX").arg(prefix);
    }
    // Last, because the client library takes its confirmation, a push, as the last reply.
    needed.push(Requirement::PublishSubscribe);
    pipeline.cmd("SUBSCRIBE").arg(channel);
    needed
}

/// Whether the reply shows that the server has the command and this user may use it.
pub(super) fn check(needed: Requirement, reply: Value) -> Result<(), TierError> {
    let Value::ServerError(error) = &reply else { return Ok(()) };
    match (error.code(), needed) {
        ("ERR" | "NOPERM", _) => Err(TierError::Unsupported(needed)),
        // The server starts, or runs a script that takes long: that says nothing.
        ("LOADING" | "BUSY", _) => Err(TierError::NoReply(text_of(error))),
        // These take effect. The others only show that the server knows them: it may be full, or the key no ledger.
        (_, Requirement::PublishSubscribe | Requirement::Tracking) => checked(reply).map(drop),
        _ => Ok(()),
    }
}
