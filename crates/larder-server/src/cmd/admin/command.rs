//! `COMMAND`: the table of commands, in the formats that clients and `redis-cli` read.

use std::borrow::Cow;

use larder_glob::Pattern;
use larder_resp::{Args, Encoder};

use crate::cmd::help::help;
use crate::cmd::table::{SPECS, find};
use crate::cmd::{CommandError, Context, Outcome};
use crate::spec::{Access, CommandSpec};

pub(crate) fn command(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(subcommand) = args.get(1) else { return info(cx, args.skip(1)) };
    match subcommand.to_ascii_lowercase().as_slice() {
        b"count" if args.len() == 2 => cx.integer(SPECS.len() as i64),
        b"count" => Err(CommandError::Arity("command|count")),
        b"info" => info(cx, args.skip(2)),
        b"docs" => docs(cx, args.skip(2)),
        b"list" => list(cx, args.skip(2)),
        b"help" if args.len() == 2 => help(
            cx,
            "COMMAND",
            &[
                ("(no subcommand)", "Describes all commands."),
                ("COUNT", "The number of commands."),
                ("DOCS [<name> ...]", "The documentation of commands."),
                ("GETKEYS <command> [<arg> ...]", "The keys of a request."),
                (
                    "GETKEYSANDFLAGS <command> [<arg> ...]",
                    "The keys of a request, and what it does with each.",
                ),
                ("INFO [<name> ...]", "Describes commands."),
                ("LIST [FILTERBY ACLCAT <category> | PATTERN <pattern>]", "The names of commands."),
            ],
        ),
        b"help" => Err(CommandError::Arity("command|help")),
        b"getkeys" if args.len() > 3 => getkeys(cx, args.skip(2), false),
        b"getkeys" => Err(CommandError::Arity("command|getkeys")),
        b"getkeysandflags" if args.len() > 3 => getkeys(cx, args.skip(2), true),
        b"getkeysandflags" => Err(CommandError::Arity("command|getkeysandflags")),
        _ => Err(CommandError::unknown_subcommand(subcommand, "COMMAND")),
    }
}

fn info(cx: &mut Context<'_>, names: Args<'_>) -> Outcome {
    let mut reply = cx.reply();
    if names.is_empty() {
        reply.array(SPECS.len());
        SPECS.iter().for_each(|spec| describe(&mut reply, spec));
        return Ok(());
    }
    reply.array(names.len());
    for name in names.iter() {
        // A request may repeat a name a million times.
        if cx.is_reply_too_large() {
            break;
        }
        match find(name) {
            Some((spec, _)) => describe(&mut cx.reply(), spec),
            None => cx.reply().null(),
        }
    }
    Ok(())
}

/// Ten fields, as in Redis 7. Hints and subcommands are empty.
fn describe(reply: &mut Encoder<'_>, spec: &CommandSpec) {
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(i64::from(spec.arity));
    reply.set(spec.flags.names().count());
    spec.flags.names().for_each(|flag| reply.simple(flag));
    let (first, last, step) = spec.keys;
    [first, last, step].into_iter().for_each(|position| reply.integer(i64::from(position)));
    reply.set(spec.categories().count());
    spec.categories().for_each(|category| reply.simple(&format!("@{category}")));
    reply.array(0);
    match first {
        0 => reply.array(0),
        _ => describe_keys(reply, spec),
    }
    reply.array(0);
}

fn describe_keys(reply: &mut Encoder<'_>, spec: &CommandSpec) {
    let (first, last, step) = spec.keys;
    let Access(access) = spec.key_access(0, None);
    reply.array(1);
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(access.len());
    access.iter().for_each(|flag| reply.simple(flag));
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(i64::from(first));
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"range");
    reply.bulk(b"spec");
    reply.map(3);
    // Redis reports the last key relative to the first one, unless it is relative to the end.
    let last = if last < 0 { last } else { last - first };
    for (field, number) in [("lastkey", last), ("keystep", step), ("limit", 0)] {
        reply.bulk(field.as_bytes());
        reply.integer(i64::from(number));
    }
}

fn docs(cx: &mut Context<'_>, names: Args<'_>) -> Outcome {
    let specs: Vec<&CommandSpec> = match names.is_empty() {
        true => SPECS.iter().collect(),
        false => names.iter().filter_map(find).map(|(spec, _)| *spec).collect(),
    };
    cx.reply().map(specs.len());
    for spec in specs {
        if cx.is_reply_too_large() {
            break;
        }
        let mut reply = cx.reply();
        reply.bulk(spec.name.as_bytes());
        reply.map(3);
        for (field, text) in [("summary", spec.summary), ("since", spec.since), ("group", spec.group)] {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
        }
    }
    Ok(())
}

/// The names of these commands, and those of their subcommands.
fn names_of<'s>(specs: impl Iterator<Item = &'s CommandSpec>) -> impl Iterator<Item = Cow<'s, str>> {
    specs.flat_map(|spec| {
        let subcommands =
            spec.subcommands.iter().map(|subcommand| Cow::from(format!("{}|{subcommand}", spec.name)));
        std::iter::once(Cow::from(spec.name)).chain(subcommands)
    })
}

fn list(cx: &mut Context<'_>, filter: Args<'_>) -> Outcome {
    let arg_is =
        |index: usize, word: &[u8]| filter.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word));
    let names: Vec<Cow<'_, str>> = match filter.len() {
        0 => names_of(SPECS.iter()).collect(),
        3 if arg_is(0, b"FILTERBY") && arg_is(1, b"PATTERN") => {
            let pattern = Pattern::ignoring_case(&filter[2])?;
            names_of(SPECS.iter()).filter(|name| pattern.matches(name.as_bytes())).collect()
        }
        3 if arg_is(0, b"FILTERBY") && arg_is(1, b"ACLCAT") => {
            let has_category = |spec: &&CommandSpec| spec.categories().any(|name| arg_is(2, name.as_bytes()));
            names_of(SPECS.iter().filter(has_category)).collect()
        }
        3 if arg_is(0, b"FILTERBY") && arg_is(1, b"MODULE") => Vec::new(),
        _ => return Err(CommandError::Syntax),
    };
    let mut reply = cx.reply();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn getkeys(cx: &mut Context<'_>, request: Args<'_>, with_flags: bool) -> Outcome {
    let spec = find(&request[0]).map(|(spec, _)| *spec);
    let spec = spec.ok_or(CommandError::Fixed("ERR Invalid command specified"))?;
    if let Some(key) = spec.key_of_subcommand(request) {
        return reply_keys(cx, spec, request, &[key], with_flags);
    }
    // The channels of shards are at positions of keys.
    if !spec.has_keys() || spec.key_access(0, None) == Access::NO_KEY {
        return Err(CommandError::Fixed("ERR The command has no key arguments"));
    }
    if !spec.accepts(request.len()) {
        return Err(CommandError::Fixed("ERR Invalid number of arguments specified for command"));
    }
    let keys = spec.keys_of(request);
    let keys = keys.ok_or(CommandError::Fixed("ERR Invalid arguments specified for command"))?;
    reply_keys(cx, spec, request, &keys, with_flags)
}

fn reply_keys(
    cx: &mut Context<'_>,
    spec: &CommandSpec,
    request: Args<'_>,
    keys: &[&[u8]],
    with_flags: bool,
) -> Outcome {
    let mut reply = cx.reply();
    reply.array(keys.len());
    for (index, key) in keys.iter().enumerate() {
        if !with_flags {
            reply.bulk(key);
            continue;
        }
        let Access(access) = spec.key_access(index, Some(request));
        reply.array(2);
        reply.bulk(key);
        reply.set(access.len());
        access.iter().for_each(|flag| reply.simple(flag));
    }
    Ok(())
}
