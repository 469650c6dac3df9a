//! `CLIENT`: names and list of connections.

use std::sync::Arc;
use std::time::Duration;

use larder_resp::{Args, parse_integer};

use super::client_kill::{ClientType, kill};
use super::client_tracking;
use crate::client::Client;
use crate::client::Paused;
use crate::cmd::help::help;
use crate::cmd::options::integer;
use crate::cmd::session::{Replies, TurnEnd};
use crate::cmd::{CommandError, Context, Outcome};
use crate::spec::{CommandSpec, Flags};
use crate::system::Moment;

/// The longest pause: a year. Longer ones are shortened to it.
const MAX_PAUSE_MS: u64 = 365 * 24 * 3_600_000;

const SUBCOMMANDS: &[(&str, &str)] = &[
    ("CACHING <yes|no>", "Whether the next command's keys are tracked, with OPTIN or OPTOUT."),
    ("GETREDIR", "The connection that gets the messages of CLIENT TRACKING."),
    ("GETNAME", "The name of the connection."),
    ("ID", "The id of the connection."),
    ("INFO", "The line of the connection in CLIENT LIST."),
    (
        "KILL <ip:port> | ID <id> | ADDR <ip:port> | LADDR <ip:port> | TYPE <type> | USER <name> | MAXAGE <seconds> | SKIPME <yes|no>",
        "Closes connections.",
    ),
    ("LIST [TYPE <type> | ID <id> ...]", "The connections."),
    ("NO-EVICT <on|off>", "Accepted; the server does not evict connections."),
    ("NO-TOUCH <on|off>", "Accepted; every read counts as a use."),
    ("PAUSE <milliseconds> [WRITE|ALL]", "Lets commands of all connections wait."),
    ("REPLY <on|off|skip>", "Which commands get replies: all, none, or all but the next one."),
    ("SETINFO <LIB-NAME|LIB-VER> <value>", "Sets the name or version of the client library."),
    ("SETNAME <name>", "Sets the name of the connection."),
    (
        "TRACKING <on|off> [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP]",
        "Sends a message when a key changes that the connection has read.",
    ),
    ("TRACKINGINFO", "How the connection tracks keys."),
    ("UNPAUSE", "Ends the pause."),
    ("UNBLOCK <id> [TIMEOUT|ERROR]", "Ends the wait of a connection, as its time would or with an error."),
];

pub(crate) fn client(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let subcommand = &args[1];
    match (subcommand.to_ascii_lowercase().as_slice(), args.len()) {
        (b"id", 2) => cx.integer(cx.session.client.id as i64),
        (b"getname", 2) => getname(cx),
        (b"setname", 3) => {
            set_name(cx, &args[2])?;
            cx.ok()
        }
        (b"setinfo", 4) => setinfo(cx, &args[2], &args[3]),
        (b"info", 2) => info(cx),
        (b"list", _) => list(cx, args.skip(2)),
        (b"kill", 3..) => kill(cx, args.skip(2)),
        (b"unblock", 3 | 4) => {
            let is_reason =
                |word: &[u8]| word.eq_ignore_ascii_case(b"TIMEOUT") || word.eq_ignore_ascii_case(b"ERROR");
            if !args.get(3).is_none_or(is_reason) {
                return Err(CommandError::Fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
            }
            let with_error = args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"ERROR"));
            let id = integer(&args[2])?;
            let waiting = &cx.state.store.observers.waiting;
            let has_waited = u64::try_from(id).is_ok_and(|id| waiting.unblock(id, with_error));
            cx.integer(has_waited.into())
        }
        (b"pause", 3 | 4) => pause(cx, &args[2], args.get(3)),
        (b"pause", _) => Err(CommandError::Arity("client|pause")),
        (b"unpause", 2) => {
            cx.state.end_pause();
            cx.ok()
        }
        (b"unpause", _) => Err(CommandError::Arity("client|unpause")),
        (b"reply", 3) => set_replies(cx, &args[2]),
        (b"reply", _) => Err(CommandError::Arity("client|reply")),
        (b"tracking", 3..) => client_tracking::tracking(cx, args.skip(2)),
        (b"trackinginfo", 2) => client_tracking::trackinginfo(cx),
        (b"caching", 3) => client_tracking::caching(cx, &args[2]),
        (b"getredir", 2) => client_tracking::getredir(cx),
        (b"help", 2) => help(cx, "CLIENT", SUBCOMMANDS),
        (b"no-evict" | b"no-touch", 3) => accept_on_off(cx, &args[2]),
        (b"help", _) => Err(CommandError::Arity("client|help")),
        (b"kill", _) => Err(CommandError::Arity("client|kill")),
        (b"unblock", _) => Err(CommandError::Arity("client|unblock")),
        (b"tracking", _) => Err(CommandError::Arity("client|tracking")),
        (b"trackinginfo", _) => Err(CommandError::Arity("client|trackinginfo")),
        (b"caching", _) => Err(CommandError::Arity("client|caching")),
        (b"getredir", _) => Err(CommandError::Arity("client|getredir")),
        (b"id", _) => Err(CommandError::Arity("client|id")),
        (b"getname", _) => Err(CommandError::Arity("client|getname")),
        (b"setname", _) => Err(CommandError::Arity("client|setname")),
        (b"setinfo", _) => Err(CommandError::Arity("client|setinfo")),
        (b"info", _) => Err(CommandError::Arity("client|info")),
        (b"no-evict", _) => Err(CommandError::Arity("client|no-evict")),
        (b"no-touch", _) => Err(CommandError::Arity("client|no-touch")),
        _ => Err(CommandError::unknown_subcommand(subcommand, "CLIENT")),
    }
}

/// Sets the name of the connection; an empty name removes it.
pub(crate) fn set_name(cx: &mut Context<'_>, name: &[u8]) -> Outcome {
    if !is_printable(name) {
        return Err(CommandError::Fixed(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    cx.session.update_names(|names| names.name = name.to_vec());
    Ok(())
}

fn getname(cx: &mut Context<'_>) -> Outcome {
    let name = cx.session.client.names().name;
    match name.is_empty() {
        true => cx.reply().null(),
        false => cx.reply().bulk(&name),
    }
    Ok(())
}

fn setinfo(cx: &mut Context<'_>, field: &[u8], value: &[u8]) -> Outcome {
    let is_name = field.eq_ignore_ascii_case(b"lib-name");
    let field_name = String::from_utf8_lossy(field);
    if !is_name && !field.eq_ignore_ascii_case(b"lib-ver") {
        return Err(CommandError::Other(format!("Unrecognized option '{field_name}'")));
    }
    if !is_printable(value) {
        return Err(CommandError::Other(format!(
            "{field_name} cannot contain spaces, newlines or special characters."
        )));
    }
    cx.session.update_names(|names| {
        let field = if is_name { &mut names.library } else { &mut names.library_version };
        *field = value.to_vec();
    });
    cx.ok()
}

fn info(cx: &mut Context<'_>) -> Outcome {
    let mut line = String::new();
    cx.session.client.write_line(&mut line, cx.state.stats.specs);
    cx.reply().verbatim(b"txt", line.as_bytes());
    Ok(())
}

fn list(cx: &mut Context<'_>, options: Args<'_>) -> Outcome {
    let clients = &cx.state.clients;
    let listed: Vec<Arc<Client>> = match options.get(0) {
        None => clients.all(),
        Some(option) if option.eq_ignore_ascii_case(b"ID") && options.len() > 1 => {
            let ids: Vec<u64> = options.skip(1).iter().map(client_id).collect::<Result<_, _>>()?;
            ids.into_iter().filter_map(|id| clients.find(id)).collect()
        }
        Some(option) if option.eq_ignore_ascii_case(b"TYPE") && options.len() == 2 => {
            let kind = ClientType::parse(&options[1])?;
            clients.all().into_iter().filter(|client| kind.includes(client)).collect()
        }
        Some(_) => return Err(CommandError::Syntax),
    };
    let mut text = String::new();
    for client in listed {
        // A request may repeat an id a million times.
        if cx.check_reply(text.len() as u64).is_err() {
            break;
        }
        client.write_line(&mut text, cx.state.stats.specs);
    }
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn client_id(text: &[u8]) -> Result<u64, CommandError> {
    // A negative number becomes an id that no connection has.
    parse_integer(text).map(|id| id as u64).ok_or(CommandError::Fixed("ERR Invalid client ID"))
}

fn pause(cx: &mut Context<'_>, time: &[u8], kind: Option<&[u8]>) -> Outcome {
    let paused = match kind.map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"all") => Paused::All,
        Some(b"write") => Paused::Writes,
        Some(_) => {
            return Err(CommandError::Fixed("ERR CLIENT PAUSE mode must be WRITE or ALL"));
        }
    };
    let ms = parse_integer(time)
        .ok_or(CommandError::Fixed("ERR timeout is not an integer or out of range"))
        .and_then(|ms| u64::try_from(ms).map_err(|_| CommandError::Fixed("ERR timeout is negative")))?;
    cx.state.pause.begin(Moment::now(), Duration::from_millis(ms.min(MAX_PAUSE_MS)), paused);
    cx.session.turn_end = Some(TurnEnd::Yield);
    cx.ok()
}

/// Whether a request is `CLIENT REPLY`. A transaction refuses it, as in Valkey 9: without the replies of some commands, that
/// of `EXEC` would have fewer elements than it announces.
pub(crate) fn changes_replies(spec: &CommandSpec, args: Args<'_>) -> bool {
    spec.is(Flags::SETS_REPLIES) && args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"REPLY"))
}

/// Whether a request is `CLIENT REPLY ON`, which gets a reply even if there are none before.
pub(crate) fn turns_replies_on(spec: &CommandSpec, args: Args<'_>) -> bool {
    changes_replies(spec, args) && args.len() == 3 && args[2].eq_ignore_ascii_case(b"ON")
}

/// Only `on` has a reply.
fn set_replies(cx: &mut Context<'_>, value: &[u8]) -> Outcome {
    match value.to_ascii_lowercase().as_slice() {
        b"on" => {
            cx.session.set_replies(Replies::On);
            return cx.ok();
        }
        b"off" => cx.session.set_replies(Replies::Off),
        b"skip" if cx.session.replies() == Replies::Off => {}
        b"skip" => cx.session.set_replies(Replies::SkipNext),
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

/// Accepts `on` and `off` without effect: this server does not evict connections, and every read counts as a use.
fn accept_on_off(cx: &mut Context<'_>, value: &[u8]) -> Outcome {
    if value.eq_ignore_ascii_case(b"on") || value.eq_ignore_ascii_case(b"off") {
        return cx.ok();
    }
    Err(CommandError::Syntax)
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}
