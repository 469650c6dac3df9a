//! `SLOWLOG`: the commands that took long.

use larder_resp::{Args, parse_integer};

use crate::cmd::help::help;
use crate::cmd::{CommandError, Context, Outcome};

/// The entries that `GET` returns without a number.
const DEFAULT_COUNT: usize = 10;

pub(crate) fn slowlog(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let log = &cx.state.slow_log;
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"get", 2) => get(cx, DEFAULT_COUNT),
        (b"get", 3) => match parse_integer(&args[2]) {
            Some(-1) => get(cx, usize::MAX),
            Some(count @ 0..) => get(cx, usize::try_from(count).unwrap_or(usize::MAX)),
            _ => Err(CommandError::Fixed("ERR count should be greater than or equal to -1")),
        },
        (b"get", _) => Err(CommandError::Fixed(
            "ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.",
        )),
        (b"len", 2) => cx.integer(log.len() as i64),
        (b"len", _) => Err(CommandError::Arity("slowlog|len")),
        (b"reset", 2) => {
            log.clear();
            cx.ok()
        }
        (b"reset", _) => Err(CommandError::Arity("slowlog|reset")),
        (b"help", 2) => help(
            cx,
            "SLOWLOG",
            &[
                (
                    "GET [<count>]",
                    "The last entries, 10 unless it is given, all with -1: id, Unix time, microseconds, request, \
                     address and name of the client.",
                ),
                ("LEN", "The number of entries."),
                ("RESET", "Removes all entries."),
            ],
        ),
        (b"help", _) => Err(CommandError::Arity("slowlog|help")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "SLOWLOG")),
    }
}

fn get(cx: &mut Context<'_>, count: usize) -> Outcome {
    let entries = cx.state.slow_log.last(count);
    let mut reply = cx.reply();
    reply.array(entries.len());
    for (id, command) in entries {
        reply.array(6);
        reply.integer(id as i64);
        reply.integer(command.ended.as_secs() as i64);
        reply.integer(command.time.as_micros() as i64);
        let arguments = command.request.arguments();
        reply.array(arguments.len());
        arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(command.address.as_bytes());
        reply.bulk(&command.client_name);
    }
    Ok(())
}
