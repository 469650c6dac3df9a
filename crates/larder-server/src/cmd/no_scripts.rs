//! `EVAL`, `SCRIPT` and their relatives, if the server was built without scripts.

use larder_resp::Args;

use super::{CommandError, Context, Outcome};

const MISSING: CommandError = CommandError::Fixed("ERR this server was built without scripts");

pub(super) fn eval(_: &mut Context<'_>, _: Args<'_>) -> Outcome {
    Err(MISSING)
}

pub(super) use eval as eval_ro;
pub(super) use eval as evalsha;
pub(super) use eval as evalsha_ro;
pub(super) use eval as script;
