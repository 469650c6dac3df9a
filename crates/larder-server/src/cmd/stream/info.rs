//! `XINFO`: what the server knows about a stream.

use larder_resp::{Args, Encoder};

use super::reply::write_entry;
use crate::cmd::help::help;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::stream::{Id, Stream};

/// Entries that `FULL` shows without `COUNT`.
const DEFAULT_COUNT: usize = 10;

pub(crate) fn xinfo(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"stream", 3..) => stream(cx, args),
        (b"stream", _) => Err(CommandError::Arity("xinfo|stream")),
        (b"groups" | b"consumers", _) => Err(CommandError::Fixed(
            "ERR XINFO GROUPS and XINFO CONSUMERS are unknown: this server has no consumer groups of streams",
        )),
        (b"help", 2) => help(
            cx,
            "XINFO",
            &[("STREAM <key> [FULL [COUNT <count>]]", "The length, the ids and some entries of a stream.")],
        ),
        (b"help", _) => Err(CommandError::Arity("xinfo|help")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "XINFO")),
    }
}

fn stream(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (db, key) = (cx.db(), &args[2]);
    let most_bytes = cx.out.len() as u64 + cx.reply_bytes_left();
    let mut reply = cx.reply();
    let found = db.stream(key, |stream| {
        let most = full_count(args)?;
        reply.map(if most.is_some() { 9 } else { 10 });
        describe(&mut reply, stream);
        match most {
            Some(most) => all_entries(&mut reply, stream, most, most_bytes),
            None => edge_entries(&mut reply, stream),
        }
        Ok::<(), CommandError>(())
    })?;
    cx.count_lookup(key, found.is_some());
    found.ok_or(CommandError::Fixed("ERR no such key"))?
}

/// The most entries that `FULL` shows; `None` without it.
fn full_count(args: Args<'_>) -> Result<Option<usize>, CommandError> {
    let options = args.skip(3);
    let is =
        |index: usize, name: &[u8]| options.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name));
    match options.len() {
        0 => Ok(None),
        1 if is(0, b"FULL") => Ok(Some(DEFAULT_COUNT)),
        3 if is(0, b"FULL") && is(1, b"COUNT") => Ok(Some(match integer(&options[2])? {
            0 => usize::MAX,
            count => usize::try_from(count).unwrap_or(DEFAULT_COUNT),
        })),
        _ => {
            let subcommand = String::from_utf8_lossy(&args[1]);
            let error = format!(
                "unknown subcommand or wrong number of arguments for '{subcommand}'. Try XINFO HELP."
            );
            Err(CommandError::Other(error))
        }
    }
}

/// What both forms begin with. The chunks take the place of the nodes of Redis' tree.
fn describe(reply: &mut Encoder<'_>, stream: &Stream) {
    let mut number = |name: &str, number: u64| {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    };
    number("length", stream.len() as u64);
    number("radix-tree-keys", stream.chunks() as u64);
    number("radix-tree-nodes", stream.chunks() as u64 + 1);
    let head = stream.head();
    let mut id = |name: &str, id: Id| {
        reply.bulk(name.as_bytes());
        reply.bulk(id.to_string().as_bytes());
    };
    id("last-generated-id", head.last_id);
    id("max-deleted-entry-id", head.max_removed_id);
    reply.bulk(b"entries-added");
    reply.integer(head.added as i64);
    reply.bulk(b"recorded-first-entry-id");
    reply.bulk(stream.first_entry_id().unwrap_or(Id::MIN).to_string().as_bytes());
}

fn edge_entries(reply: &mut Encoder<'_>, stream: &Stream) {
    reply.bulk(b"groups");
    reply.integer(0);
    for (name, reversed) in [("first-entry", false), ("last-entry", true)] {
        reply.bulk(name.as_bytes());
        let mut is_found = false;
        stream.visit(Id::MIN..=Id::MAX, reversed, |entry| {
            write_entry(reply, entry);
            is_found = true;
            false
        });
        if !is_found {
            reply.null();
        }
    }
}

fn all_entries(reply: &mut Encoder<'_>, stream: &Stream, most: usize, most_bytes: u64) {
    reply.bulk(b"entries");
    let mut left = most.min(stream.len());
    reply.array(left);
    stream.visit(Id::MIN..=Id::MAX, false, |entry| {
        write_entry(reply, entry);
        left -= 1;
        // Larger replies are refused.
        left > 0 && reply.buffer_len() as u64 <= most_bytes
    });
    reply.bulk(b"groups");
    reply.array(0);
}
