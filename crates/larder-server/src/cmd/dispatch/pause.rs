//! Which commands wait for the end of a pause.

use larder_resp::Args;

use crate::client::Paused;
use crate::cmd::session::Session;
use crate::cmd::table;

/// Whether a command has to wait for the end of a pause.
#[cold]
pub(crate) fn waits(session: &mut Session, args: Args<'_>, paused: Paused) -> bool {
    let spec = table::find(&args[0]).map(|(spec, _)| *spec);
    match paused {
        Paused::All => spec.is_none_or(|spec| spec.name != "client"),
        Paused::Writes => spec.is_some_and(|spec| match spec.name {
            "exec" => session.transaction().is_some_and(|transaction| transaction.writes()),
            _ if session.transaction().is_some() => false,
            _ => spec.may_write(),
        }),
    }
}

/// Whether a command that is not at its end has to wait for the end of a pause.
#[cold]
pub(crate) fn visit_waits(session: &Session, paused: Paused) -> bool {
    let Some(spec) = session.last_command else { return false };
    let is_paused = match paused {
        Paused::All => spec.name != "client",
        Paused::Writes => spec.may_write(),
    };
    session.visit.is_some() && is_paused
}
