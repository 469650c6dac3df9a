//! `SCAN` and `KEYS`: iterate over the keyspace.

use larder_resp::Args;

use super::names::{Filter, Names};
use crate::cmd::options::{cursor, integer};
use crate::cmd::slices::{self, ENTRIES_PER_SLICE, SlicedWork};
use crate::cmd::{CommandError, Context, Outcome};

/// Entries that `SCAN` visits without `COUNT`.
const DEFAULT_COUNT: usize = 10;

pub(crate) fn scan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    cx.require_all_keys()?;
    let cursor = cursor(&args[1])?;
    let options = Options::parse(args.skip(2))?;
    slices::begin(cx, Walk { names: options.names, cursor, left: options.count, replies_cursor: true })
}

pub(crate) fn keys(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    cx.require_all_keys()?;
    let names = Names::of(Filter::pattern(&args[1])?);
    slices::begin(cx, Walk { names, cursor: 0, left: usize::MAX, replies_cursor: false })
}

/// A walk over the entries that collects names.
struct Walk {
    names: Names,
    cursor: u64,
    /// The number of entries to visit at most.
    left: usize,
    /// Whether the reply has the cursor, too.
    replies_cursor: bool,
}

impl SlicedWork for Walk {
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let Walk { names, cursor, left, replies_cursor } = self;
        let count = (*left).min(ENTRIES_PER_SLICE);
        *left -= count;
        let begin = names.len();
        *cursor = cx.db().scan(*cursor, count, |name, record| {
            if names.has_type(record) {
                names.push(name);
            }
        });
        // Patterns are compared after the locks are released.
        names.retain_matching(begin);
        cx.check_reply(names.reply_bytes())?;
        let ended = *cursor == 0 || *left == 0;
        if ended {
            let mut reply = cx.reply();
            if *replies_cursor {
                reply.array(2);
                reply.bulk(cursor.to_string().as_bytes());
            }
            names.reply(&mut reply);
        }
        Ok(ended)
    }

    fn bytes(&self) -> usize {
        self.names.bytes_allocated()
    }
}

struct Options {
    count: usize,
    names: Names,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut type_name = None;
        let mut options = Options { count: DEFAULT_COUNT, names: Names::default() };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(CommandError::Syntax)?;
            if word.eq_ignore_ascii_case(b"COUNT") {
                let count = integer(value)?;
                options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(CommandError::Syntax)?;
            } else if word.eq_ignore_ascii_case(b"MATCH") {
                options.names = Names::of(Filter::pattern(value)?);
            } else if word.eq_ignore_ascii_case(b"TYPE") {
                type_name = Some(value);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if let Some(name) = type_name {
            options.names = options.names.of_type(name);
        }
        Ok(options)
    }
}
