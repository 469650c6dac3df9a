//! `EVAL`, `SCRIPT` and their relatives, if the server was built without scripts.

use larder_resp::Args;

use super::{CommandError, Context, Outcome};
use crate::state::ServerState;

const MISSING: CommandError = CommandError::Fixed("ERR this server was built without scripts");

pub(super) fn eval(_: &mut Context<'_>, _: Args<'_>) -> Outcome {
    Err(MISSING)
}

pub(super) fn needs_memory(_: &ServerState, _: &str, _: Args<'_>) -> bool {
    false
}

pub(super) use eval as eval_ro;
pub(super) use eval as evalsha;
pub(super) use eval as evalsha_ro;
pub(super) use eval as script;
