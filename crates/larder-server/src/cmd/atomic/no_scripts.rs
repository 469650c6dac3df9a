//! `EVAL`, `SCRIPT` and their relatives, if the server was built without scripts.

use larder_resp::Args;

use crate::cmd::{CommandError, Context, Outcome};

const MISSING: CommandError = CommandError::Fixed("ERR this server was built without scripts");

pub(crate) fn eval(_: &mut Context<'_>, _: Args<'_>) -> Outcome {
    Err(MISSING)
}

pub(crate) use eval as eval_ro;
pub(crate) use eval as evalsha;
pub(crate) use eval as evalsha_ro;
pub(crate) use eval as script;
