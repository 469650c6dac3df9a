//! `HELLO` and `AUTH`: authentication and protocol version.

use larder_resp::{Args, Protocol, parse_integer};

use super::client::set_name;
use crate::cmd::admin::info::REDIS_VERSION;
use crate::cmd::rights;
use crate::cmd::{CommandError, Context, Outcome};
use crate::users::DEFAULT_USER;

pub(crate) fn auth(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match args.len() {
        2 if cx.state.users.needs_no_password() => {
            return Err(CommandError::Fixed(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            ));
        }
        2 => authenticate(cx, args, DEFAULT_USER, &args[1])?,
        3 => authenticate(cx, args, &args[1], &args[2])?,
        _ => return Err(CommandError::Syntax),
    }
    cx.ok()
}

/// All arguments of `AUTH` are secrets.
pub(crate) fn is_secret_of_auth(_: Args<'_>, index: usize) -> bool {
    index > 0
}

/// The user and the password after the option `AUTH` are secrets, as in Redis.
pub(crate) fn is_secret_of_hello(args: Args<'_>, index: usize) -> bool {
    let is_auth = |at: usize| at >= 2 && args.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"AUTH"));
    is_auth(index.saturating_sub(1)) || is_auth(index.saturating_sub(2))
}

pub(crate) fn hello(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let protocol = match args.get(1) {
        Some(version) => requested_protocol(version)?,
        None => cx.session.protocol(),
    };
    let (mut credentials, mut name) = (None, None);
    let mut rest = args.skip(2);
    while let Some(option) = rest.get(0) {
        if option.eq_ignore_ascii_case(b"AUTH") && rest.len() >= 3 {
            credentials = rest.get(1).zip(rest.get(2));
            rest = rest.skip(3);
        } else if option.eq_ignore_ascii_case(b"SETNAME") && rest.len() >= 2 {
            name = rest.get(1);
            rest = rest.skip(2);
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(CommandError::Other(format!("Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(cx, args, user, password)?;
    }
    if !cx.session.authenticated {
        return Err(CommandError::Fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time",
        ));
    }
    if let Some(name) = name {
        set_name(cx, name)?;
    }
    cx.session.set_protocol(protocol);
    describe_server(cx);
    Ok(())
}

fn requested_protocol(version: &[u8]) -> Result<Protocol, CommandError> {
    match parse_integer(version) {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err(CommandError::Fixed("NOPROTO unsupported protocol version")),
        None => Err(CommandError::Fixed("ERR Protocol version is not an integer or out of range")),
    }
}

fn authenticate(cx: &mut Context<'_>, args: Args<'_>, name: &[u8], password: &[u8]) -> Outcome {
    let Some(user) = cx.state.users.authenticate(name, password) else {
        rights::record_login(cx, args, name);
        return Err(CommandError::WrongPass);
    };
    cx.session.authenticated = true;
    cx.session.set_user(user, &cx.state.users);
    Ok(())
}

/// Replies with the fields of Redis. Several clients fail if one of them is missing.
fn describe_server(cx: &mut Context<'_>) {
    let (version, id) = (cx.session.protocol().version(), cx.session.client.id);
    let mode = cx.state.config.mode();
    let role = if cx.state.store.is_copying() { "replica" } else { "master" };
    let mut reply = cx.reply();
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (field, number) in [("proto", version), ("id", id as i64)] {
        reply.bulk(field.as_bytes());
        reply.integer(number);
    }
    for (field, value) in [("mode", mode), ("role", role)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}
