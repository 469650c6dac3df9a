//! `ACL`: users, their passwords and their rights.

use std::sync::Arc;

use larder_resp::{Args, Encoder};

use crate::cmd::help::help;
use crate::cmd::options::integer;
use crate::cmd::session::TurnEnd;
use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::Kind;
use crate::spec::CATEGORIES;
use crate::users::{Changed, DEFAULT_USER, LoadError, RulesError, User, Users, valid_name};

/// Entries of `ACL LOG` without a count.
const DEFAULT_LOG_ENTRIES: i64 = 10;
/// Bits of a password that `ACL GENPASS` makes, and the most that it makes.
const DEFAULT_PASSWORD_BITS: i64 = 256;
const MAX_PASSWORD_BITS: i64 = 4_096;

const SUBCOMMANDS: &[(&str, &str)] = &[
    ("CAT [<category>]", "The categories of commands, or the commands of one."),
    ("DELUSER <username> [<username> ...]", "Removes users, and closes their connections."),
    ("DRYRUN <username> <command> [<arg> ...]", "Whether a user may run a command. It is not run."),
    ("GENPASS [<bits>]", "Makes a password, of 256 bits unless given."),
    ("GETUSER <username>", "Describes a user."),
    ("LIST", "The users with their rules, as in the file of users."),
    ("LOAD", "Reads the file of users again: all of it, or nothing."),
    ("LOG [<count> | RESET]", "What was denied, newest first."),
    ("SAVE", "Writes the file of users."),
    (
        "SETUSER <username> <rule> [<rule> ...]",
        "Applies rules to a user, who is made if needed: all of them, or none.",
    ),
    ("USERS", "The names of the users."),
    ("WHOAMI", "The user of this connection."),
];

/// The rules of a user are secrets: some are passwords.
pub(crate) fn is_secret(args: Args<'_>, index: usize) -> bool {
    index >= 3 && args[1].eq_ignore_ascii_case(b"SETUSER")
}

pub(crate) fn acl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let subcommand = args[1].to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"cat", 2) => {
            let mut reply = cx.reply();
            reply.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|name| reply.bulk(name.as_bytes()));
            Ok(())
        }
        (b"cat", 3) => list_category(cx, &args[2]),
        (b"deluser", 3..) => remove_users(cx, args.skip(2)),
        (b"dryrun", 4..) => dry_run(cx, &args[2], args.skip(3)),
        (b"genpass", 2 | 3) => generate_password(cx, args.get(2)),
        (b"getuser", 3) => describe(cx, &args[2]),
        (b"help", 2) => help(cx, "ACL", SUBCOMMANDS),
        (b"list", 2) => {
            let lines: Vec<_> = cx.state.users.all().iter().map(|user| Users::line(user)).collect();
            reply_texts(cx, &lines)
        }
        (b"load", 2) => load(cx),
        (b"log", 2) => log(cx, DEFAULT_LOG_ENTRIES),
        (b"log", 3) if args[2].eq_ignore_ascii_case(b"RESET") => {
            cx.state.users.log.clear();
            cx.ok()
        }
        (b"log", 3) => log(cx, integer(&args[2])?),
        (b"save", 2) => save(cx),
        (b"setuser", 3..) => set_user(cx, &args[2], args.skip(3)),
        (b"users", 2) => {
            let names: Vec<_> = cx.state.users.all().iter().map(|user| user.name().to_vec()).collect();
            reply_texts(cx, &names)
        }
        (b"whoami", 2) => {
            let user = cx.session.client.user();
            cx.reply().bulk(user.name());
            Ok(())
        }
        (b"cat" | b"genpass" | b"log", _) => Err(CommandError::Other(format!(
            "unknown subcommand or wrong number of arguments for '{}'. Try ACL HELP.",
            String::from_utf8_lossy(&args[1])
        ))),
        _ => Err(wrong_number(cx, &subcommand)
            .unwrap_or_else(|| CommandError::unknown_subcommand(&args[1], "ACL"))),
    }
}

/// The error of a subcommand that exists.
fn wrong_number(cx: &Context<'_>, subcommand: &[u8]) -> Option<CommandError> {
    let known = cx.session.last_command?.subcommands.iter().find(|known| known.as_bytes() == subcommand)?;
    Some(CommandError::Other(format!("wrong number of arguments for 'acl|{known}' command")))
}

fn reply_texts(cx: &mut Context<'_>, texts: &[Vec<u8>]) -> Outcome {
    let mut reply = cx.reply();
    reply.array(texts.len());
    texts.iter().for_each(|text| reply.bulk(text));
    Ok(())
}

fn list_category(cx: &mut Context<'_>, category: &[u8]) -> Outcome {
    let known = CATEGORIES.iter().find(|known| category.eq_ignore_ascii_case(known.as_bytes()));
    let known = known.ok_or_else(|| {
        CommandError::Other(format!("Unknown category '{}'", String::from_utf8_lossy(category)))
    })?;
    let members = cx.state.users.names_of_category(known);
    let mut reply = cx.reply();
    reply.array(members.len());
    members.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn set_user(cx: &mut Context<'_>, name: &[u8], rules: Args<'_>) -> Outcome {
    if !valid_name(name) {
        return Err(CommandError::Fixed("ERR Usernames can't contain spaces or null characters"));
    }
    let rules: Vec<&[u8]> = rules.iter().collect();
    let changed = cx.state.users.set(name, &rules, cx.state.is_exposed()).map_err(|error| match error {
        None => EXPOSED,
        Some(RulesError::Unmatched(start)) => {
            CommandError::Other(format!("Unmatched parenthesis in acl selector starting at '{start}'."))
        }
        Some(RulesError::Rule { rule, reason }) => {
            CommandError::Other(format!("Error in ACL SETUSER modifier '{rule}': {reason}"))
        }
    })?;
    follow(cx, &changed);
    cx.ok()
}

const EXPOSED: CommandError =
    CommandError::Fixed("ERR the user default needs a password, because the server listens beyond loopback");

fn remove_users(cx: &mut Context<'_>, names: Args<'_>) -> Outcome {
    if names.iter().any(|name| name == DEFAULT_USER) {
        return Err(CommandError::Fixed("ERR The 'default' user cannot be removed"));
    }
    let removed: Vec<_> = names.iter().filter_map(|name| cx.state.users.remove(name)).collect();
    let count = removed.len() as i64;
    follow(cx, &Changed { removed, ..Changed::default() });
    cx.integer(count)
}

/// Closes the connections of users that are no more, and those that subscribe to channels which their users have lost.
fn follow(cx: &mut Context<'_>, changed: &Changed) {
    cx.session.update_rights(&cx.state.users);
    let is_among = |users: &[Arc<User>], user: &Arc<User>| users.iter().any(|known| Arc::ptr_eq(known, user));
    let mut closed: Vec<_> = match changed.removed.is_empty() {
        true => Vec::new(),
        false => cx
            .state
            .clients
            .all()
            .into_iter()
            .filter(|client| is_among(&changed.removed, &client.user()))
            .collect(),
    };
    closed.extend(cx.state.store.observers.channels.subscribers_where(|client, kind, name| {
        let user = client.user();
        is_among(&changed.changed, &user)
            && user.limits().is_some_and(|rights| !rights.allow_channel(name, kind == Kind::Pattern))
    }));
    for client in closed {
        match client.id == cx.session.client.id {
            // After the reply.
            true => cx.session.turn_end = Some(TurnEnd::Close),
            false => client.close(),
        }
    }
}

fn describe(cx: &mut Context<'_>, name: &[u8]) -> Outcome {
    let Some(user) = cx.state.users.find(name) else {
        cx.reply().null();
        return Ok(());
    };
    let profile = user.profile();
    let mut selectors = profile.selectors();
    let root = selectors.next().unwrap_or_default();
    let mut reply = cx.reply();
    reply.map(6);
    reply.bulk(b"flags");
    let flags = profile.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let passwords = profile.passwords();
    reply.array(passwords.len());
    passwords.iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    reply_rights(&mut reply, &root);
    reply.bulk(b"selectors");
    reply.array(selectors.len());
    for rights in selectors {
        reply.map(3);
        reply_rights(&mut reply, &rights);
    }
    Ok(())
}

fn reply_rights(reply: &mut Encoder<'_>, rights: &[Vec<u8>; 3]) {
    for (field, text) in [&b"commands"[..], b"keys", b"channels"].into_iter().zip(rights) {
        reply.bulk(field);
        reply.bulk(text);
    }
}

fn dry_run(cx: &mut Context<'_>, name: &[u8], request: Args<'_>) -> Outcome {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let user = cx.state.users.find(name);
    let user = user.ok_or_else(|| CommandError::Other(format!("User '{}' not found", text(name))))?;
    let unknown = || CommandError::Other(format!("Command '{}' not found", text(&request[0])));
    let spec = cx.state.users.command(&request[0]).ok_or_else(unknown)?;
    if !spec.accepts(request.len()) {
        return Err(CommandError::Arity(spec.name));
    }
    let users = &cx.state.users;
    if users.unknown_subcommand(spec, request).is_some() {
        return Err(unknown());
    }
    match user.limits().map_or(Ok(()), |rights| users.check(&rights, spec, request)) {
        Ok(()) => cx.reply().simple("OK"),
        Err(denied) => {
            let text = denied.explanation(&users.full_name(spec, request));
            cx.reply().bulk(&text);
        }
    }
    Ok(())
}

fn generate_password(cx: &mut Context<'_>, bits: Option<&[u8]>) -> Outcome {
    let bits = bits.map_or(Ok(DEFAULT_PASSWORD_BITS), integer)?;
    if !(1..=MAX_PASSWORD_BITS).contains(&bits) {
        return Err(CommandError::Fixed(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut random = vec![0; digits.div_ceil(2)];
    getrandom::fill(&mut random)
        .map_err(|error| CommandError::Other(format!("the system has no random bytes: {error}")))?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    cx.reply().bulk(&text.as_bytes()[..digits]);
    Ok(())
}

fn log(cx: &mut Context<'_>, count: i64) -> Outcome {
    let entries = cx.state.users.log.newest(usize::try_from(count).unwrap_or(0));
    let mut reply = cx.reply();
    reply.array(entries.len());
    for entry in entries {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        let texts = [
            ("reason", entry.event.reason.as_bytes()),
            ("context", entry.event.context.as_bytes()),
            ("object", &entry.event.object),
            ("username", &entry.event.user),
        ];
        for (field, text) in texts {
            reply.bulk(field.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        // In whole milliseconds.
        reply.double(entry.last.elapsed().as_millis() as f64 / 1_000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
    Ok(())
}

const NO_FILE: CommandError = CommandError::Fixed(
    "ERR This server is not configured to use an ACL file: start it with the option aclfile",
);

fn load(cx: &mut Context<'_>) -> Outcome {
    let password = cx.state.password_text();
    let password = Some(password.as_str()).filter(|password| !password.is_empty());
    let changed = cx.state.users.load(password, cx.state.is_exposed()).map_err(|error| match error {
        LoadError::NoFile => NO_FILE,
        LoadError::Open => EXPOSED,
        LoadError::Faults(faults) => {
            CommandError::Other(format!("{}. No user was changed", faults.join("; ")))
        }
    })?;
    follow(cx, &changed);
    cx.ok()
}

fn save(cx: &mut Context<'_>) -> Outcome {
    match cx.state.users.save() {
        None => Err(NO_FILE),
        Some(Ok(())) => cx.ok(),
        Some(Err(error)) => {
            tracing::warn!(%error, "cannot write the file of users");
            Err(CommandError::Other(format!("cannot write the file of users: {error}")))
        }
    }
}
