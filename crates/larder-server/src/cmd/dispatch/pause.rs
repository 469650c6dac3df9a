//! Which commands wait for the end of a pause.

use larder_resp::Args;

use crate::client::Paused;
use crate::cmd::session::Session;
use crate::cmd::table;
use crate::spec::Flags;

/// Whether a command has to wait for the end of a pause.
#[cold]
pub(crate) fn waits(session: &mut Session, args: Args<'_>, paused: Paused) -> bool {
    let Some((spec, _)) = table::find(&args[0]) else { return paused == Paused::All };
    match (paused, session.transaction()) {
        (Paused::All, _) => !spec.is(Flags::NOT_PAUSED),
        (Paused::Writes, None) => spec.may_write(),
        // A command that is queued changes nothing yet.
        (Paused::Writes, Some(transaction)) => spec.is(Flags::EXECUTES_QUEUE) && transaction.writes(),
    }
}

/// Whether a command that is not at its end has to wait for the end of a pause.
#[cold]
pub(crate) fn slice_waits(session: &Session, paused: Paused) -> bool {
    let Some(spec) = session.last_command else { return false };
    let is_paused = match paused {
        Paused::All => !spec.is(Flags::NOT_PAUSED),
        Paused::Writes => spec.may_write(),
    };
    session.long_command.is_some() && is_paused
}
