//! The library `redis` of scripts.

use std::cell::Cell;

use larder_resp::{ArgsBuffer, Protocol, format_float};

use super::cache::{digest, format_digest};
use super::host::{CallError, with_host};
use super::lua::{Function, Kind, Library, Stack, Thrown};
use super::reply;

/// The version of Redis whose scripts run here.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: u32 = 7 << 16 | 15;
/// Text of arguments for which a thread keeps memory.
const MAX_IDLE_BYTES: usize = 64 << 10;

const FUNCTIONS: [(&str, Function); 12] = [
    ("call", call),
    ("pcall", protected_call),
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("sha1hex", sha1hex),
    ("log", log),
    ("setresp", set_protocol),
    ("acl_check_cmd", check_command),
    ("replicate_commands", replicate_commands),
    ("set_repl", set_replication),
    ("breakpoint", breakpoint),
    ("debug", debug),
];

const NUMBERS: [(&str, u32); 10] = [
    ("LOG_DEBUG", 0),
    ("LOG_VERBOSE", 1),
    ("LOG_NOTICE", 2),
    ("LOG_WARNING", 3),
    ("REPL_NONE", 0),
    ("REPL_AOF", 1),
    ("REPL_SLAVE", 2),
    ("REPL_REPLICA", 2),
    ("REPL_ALL", 3),
    ("REDIS_VERSION_NUM", VERSION_NUMBER),
];

thread_local! {
    /// The memory of the arguments of a command, which all commands use.
    static ARGUMENTS: Cell<ArgsBuffer> = Cell::default();
}

pub(super) const LIBRARY: Library = ("redis", push);

/// Pushes the table of the library.
fn push(stack: &mut Stack<'_>) {
    stack.push_table(0, FUNCTIONS.len() + NUMBERS.len() + 1);
    for (name, function) in FUNCTIONS {
        stack.push_function(function);
        stack.set_field(-2, name);
    }
    for (name, number) in NUMBERS {
        stack.push_number(f64::from(number));
        stack.set_field(-2, name);
    }
    stack.push_bytes(VERSION.as_bytes());
    stack.set_field(-2, "REDIS_VERSION");
}

fn call(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    execute(stack)?;
    // An error of the command is an error of the script.
    if stack.kind(-1) == Kind::Table {
        let is_error = stack.push_field(-1, "err") == Kind::String;
        stack.pop(1);
        if is_error {
            return Err(Thrown);
        }
    }
    Ok(1)
}

fn protected_call(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    execute(stack)?;
    Ok(1)
}

/// Executes the command that the arguments are, and pushes its reply, or the table of an error.
fn execute(stack: &mut Stack<'_>) -> Result<(), Thrown> {
    let mut arguments = ARGUMENTS.take();
    let refused = collect(stack, &mut arguments).err();
    let executed = match refused {
        Some(text) => {
            reply::push_record(stack, "err", text.as_bytes());
            Ok(())
        }
        None => execute_collected(stack, &arguments),
    };
    arguments.clear(MAX_IDLE_BYTES);
    ARGUMENTS.set(arguments);
    executed
}

/// Copies the arguments of the function. The error has a prefix.
fn collect(stack: &mut Stack<'_>, arguments: &mut ArgsBuffer) -> Result<(), &'static str> {
    if stack.top() == 0 {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    for index in 1..=stack.top() as i32 {
        let fits = match stack.kind(index) {
            Kind::String => {
                arguments.push_arg(|text| text.extend_from_slice(stack.bytes(index).unwrap_or_default()))
            }
            Kind::Number => {
                let number = stack.number(index).unwrap_or_default();
                arguments.push_arg(|text| append_number(text, number))
            }
            _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
        };
        if !fits {
            return Err("ERR the command is too large");
        }
    }
    arguments.end_request();
    Ok(())
}

fn append_number(text: &mut Vec<u8>, number: f64) {
    let integer = number as i64;
    if integer as f64 == number && number.abs() < 1e17 && (integer != 0 || number.is_sign_positive()) {
        text.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
    } else {
        text.extend_from_slice(format_float(number, 17).as_bytes());
    }
}

fn execute_collected(stack: &mut Stack<'_>, arguments: &ArgsBuffer) -> Result<(), Thrown> {
    let mut pushed = Ok(());
    let called =
        with_host(|host| host.call(arguments.get(0), &mut |reply| pushed = reply::push(stack, reply)));
    match called {
        Some(Ok(())) => pushed,
        Some(Err(CallError::Refused(text))) => {
            reply::push_counted_error(stack, text.as_bytes());
            Ok(())
        }
        Some(Err(CallError::MustEnd)) | None => Err(stack.throw("the script has to end")),
    }
}

fn error_reply(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    push_reply(stack, "err", |text| match text.strip_prefix(b"-") {
        Some(text) => text.to_vec(),
        // Without a prefix it gets the usual one.
        None if !text.contains(&b' ') => [b"ERR ", text].concat(),
        None => text.to_vec(),
    })
}

fn status_reply(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    push_reply(stack, "ok", <[u8]>::to_vec)
}

/// Pushes a table that stands for a reply, from the only argument.
fn push_reply(stack: &mut Stack<'_>, name: &str, edit: impl Fn(&[u8]) -> Vec<u8>) -> Result<usize, Thrown> {
    match stack.bytes(1).filter(|_| stack.top() == 1).map(edit) {
        Some(text) => reply::push_record(stack, name, &text),
        None => reply::push_record(stack, "err", b"ERR wrong number or type of arguments"),
    }
    Ok(1)
}

/// An error of a function of this library: a table, as those of commands.
fn fail(stack: &mut Stack<'_>, text: &str) -> Thrown {
    reply::push_record(stack, "err", format!("ERR {text}").as_bytes());
    Thrown
}

fn sha1hex(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    if stack.top() != 1 {
        return Err(fail(stack, "wrong number of arguments"));
    }
    let text = format_digest(&digest(stack.text(1).unwrap_or_default()));
    stack.push_bytes(text.as_bytes());
    Ok(1)
}

fn log(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    if stack.top() < 2 {
        return Err(fail(stack, "redis.log() requires two arguments or more."));
    }
    let Some(level) = stack.number(1).filter(|_| stack.kind(1) == Kind::Number) else {
        return Err(fail(stack, "First argument must be a number (log level)."));
    };
    let mut message = Vec::new();
    for index in 2..=stack.top() as i32 {
        if index > 2 {
            message.push(b' ');
        }
        message.extend_from_slice(stack.text(index).unwrap_or_default());
    }
    let message = String::from_utf8_lossy(&message);
    match level as i64 {
        0 => tracing::debug!(script = %message),
        1 | 2 => tracing::info!(script = %message),
        3 => tracing::warn!(script = %message),
        _ => return Err(fail(stack, "Invalid debug level.")),
    }
    Ok(0)
}

fn set_protocol(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    if stack.top() != 1 {
        return Err(fail(stack, "redis.setresp() requires one argument."));
    }
    let protocol = match stack.number(1).map(|version| version as i64) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        _ => return Err(fail(stack, "RESP version must be 2 or 3.")),
    };
    with_host(|host| host.set_protocol(protocol));
    Ok(0)
}

/// Whether the user of the script may execute a command.
fn check_command(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let mut arguments = ArgsBuffer::new();
    if let Err(text) = collect(stack, &mut arguments) {
        reply::push_record(stack, "err", text.as_bytes());
        return Err(Thrown);
    }
    match with_host(|host| host.may_call(arguments.get(0))).flatten() {
        Some(is_allowed) => stack.push_boolean(is_allowed),
        None => return Err(fail(stack, "Invalid command passed to redis.acl_check_cmd()")),
    }
    Ok(1)
}

/// There are no replicas, so the functions about replication have no effect.
fn replicate_commands(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    stack.push_boolean(true);
    Ok(1)
}

fn set_replication(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    if stack.top() != 1 {
        return Err(fail(stack, "redis.set_repl() requires two arguments."));
    }
    match stack.number(1).unwrap_or_default() as i64 {
        0..=3 => Ok(0),
        _ => {
            Err(fail(stack, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."))
        }
    }
}

/// There is no debugger.
fn breakpoint(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    stack.push_boolean(false);
    Ok(1)
}

fn debug(_: &mut Stack<'_>) -> Result<usize, Thrown> {
    Ok(0)
}
