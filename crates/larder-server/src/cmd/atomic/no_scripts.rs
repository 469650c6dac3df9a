//! `EVAL`, `SCRIPT` and their relatives, if the server was built without scripts.

use larder_resp::Args;

use crate::cmd::{CommandError, Context, Outcome};
use crate::spec::CommandSpec;
use crate::state::ServerState;

const MISSING: CommandError = CommandError::Fixed("ERR this server was built without scripts");

pub(crate) fn eval(_: &mut Context<'_>, _: Args<'_>) -> Outcome {
    Err(MISSING)
}

pub(crate) fn needs_memory(_: &ServerState, _: &CommandSpec, _: Args<'_>) -> bool {
    false
}

pub(crate) use eval as eval_ro;
pub(crate) use eval as evalsha;
pub(crate) use eval as evalsha_ro;
pub(crate) use eval as script;
