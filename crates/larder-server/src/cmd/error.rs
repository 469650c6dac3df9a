//! Errors of commands. The display text is that of Redis, with its prefix.

use larder_glob::PatternError;
use larder_resp::Args;

use crate::db::{OutOfMemory, UpdateError, WrongType};
use crate::values::large::TooMuchBuilt;

/// Why a command was not executed. The connection stays open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    #[error("ERR value is not a valid float")]
    NotFloat,
    #[error("ERR invalid expire time in '{0}' command")]
    InvalidExpire(&'static str),
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    StringTooLong,
    /// With the limit in bytes.
    #[error("ERR the reply would exceed {0} bytes, the limit of replies")]
    ReplyTooLarge(u64),
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    #[error("NOAUTH Authentication required.")]
    NoAuth,
    /// It needs all keys, and the server still reads some.
    #[error("LOADING the server is reading its snapshot: try again in a moment")]
    Loading,
    #[error("READONLY the server copies a Redis: it takes writes after REPLICAOF NO ONE")]
    ReadOnly,
    #[error("WRONGPASS invalid username-password pair or user is disabled.")]
    WrongPass,
    /// The user has no right to it.
    #[error("NOPERM {0}")]
    NoPermission(String),
    #[error("EXECABORT Transaction discarded because of: {0}")]
    ExecAbort(String),
    #[error("ERR {0}")]
    Other(String),
    /// A fixed text with its own prefix.
    #[error("{0}")]
    Fixed(&'static str),
}

/// The commands of consumer groups.
const OF_GROUPS: [&str; 6] = ["xack", "xautoclaim", "xclaim", "xgroup", "xpending", "xreadgroup"];

/// What the server does not have, if it leaves out this command because of that.
pub(super) fn reason_left_out(command: &[u8]) -> Option<&'static str> {
    let name = command.to_ascii_lowercase();
    if OF_GROUPS.iter().any(|of_groups| of_groups.as_bytes() == name) {
        Some("this server has no consumer groups of streams")
    } else if name.starts_with(b"geo") {
        Some("this server has no commands of GEO")
    } else {
        None
    }
}

/// Bytes of a request that an error repeats.
const MAX_ECHOED_BYTES: usize = 128;

impl CommandError {
    /// The first word of the text.
    pub(crate) fn prefix(&self) -> &'static str {
        match self {
            CommandError::OutOfMemory => "OOM",
            CommandError::WrongType => "WRONGTYPE",
            CommandError::NoAuth => "NOAUTH",
            CommandError::Loading => "LOADING",
            CommandError::ReadOnly => "READONLY",
            CommandError::ExecAbort(_) => "EXECABORT",
            CommandError::WrongPass => "WRONGPASS",
            CommandError::NoPermission(_) => "NOPERM",
            CommandError::Fixed(text) => text.split(' ').next().unwrap_or("ERR"),
            _ => "ERR",
        }
    }

    pub(crate) fn unknown_command(args: Args<'_>) -> Self {
        let name = truncate(&args[0], MAX_ECHOED_BYTES);
        let (reason, name) = (reason_left_out(name), String::from_utf8_lossy(name));
        if let Some(reason) = reason {
            return CommandError::Other(format!("unknown command '{name}': {reason}"));
        }
        let mut echoed = Vec::new();
        for arg in args.skip(1).iter() {
            if echoed.len() >= MAX_ECHOED_BYTES {
                break;
            }
            echoed.push(b'\'');
            echoed.extend_from_slice(truncate(arg, MAX_ECHOED_BYTES + 1 - echoed.len()));
            echoed.extend_from_slice(b"' ");
        }
        let echoed = String::from_utf8_lossy(&echoed);
        CommandError::Other(format!("unknown command '{name}', with args beginning with: {echoed}"))
    }

    pub(crate) fn unknown_subcommand(name: &[u8], container: &str) -> Self {
        let name = String::from_utf8_lossy(truncate(name, MAX_ECHOED_BYTES));
        CommandError::Other(format!("unknown subcommand '{name}'. Try {container} HELP."))
    }
}

fn truncate(text: &[u8], max_bytes: usize) -> &[u8] {
    &text[..text.len().min(max_bytes)]
}

impl From<OutOfMemory> for CommandError {
    fn from(_: OutOfMemory) -> Self {
        CommandError::OutOfMemory
    }
}

impl From<TooMuchBuilt> for CommandError {
    fn from(_: TooMuchBuilt) -> Self {
        CommandError::OutOfMemory
    }
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> Self {
        CommandError::WrongType
    }
}

impl From<UpdateError> for CommandError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::OutOfMemory => CommandError::OutOfMemory,
            UpdateError::WrongType => CommandError::WrongType,
        }
    }
}

impl From<PatternError> for CommandError {
    fn from(error: PatternError) -> Self {
        CommandError::Other(format!("invalid pattern: {error}"))
    }
}
