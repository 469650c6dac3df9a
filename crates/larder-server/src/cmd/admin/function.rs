//! `FUNCTION`: a library without functions, for programs that list or clear it.

use larder_resp::Args;

use crate::cmd::help::help;
use crate::cmd::{CommandError, Context, Outcome};

/// Functions that are kept by the server are not supported: scripts are sent, or kept by `SCRIPT LOAD`.
const UNSUPPORTED: CommandError =
    CommandError::Fixed("ERR this server has no functions: use EVAL or SCRIPT LOAD");

pub(crate) fn function(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"flush", 2) => cx.ok(),
        (b"flush", 3) if [&b"ASYNC"[..], b"SYNC"].iter().any(|mode| args[2].eq_ignore_ascii_case(mode)) => {
            cx.ok()
        }
        (b"flush", 3) => Err(CommandError::Fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        (b"list", 2..) => {
            check_list_options(args.skip(2))?;
            cx.reply().array(0);
            Ok(())
        }
        (b"kill", 2) => Err(CommandError::Fixed("NOTBUSY No scripts in execution right now.")),
        (b"help", 2) => help(
            cx,
            "FUNCTION",
            &[
                ("FLUSH [ASYNC|SYNC]", "Does nothing: there are no functions."),
                ("LIST [LIBRARYNAME <pattern>] [WITHCODE]", "Returns no libraries."),
            ],
        ),
        (b"load" | b"delete" | b"dump" | b"restore" | b"stats", _) => Err(UNSUPPORTED),
        _ => Err(CommandError::unknown_subcommand(&args[1], "FUNCTION")),
    }
}

fn check_list_options(options: Args<'_>) -> Outcome {
    let mut words = options.iter();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"LIBRARYNAME") {
            words.next().ok_or(CommandError::Fixed("ERR library name argument was not given"))?;
        } else if !word.eq_ignore_ascii_case(b"WITHCODE") {
            return Err(CommandError::Other(format!("Unknown argument {}", String::from_utf8_lossy(word))));
        }
    }
    Ok(())
}
