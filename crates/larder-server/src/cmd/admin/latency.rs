//! `LATENCY`: how long commands take. There is no monitor of events behind it, as in a Redis whose monitor is off; what took
//! long is in the slow log.

use std::collections::HashSet;
use std::time::Duration;

use larder_resp::Args;

use crate::cmd::help::help;
use crate::cmd::{CommandError, Context, Outcome};
use crate::stats::CommandTotals;

const DOCTOR: &str = "This server does not monitor events: SLOWLOG GET shows the commands that took long, and INFO \
     latencystats and LATENCY HISTOGRAM how long commands take.\n";

pub(crate) fn latency(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"latest", 2) | (b"history", 3) => {
            cx.reply().array(0);
            Ok(())
        }
        (b"latest", _) => Err(CommandError::Arity("latency|latest")),
        (b"history", _) => Err(CommandError::Arity("latency|history")),
        (b"reset", _) => cx.integer(0),
        (b"graph", 3) => {
            let event = String::from_utf8_lossy(&args[2]);
            Err(CommandError::Other(format!("No samples available for event '{event}'")))
        }
        (b"graph", _) => Err(CommandError::Arity("latency|graph")),
        (b"doctor", 2) => {
            cx.reply().verbatim(b"txt", DOCTOR.as_bytes());
            Ok(())
        }
        (b"doctor", _) => Err(CommandError::Arity("latency|doctor")),
        (b"histogram", _) => histogram(cx, args.skip(2)),
        (b"help", 2) => help(
            cx,
            "LATENCY",
            &[
                ("DOCTOR", "Where to look instead of a diagnosis."),
                ("GRAPH <event>", "An error: no events are monitored."),
                ("HISTOGRAM [<command> ...]", "How many calls took at most 1, 2, 4 … microseconds."),
                ("HISTORY <event>", "Returns nothing: no events are monitored."),
                ("LATEST", "Returns nothing: no events are monitored."),
                ("RESET [<event> ...]", "Returns 0: no events are monitored."),
            ],
        ),
        (b"help", _) => Err(CommandError::Arity("latency|help")),
        _ => Err(CommandError::unknown_subcommand(&args[1], "LATENCY")),
    }
}

/// The names and times of these commands, or of all; those that were not called are left out.
fn histogram(cx: &mut Context<'_>, names: Args<'_>) -> Outcome {
    let totals = cx.state.stats.commands();
    let mut shown: Vec<(&str, &CommandTotals)> =
        cx.state.stats.specs.iter().zip(&totals).map(|(spec, totals)| (spec.name, totals)).collect();
    shown.retain(|(_, totals)| totals.calls > 0);
    if !names.is_empty() {
        let wanted: HashSet<Vec<u8>> = names.iter().map(<[u8]>::to_ascii_lowercase).collect();
        shown.retain(|(name, _)| wanted.contains(name.as_bytes()));
    }
    let mut reply = cx.reply();
    reply.map(shown.len());
    for (name, totals) in shown {
        let steps = steps(totals);
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(totals.calls as i64);
        reply.bulk(b"histogram_usec");
        reply.map(steps.len());
        for (micros, calls) in steps {
            reply.integer(micros as i64);
            reply.integer(calls as i64);
        }
    }
    Ok(())
}

/// Powers of two in microseconds, and the calls that took at most so long. Only those at which the number grows.
fn steps(totals: &CommandTotals) -> Vec<(u64, u64)> {
    let mut steps: Vec<(u64, u64)> = Vec::new();
    for micros in (0..u64::BITS).map(|power| 1 << power) {
        let (calls, is_all) = totals.calls_within(Duration::from_micros(micros));
        if calls > steps.last().map_or(0, |(_, before)| *before) {
            steps.push((micros, calls));
        }
        if is_all {
            break;
        }
    }
    steps
}
