//! `INFO`, `TIME`, `DBSIZE`, `ROLE`, `FLUSHDB`, `FLUSHALL`: commands on the whole server.

use larder_resp::{Args, parse_integer};

use super::info::{self, Counters};
use crate::cmd::options::integer;
use crate::cmd::slices::{self, ENTRIES_PER_SLICE, SlicedWork};
use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::Notice;

pub(crate) fn info(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    cx.publish_counts();
    let requested = args.skip(1);
    let counters = match info::counts_keys(args) {
        true => Counters {
            engine: cx.db().engine_stats(),
            databases: std::array::from_fn(|index| cx.database(index as u8).counts()),
        },
        false => Counters::default(),
    };
    let text = info::text(cx.state, &counters, requested);
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

pub(crate) fn time(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let now = cx.state.store.unix_time();
    let mut reply = cx.reply();
    reply.array(2);
    reply.bulk_integer(now.as_secs() as i64);
    reply.bulk_integer(i64::from(now.subsec_micros()));
    Ok(())
}

pub(crate) fn dbsize(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    cx.require_all_keys()?;
    cx.integer(cx.db().len() as i64)
}

pub(crate) fn role(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    if let Some(source) = cx.state.copied_source() {
        let state = cx.state.copying.state().name();
        let mut reply = cx.reply();
        reply.array(5);
        reply.bulk(b"slave");
        reply.bulk(source.host.as_bytes());
        reply.integer(i64::from(source.port));
        reply.bulk(state.as_bytes());
        reply.integer(-1);
        return Ok(());
    }
    let mut reply = cx.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(())
}

/// `REPLICAOF NO ONE` ends the copy of a Redis, if there is one. The server cannot become a replica.
pub(crate) fn replicaof(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !(args[1].eq_ignore_ascii_case(b"no") && args[2].eq_ignore_ascii_case(b"one")) {
        return Err(CommandError::Fixed(
            "ERR this server is no replica: it copies a running Redis if it is started with --from",
        ));
    }
    cx.state.copying.let_end();
    cx.ok()
}

/// There are no replicas, so none has to be waited for.
pub(crate) fn wait(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    integer(&args[1])?;
    match parse_integer(&args[2]) {
        Some(0..) => cx.integer(0),
        Some(_) => Err(CommandError::Fixed("ERR timeout is negative")),
        None => Err(CommandError::Fixed("ERR timeout is not an integer or out of range")),
    }
}

pub(crate) fn flushdb(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    flush(cx, args, false)
}

pub(crate) fn flushall(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    flush(cx, args, true)
}

fn flush(cx: &mut Context<'_>, args: Args<'_>, all: bool) -> Outcome {
    check_mode(args)?;
    cx.state.store.skip_loading((!all).then(|| cx.session.database()));
    cx.tell(Notice::FlushBegins(cx.origin()));
    slices::begin(cx, Flush { all, cursor: 0 })
}

/// Removes the entries of the database, or of all.
struct Flush {
    all: bool,
    cursor: u64,
}

impl SlicedWork for Flush {
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        self.cursor = cx.db().clear_from(self.cursor, ENTRIES_PER_SLICE, self.all);
        if self.cursor != 0 {
            return Ok(false);
        }
        cx.tell(Notice::FlushEnds(cx.origin()));
        cx.ok().map(|()| true)
    }
}

/// Checks the mode. Both modes do the same here: they remove entries in slices, and reply at the end.
fn check_mode(args: Args<'_>) -> Outcome {
    match args.get(1) {
        None => Ok(()),
        Some(mode)
            if args.len() == 2 && [&b"ASYNC"[..], b"SYNC"].iter().any(|m| mode.eq_ignore_ascii_case(m)) =>
        {
            Ok(())
        }
        Some(_) => Err(CommandError::Syntax),
    }
}
