//! `MODULE`: there are no modules, for programs that list them.

use larder_resp::Args;

use crate::cmd::help::help;
use crate::cmd::{CommandError, Context, Outcome};

pub(crate) fn module(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"list", 2) => {
            cx.reply().array(0);
            Ok(())
        }
        (b"list", _) => Err(CommandError::Arity("module|list")),
        (b"load" | b"loadex" | b"unload", _) => Err(CommandError::Fixed("ERR this server has no modules")),
        (b"help", 2) => help(cx, "MODULE", &[("LIST", "Returns no modules.")]),
        (b"help", _) => Err(CommandError::Arity("module|help")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "MODULE")),
    }
}
