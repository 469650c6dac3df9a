//! `MEMORY`: what entries and the server need.

use larder_resp::Args;

use super::info::fragmentation_ratio;
use crate::cmd::help::help;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::system;

const DOCTOR: &str =
    "This server does not diagnose its memory: INFO memory and MEMORY STATS have the numbers.\n";

pub(crate) fn memory(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"usage", 3..) => usage(cx, &args[2], args.skip(3)),
        (b"usage", _) => Err(CommandError::Arity("memory|usage")),
        (b"stats", 2) => stats(cx),
        (b"stats", _) => Err(CommandError::Arity("memory|stats")),
        (b"doctor", 2) => {
            cx.reply().verbatim(b"txt", DOCTOR.as_bytes());
            Ok(())
        }
        (b"doctor", _) => Err(CommandError::Arity("memory|doctor")),
        // What is not used goes back to the system anyway.
        (b"purge", 2) => cx.ok(),
        (b"purge", _) => Err(CommandError::Arity("memory|purge")),
        (b"malloc-stats", 2) => {
            cx.reply().bulk(b"Stats not supported for the current allocator");
            Ok(())
        }
        (b"malloc-stats", _) => Err(CommandError::Arity("memory|malloc-stats")),
        (b"help", 2) => help(
            cx,
            "MEMORY",
            &[
                ("DOCTOR", "Where to look instead of a diagnosis."),
                ("MALLOC-STATS", "Says that there are none."),
                ("PURGE", "Accepted; what is not used goes back to the system anyway."),
                ("STATS", "The memory of the server, by what needs it."),
                ("USAGE <key> [SAMPLES <count>]", "The bytes that the entry is charged."),
            ],
        ),
        (b"help", _) => Err(CommandError::Arity("memory|help")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "MEMORY")),
    }
}

fn usage(cx: &mut Context<'_>, key: &[u8], options: Args<'_>) -> Outcome {
    let mut options = options.iter();
    while let Some(option) = options.next() {
        // Samples are for values of many parts.
        let count = options.next().filter(|_| option.eq_ignore_ascii_case(b"SAMPLES"));
        if integer(count.ok_or(CommandError::Syntax)?)? < 0 {
            return Err(CommandError::Syntax);
        }
    }
    match cx.db().charge(key) {
        Some(charge) => cx.reply().integer(charge as i64),
        None => cx.reply().null(),
    }
    Ok(())
}

/// A number of `MEMORY STATS`.
enum Number {
    Bytes(u64),
    Ratio(f64),
}

/// The fields of Redis whose meaning exists here; those of its allocator do not.
fn stats(cx: &mut Context<'_>) -> Outcome {
    use Number::{Bytes, Ratio};
    let (state, keys) = (cx.state, cx.db().engine_stats().entries);
    let (used, dataset) = (state.store.used_memory(), state.store.charged_memory());
    let peak = state.stats.record_memory(used);
    let (rss, (_, scripts)) = (system::resident_bytes().unwrap_or(0), state.script_counts());
    let percentage = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let fields = [
        ("peak.allocated", Bytes(peak)),
        ("total.allocated", Bytes(used)),
        ("startup.allocated", Bytes(0)),
        ("replication.backlog", Bytes(0)),
        ("clients.slaves", Bytes(0)),
        ("clients.normal", Bytes(state.clients.buffered_bytes())),
        ("cluster.links", Bytes(0)),
        ("aof.buffer", Bytes(0)),
        ("lua.caches", Bytes(scripts as u64)),
        ("functions.caches", Bytes(0)),
        ("overhead.total", Bytes(used.saturating_sub(dataset))),
        ("keys.count", Bytes(keys)),
        ("keys.bytes-per-key", Bytes(used.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", Bytes(dataset)),
        ("dataset.percentage", Ratio(percentage(dataset, used))),
        ("peak.percentage", Ratio(percentage(used, peak))),
        ("fragmentation", Ratio(fragmentation_ratio(state, rss))),
        ("fragmentation.bytes", Bytes(rss.saturating_sub(used))),
    ];
    let mut reply = cx.reply();
    reply.map(fields.len());
    for (name, number) in fields {
        reply.bulk(name.as_bytes());
        match number {
            Bytes(bytes) => reply.integer(bytes as i64),
            Ratio(ratio) => reply.double(ratio),
        }
    }
    Ok(())
}
